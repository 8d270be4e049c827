"""Live source `kubernetes`: lists and watches the objects of an API server (`[[kubernetes]]` in gpuwatch.toml)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from gpuwatch.collectors.kubernetes.access import access_options
from gpuwatch.collectors.kubernetes.api_groups import FORBIDDEN, NOT_FOUND, versions_of
from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.client import Access, Client, Garbled, Refused, missing_rule
from gpuwatch.collectors.kubernetes.feeds import Claims, CustomObjectFeed, Events, Feed, Nodes, Pods, Slices
from gpuwatch.collectors.kubernetes.kinds import kinds
from gpuwatch.collectors.kubernetes.watch import Pauses, Watch
from gpuwatch.collectors.kubernetes.writer import Writer
from gpuwatch.collectors.shared.clock import ClockCheck, traces
from gpuwatch.collectors.shared.live_options import Options, backoff_s
from gpuwatch.core.errors import SourceUnreachable
from gpuwatch.core.registry import LiveSource, Sink, live

if TYPE_CHECKING:
    import aiohttp  # takes 0.2 s to import, which most commands do not need

WATCH_S = 40
"""Requested duration of a watch. Its clean end proves that a quiet cluster is alive; one that does not end is broken."""
SPREAD = 1.2
"""Watches are spread over up to this multiple of WATCH_S, so that a silent one is noticed within a minute."""
CLIENT_S = 600.0
"""How long a connection is used, before the files of its certificates are read again."""
BEAT_S = 15.0
DISCOVER_S = 600.0
"""How often the server is checked again for kinds that it lacked or refused."""
REMEMBERED = ("queue", "workload")
"""Tables whose open rows are read at the start, to detect what was deleted while the source did not run."""
MAX_WATCHES = 5000
NO_KINDS = "none"
"""In `kinds`: only pods, nodes and events."""
FIRST_WAIT_S = 1.0
MAX_WAIT_S = 15.0
MAX_CLUSTERS = 100


@live("kubernetes", "Kubernetes: Pods, Nodes, Events, queues, gangs and jobs of an API server, listed and watched")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per `[[kubernetes]]` table. Clusters must differ, since a list ends whatever it does not have."""
    sources: dict[str, KubernetesSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[kubernetes]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        options = Options(table, f"[[kubernetes]] {number}", problems)
        cluster = options.text("cluster", "default")
        source = KubernetesSource(cluster, access_options(options, os.environ), options)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "must be set and differ from the other [[kubernetes]] tables")
        sources[cluster] = source
    return list(sources.values())


