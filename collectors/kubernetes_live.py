"""Live source `kubernetes`: what an API server has (`[[kubernetes]]` of gpuwatch.toml), and every change of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from gpuwatch.clock import SECOND_US
from gpuwatch.collectors.kubernetes import batches
from gpuwatch.collectors.kubernetes_book import Book
from gpuwatch.collectors.kubernetes_client import Access, Client, Refused
from gpuwatch.collectors.kubernetes_watch import Watch
from gpuwatch.collectors.live_options import Options, backoff_s
from gpuwatch.collectors.live_write import write
from gpuwatch.errors import SourceUnreachable
from gpuwatch.model import Records, Rejects
from gpuwatch.registry import LiveSource, Sink, live

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/"
"""Where a pod finds its service account's token and the cluster's CA."""
WATCH_S = 240
"""How long one watch is asked for: a clean end at least this often is the sign of life of a quiet cluster."""
BEAT_S = 15.0
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 60.0
SETTLED_US = 30 * SECOND_US
"""A connection that lasted this long was no failure."""
MAX_CLUSTERS = 100
NOWHERE = Access("https://invalid.invalid")
"""Stands for a server that cannot be named; its source never runs, since the settings are refused."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@live("kubernetes", "Kubernetes: Pods, Nodes and Events of an API server, listed and then watched")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[kubernetes]]` table; clusters must differ, since a list says what a cluster no longer has."""
    sources: dict[str, KubernetesSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[kubernetes]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        options = Options(table, f"[[kubernetes]] {number}", problems)
        cluster = options.text("cluster", "default")
        source = KubernetesSource(cluster, _access(options, os.environ), options)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "must be there and differ from the other [[kubernetes]] tables")
        sources[cluster] = source
    return list(sources.values())


class KubernetesSource:
    """One API server: a watch of nodes, one of pods a namespace, one of events."""

    kind = "kubernetes"
    interval_s = float(WATCH_S)

    def __init__(self, cluster: str, access: Access, options: Options) -> None:
        """Reads its options; what is wrong is told there."""
        self.name = f"kubernetes {access.server}"
        self.cluster = cluster
        self._access = access
        self._page_size = int(options.number("page_size", 500, 1, 10_000))
        self._namespaces = options.texts("namespaces")
        self._nodes = options.flag("nodes", True)
        self._events = options.flag("events", True)
        self._begin()

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Lists and watches for ever. Begins with what the store knows, also when it is started again."""
        self._begin()
        alive_us = self._book.remember(await sink.open_claims(self.cluster, "kubernetes"))
        for watch in self._watches:
            watch.alive_us = alive_us
        async with asyncio.TaskGroup() as tasks:
            for watch in self._watches:
                tasks.create_task(self._follow(watch, sink, now_us))
            tasks.create_task(self._beat(sink, now_us))

    def _begin(self) -> None:
        self._book, self._problems, self._writing = Book(), dict[str, str](), asyncio.Lock()
        self._watches = watches(self._book, self._namespaces, self._nodes, self._events)

    async def _follow(self, watch: Watch, sink: Sink, now_us: Callable[[], int]) -> None:
        """One watch for ever: connects, follows, waits, connects again."""
        failures = 0
        if watch.after is not None:
            await watch.after.tried.wait()  # pods mean their node's GPUs, and events known pods
        while True:
            begun_us, wait_s = now_us(), 0.0
            try:
                async with (
                    Client(self._access) as client,
                    aclosing(watch.rounds(client, self._page_size, WATCH_S, now_us)) as rounds,
                ):
                    async for read in rounds:
                        self._problems.pop(watch.path, None)
                        await self._flush(sink, now_us)
                        if not self._problems:
                            sink.succeeded(self.name, now_us(), read)
                failures = 0
                wait_s = backoff_s(1, FIRST_WAIT_S, MAX_WAIT_S) if now_us() - begun_us < SECOND_US else 0.0
            except SourceUnreachable as error:
                failures = 1 if now_us() - begun_us > SETTLED_US else failures + 1
                self._problems[watch.path] = str(error)
                sink.failed(self.name, now_us(), str(error))
                wait_s = backoff_s(failures, FIRST_WAIT_S, MAX_WAIT_S)
                if isinstance(error, Refused) and error.retry_after_s is not None:
                    wait_s = max(wait_s, error.retry_after_s)
            finally:
                watch.tried.set()
            await self._flush(sink, now_us)
            await asyncio.sleep(wait_s)

    async def _beat(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Says now and then that what runs still runs, as of when every watch of pods was last heard."""
        while True:
            await asyncio.sleep(BEAT_S)
            heard = [watch.alive_us for watch in self._watches if watch.resource == "pods" and watch.listed]
            if known := [us for us in heard if us is not None]:
                self._book.heartbeat(min(known))
            await self._flush(sink, now_us)

    async def _flush(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Returns when all news is on disk; one at a time, so that news of others is waited for too."""
        async with self._writing:
            tables = self._book.take(now_us())
            rejects, self._book.rejects = self._book.rejects, Rejects()
            news: list[Records] = [b for table, rows in tables.items() for b in batches(table, rows, self.cluster)]
            await write(sink, self.name, news, rejects, now_us)


def watches(book: Book, namespaces: Sequence[str], nodes: bool, events: bool) -> list[Watch]:
    """What is watched, each after what it builds on."""
    every: list[Watch] = [Watch(book, "nodes", None, None)] if nodes else []
    base = every[0] if every else None
    pods = [Watch(book, "pods", namespace, base) for namespace in namespaces or (None,)]
    every += pods
    if events:
        every += [Watch(book, "events", pod.namespace, pod) for pod in pods]
    return every


def _access(options: Options, environment: Mapping[str, str]) -> Access:
    """Where and how to connect; without a server, the cluster this process runs in."""
    server = options.text("server").rstrip("/")
    token, ca = options.path("bearer_token_file"), options.path("ca_file")
    cert, key = options.path("cert_file"), options.path("key_file")
    insecure = options.flag("insecure_skip_verify", False)
    if not server:
        host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            options.wrong("server", "is missing, and this is no pod: give the URL of the API server")
            return NOWHERE
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        token, ca = token or f"{ACCOUNT}token", ca or (f"{ACCOUNT}ca.crt" if os.path.isfile(f"{ACCOUNT}ca.crt") else "")
    try:
        parts = urlsplit(server)
        plain = parts.scheme in ("http", "https") and parts.hostname and not parts.query and not parts.fragment
        named = "@" in parts.netloc or (parts.port or 1) < 1
    except ValueError:
        plain, named = None, True
    if not plain or named:
        options.wrong("server", "must be http(s)://host[:port] without a name or password")
        return NOWHERE
    if parts.scheme == "http" and token and parts.hostname not in LOOPBACK:
        options.wrong("server", "is http: a token would be sent in the clear; use https")
    if bool(cert) != bool(key):
        options.wrong("cert_file", "needs key_file, and key_file needs cert_file")
    return Access(server, token, ca, cert, key, insecure)