class KubernetesSource:
    """One API server, with a watch per kind, or per kind and namespace if namespaces are configured."""

    kind = "kubernetes"
    interval_s = WATCH_S * SPREAD

    def __init__(self, cluster: str, access: Access, options: Options) -> None:
        """Reads the options and reports wrong ones there."""
        self.name = f"kubernetes {access.server}"
        self.cluster = cluster
        self._access = access
        self._traces: list[aiohttp.TraceConfig] = []
        self._page_size = int(options.number("page_size", 500, 1, 10_000))
        self._namespaces = options.texts("namespaces")
        self._nodes = options.flag("nodes", True)
        self._events = options.flag("events", True)
        self._kinds = selected_kinds(options)
        if len(self._namespaces) * (len(self._kinds) + 4) > MAX_WATCHES:
            options.wrong("namespaces", f"and kinds need more than {MAX_WATCHES} watches; leave kinds out")

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Lists and watches forever, starting from what is open in the store."""
        changes = ClusterChanges(self._nodes)
        writer = Writer(self.name, self.cluster, changes, sink, now_us)
        check = ClockCheck(lambda offset_us, at_us: sink.clock(self.cluster, self.name, offset_us, at_us))
        self._traces = traces(check, now_us)
        alive_us = changes.remember(await sink.open_claims(self.cluster, "kubernetes"))
        remembered = [
            changes.remember_objects(table, await sink.open_rows(self.cluster, table)) for table in REMEMBERED
        ]
        observed_us = max((us for us in (alive_us, *remembered) if us is not None), default=None)
        watched: dict[str, Watch] = {}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(writer.run())
            found = await self._discover(changes, sink, now_us)
            for watch in all_watches(changes, self._namespaces, self._nodes, self._events, found):
                watch.alive_us = alive_us if watch.feed.kind == "Pod" else observed_us
                watched[watch.path] = watch
                tasks.create_task(self._follow(watch, writer, sink, now_us))
            tasks.create_task(
                self._send_heartbeats(changes, writer, [w for w in watched.values() if w.feed.kind == "Pod"])
            )
            while True:
                await asyncio.sleep(DISCOVER_S * random.uniform(0.9, 1.1))
                found = await self._discover(changes, sink, now_us)
                for watch in optional_watches(changes, self._namespaces, found):
                    if watch.path not in watched:
                        watch.alive_us = observed_us
                        watched[watch.path] = watch
                        tasks.create_task(self._follow(watch, writer, sink, now_us))

    async def _discover(
        self, changes: ClusterChanges, sink: Sink, now_us: Callable[[], int]
    ) -> dict[tuple[str, str], str]:
        """Versions of the kinds that the server has; none if it refuses to list them."""
        failures = 0
        while True:
            try:
                async with Client(self._access, self._traces) as client:
                    versions = await versions_of(
                        client, [f for f in all_feeds(changes) if resource_name(f) in self._kinds]
                    )
            except Refused as error:
                sink.failed(self.name, now_us(), str(error))
                return {}
            except SourceUnreachable as error:
                failures += 1
                sink.failed(self.name, now_us(), str(error))
                await asyncio.sleep(backoff_s(failures, FIRST_WAIT_S, MAX_WAIT_S))
            else:
                return versions

    async def _follow(self, watch: Watch, writer: Writer, sink: Sink, now_us: Callable[[], int]) -> None:
        """Runs one watch forever: connects, follows it, waits, connects again."""
        for before in watch.after:
            await before.tried.wait()  # pods need their nodes and claims, and events need their pods
        pauses = Pauses()
        while True:
            try:
                async with Client(self._access, self._traces) as client:
                    await self._rounds(client, watch, writer, pauses, now_us)
                continue
            except SourceUnreachable as error:
                wait_s = pauses.after(error, watch.open_s(), FIRST_WAIT_S, MAX_WAIT_S)
                if watch.optional and isinstance(error, Refused) and error.status in (FORBIDDEN, NOT_FOUND):
                    # Other watches are not affected: reported once, and tried again later.
                    watch.listed = False
                    writer.problems.pop(watch.path, None)
                    wait_s = max(wait_s, DISCOVER_S * random.uniform(0.9, 1.1))
                    if error.status == FORBIDDEN and not watch.refused:
                        watch.refused = True
                        writer.refuse(
                            f"no permission to read {watch.path}: bind {missing_rule(watch.path)}", watch.path
                        )
                        sink.failed(self.name, now_us(), str(error))
                elif pauses.relists != 1 or isinstance(error, Garbled):
                    writer.problems[watch.path] = str(error)
                    sink.failed(self.name, now_us(), str(error))
            finally:
                watch.tried.set()
            writer.notify()
            await asyncio.sleep(wait_s)

    async def _rounds(
        self, client: Client, watch: Watch, writer: Writer, pauses: Pauses, now_us: Callable[[], int]
    ) -> None:
        """Lists and watches through one client for about CLIENT_S. Raises SourceUnreachable."""
        clock = asyncio.get_running_loop().time
        until_s = clock() + CLIENT_S
        while clock() < until_s:
            watch_s = round(WATCH_S * random.uniform(1.0, SPREAD))  # spread over time
            async with aclosing(watch.rounds(client, self._page_size, watch_s, now_us)) as rounds:
                async for read in rounds:
                    watch.refused = False
                    writer.problems.pop(watch.path, None)
                    writer.notify(read)
                    await writer.wait_for_room()
            await asyncio.sleep(pauses.after_end(watch.open_s(), FIRST_WAIT_S, MAX_WAIT_S))

    async def _send_heartbeats(self, changes: ClusterChanges, writer: Writer, pods: Sequence[Watch]) -> None:
        """Records regularly that running pods are alive, as of the last answer of every watch of pods."""
        while True:
            await asyncio.sleep(BEAT_S)
            answered = [watch.alive_us for watch in pods if watch.listed]
            if known := [us for us in answered if us is not None]:
                changes.heartbeat(min(known))
            writer.notify()


def all_watches(
    changes: ClusterChanges, namespaces: Sequence[str], nodes: bool, events: bool, found: Mapping[tuple[str, str], str]
) -> list[Watch]:
    """All watches, each after those it depends on; `found` has the versions of the kinds that the server has."""
    others = optional_watches(changes, namespaces, found)
    slices = tuple(w for w in others if w.feed.kind == "ResourceSlice")
    claims = [w for w in others if w.feed.kind == "ResourceClaim"]
    node = [Watch(changes, Nodes(changes), "v1", None, slices, optional=True)] if nodes else []
    pods = [
        Watch(
            changes, Pods(changes), "v1", namespace, (*node, *(c for c in claims if c.namespace == namespace), *slices)
        )
        for namespace in namespaces or (None,)
    ]
    every = [*others, *node, *pods]
    if events:
        every += [Watch(changes, Events(changes), "v1", pod.namespace, (pod,), optional=True) for pod in pods]
    return every


def optional_watches(
    changes: ClusterChanges, namespaces: Sequence[str], found: Mapping[tuple[str, str], str]
) -> list[Watch]:
    """Watches of the kinds that not every server has."""
    return [
        Watch(changes, feed, found[feed.group, feed.plural], namespace, (), optional=True)
        for feed in all_feeds(changes)
        if (feed.group, feed.plural) in found
        for namespace in ((namespaces or (None,)) if feed.namespaced else (None,))
    ]


def all_feeds(changes: ClusterChanges) -> list[Feed]:
    """Feeds of the kinds that not every server has."""
    return [Slices(changes), Claims(changes), *(CustomObjectFeed(changes, kind) for kind in kinds().values())]


def resource_name(feed: Feed) -> str:
    """A kind as written in `kinds` of gpuwatch.toml and in kubectl: "workloads.kueue.x-k8s.io", "resourcequotas"."""
    return f"{feed.plural}.{feed.group}" if feed.group else feed.plural


def selected_kinds(options: Options) -> frozenset[str]:
    """The kinds to read by `id_of`: those that the option names, by that or as "Workload"; all without it."""
    known = {resource_name(feed): feed.kind for feed in all_feeds(ClusterChanges()) if feed.versions}
    names = options.texts("kinds")
    if not names:
        return frozenset(known)
    for name in names:
        if name != NO_KINDS and name not in known and name not in known.values():
            options.wrong("kinds", f"{name!r} is not supported; choose from {NO_KINDS}, {', '.join(sorted(known))}")
    return frozenset(ident for ident, kind in known.items() if ident in names or kind in names)
