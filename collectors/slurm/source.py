"""Live source `slurm`: a controller asked again and again who holds which GPUs, and its accounting how jobs ended."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.collectors.slurm.changes import Book
from gpuwatch.collectors.slurm.partitions import Devices, completed, usage
from gpuwatch.collectors.slurm.queries import Asking, reindexed
from gpuwatch.collectors.slurm.queue_changes import Standing
from gpuwatch.collectors.slurm.rest_client import Access
from gpuwatch.collectors.slurm.text import expand_hostlist
from gpuwatch.collectors.slurm.via_commands import ByCommand
from gpuwatch.collectors.slurm.via_rest import VERSIONS, ByRest
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_CATCH_UP_US = 7 * DAY_US
"""How far accounting is ever asked to reach back."""
MAX_CLUSTERS = 100
MAX_DEVICES_A_NODE = 64


@live("slurm", "Slurm polled through its own commands or slurmrestd: what runs and waits, what ended, queues and nodes")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[slurm]]` table; clusters must differ, since a cluster's runs are compared with its records."""
    sources: dict[str, SlurmSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[slurm]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        where = f"[[slurm]] {number}"
        minors = _minors(table.get("gpu_minors", {}), where, problems)
        options = Options({name: value for name, value in table.items() if name != "gpu_minors"}, where, problems)
        cluster = options.text("cluster", "default")
        source = SlurmSource(cluster, options, minors)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "must be there and differ from the other [[slurm]] tables")
        sources[cluster] = source
    return list(sources.values())


def asking_of(cluster: str, options: Options) -> Asking:
    """Commands on this machine, or slurmrestd where `url` names one. What is wrong is told to the options."""
    timeout_s = options.number("timeout_s", 30, 0.1, 600)
    max_bytes = int(options.number("max_bytes", 256 << 20, 1024, 4 << 30))
    folder, conf_file = options.path("bin_dir", folder=True), options.path("conf_file")
    access = Access(
        url=options.text("url").rstrip("/"),
        token_file=options.path("token_file"),
        user=options.text("user"),
        ca_file=options.path("ca_file"),
        cert_file=options.path("cert_file"),
        key_file=options.path("key_file"),
        insecure_skip_verify=options.flag("insecure_skip_verify", False),
    )
    version = options.text("api_version")
    if version and version not in VERSIONS:
        options.wrong("api_version", f"must be one of {', '.join(reversed(VERSIONS))}, not {version!r}")
    if not access.url:
        if access != Access("") or version:
            options.wrong("url", "must be there too: token_file, user, api_version and TLS are those of slurmrestd")
        return ByCommand(cluster, folder, conf_file, timeout_s, max_bytes)
    if folder or conf_file:
        options.wrong("url", "cannot be there together with bin_dir or conf_file: those are for commands")
    if not re.fullmatch(r"https?://[^/?#@\s]+|unix://(/[^?#\s]+)", access.url):
        options.wrong("url", "must be http://host:6820, https://host:6820 or unix:///path/slurmrestd.sock")
    if access.key_file and not access.cert_file:
        options.wrong("key_file", "needs cert_file")
    return ByRest(cluster, access, version, timeout_s, max_bytes)


class SlurmSource:
    """One Slurm cluster, polled. One object a cluster; not for two tasks at once."""

    kind = "slurm"

    def __init__(self, cluster: str, options: Options, minors: Mapping[str, Sequence[int]]) -> None:
        """Reads its options; what is wrong is told there."""
        self.name = f"slurm {cluster}"
        self.cluster = cluster
        self.interval_s = options.number("interval_s", 15, 1, 3600)
        self._accounting = options.flag("accounting", True)
        self._queues = options.flag("queues", True)
        self._queues_every_us = int(options.number("queues_interval_s", 60, 1, 86_400) * SECOND_US)
        self._accounts_every_us = int(options.number("sacct_interval_s", 60, 1, 86_400) * SECOND_US)
        self._lookback_us = int(options.number("sacct_lookback_s", 7200, 60, 604_800) * SECOND_US)
        self._first_lookback_us = int(options.number("lookback_start_s", 86_400, 60, 604_800) * SECOND_US)
        self._asking = asking_of(cluster, options)
        self._minors = minors
        self._book: Book | None = None
        self._standing = Standing()
        self._devices: Devices = {}
        self._heard_us: int | None = None
        """Up to when accounting was heard, or before that the store's records reach."""
        self._fresh = True
        """Accounting was not heard since the process began."""
        self._next_accounts_us = 0
        self._next_queues_us = 0
        self._problems: dict[str, str] = {}
        """What does not stop a round: accounting or queues that do not answer."""

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls for ever. Begins with what the store knows, also when it is started again."""
        self._book, self._standing, self._fresh = None, Standing(), True
        await rounds(lambda: self.poll(sink, now_us), self.interval_s, now_us)

    async def poll(self, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: asks, writes the news, tells the sink how it went. False when the controller did not answer."""
        try:
            if self._book is None:
                book = Book()
                self._heard_us = book.remember(await sink.open_claims(self.cluster, "slurm"))
                for table in ("workload", "queue") if self._queues else ():
                    self._standing.remember(await sink.open_rows(self.cluster, table), now_us())
                self._book = book
            rows, jobs = await self._control(self._book, sink, now_us)
            if self._queues and _due(now_us(), self._next_queues_us, self._queues_every_us):
                self._next_queues_us = now_us() + self._queues_every_us
                rows += await self._beside("queues", self._limits(jobs, sink, now_us))
            if self._accounting and _due(now_us(), self._next_accounts_us, self._accounts_every_us):
                self._next_accounts_us = now_us() + self._accounts_every_us
                rows += await self._beside("accounts", self._accounts(self._book, sink, now_us))
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        if self._problems:
            sink.failed(self.name, now_us(), " | ".join(self._problems.values()))
        else:
            sink.succeeded(self.name, now_us(), rows)
        return True

    async def _beside(self, what: str, round_: Coroutine[Any, Any, int]) -> int:
        """Rows of a part that may fail alone: the jobs that run are known all the same."""
        self._problems.pop(what, None)
        try:
            return await round_
        except GpuwatchError as error:
            self._problems[what] = str(error)
            return 0

    async def _control(self, book: Book, sink: Sink, now_us: Callable[[], int]) -> tuple[int, list[Row]]:
        """Jobs and nodes as slurmctld knows them now; returns how many rows it told, and those of jobs."""
        rejects, at_us = Rejects(), now_us()
        jobs = reindexed(await self._asking.jobs(at_us, rejects), self._minors)
        nodes = await self._asking.nodes(at_us, rejects)

        def news() -> list[Row]:
            self._devices = {row["node"]: json.loads(row["devices"] or "{}") for _, row in nodes}
            told = book.jobs(jobs, at_us, rejects) + book.nodes(nodes, at_us)
            return told + (self._standing.workloads(jobs, at_us, rejects) if self._queues else [])

        rows = await asyncio.to_thread(news)
        if not self._accounting:
            rows += book.close_lost(book.lost(), at_us)
        await write(sink, self.name, list(batches(rows)), rejects, now_us)
        return len(nodes) + sum(table != "workload" for table, _ in jobs), jobs

    async def _limits(self, jobs: list[Row], sink: Sink, now_us: Callable[[], int]) -> int:
        """Partitions, QOS and reservations, with what jobs use of them."""
        rejects, at_us = Rejects(), now_us()
        rows = await self._asking.queues(at_us, self._accounting, rejects)
        told = await asyncio.to_thread(lambda: list(completed(rows, self._devices, usage(jobs))))
        await write(sink, self.name, list(batches(self._standing.queues(told, at_us))), rejects, now_us)
        return len(told)

    async def _accounts(self, book: Book, sink: Sink, now_us: Callable[[], int]) -> int:
        """How jobs ended since accounting was last heard, and an overlap: records may arrive late."""
        rejects, at_us = Rejects(), now_us()
        rows = await self._asking.ended(self._since_us(at_us), at_us, rejects)
        news = await asyncio.to_thread(book.accounts, rows)
        if lost := book.lost()[: self._asking.max_lost]:
            # What began before the window and is gone is asked for by its number, before it is given up.
            news += book.accounts(await self._asking.ended_of(lost, at_us, rejects))
            news += book.close_lost(lost, at_us)
        news += self._standing.ended(news, at_us)
        await write(sink, self.name, list(batches(news)), rejects, now_us)
        self._heard_us, self._fresh = at_us, False
        return sum(table == "claim" for table, _ in rows)

    def _since_us(self, at_us: int) -> int:
        """Start of the window to ask sacct for. A process that begins reaches back to what the store last heard."""
        since_us = at_us if self._heard_us is None else self._heard_us - self._lookback_us
        if self._fresh:
            since_us = min(since_us, at_us - self._first_lookback_us)
        return max(since_us, at_us - MAX_CATCH_UP_US)


def _due(now_us: int, next_us: int, every_us: int) -> bool:
    """Whether it is time; after a clock that was set back too, which would else wait for the old time."""
    return now_us >= next_us or now_us < next_us - every_us


def _minors(value: Any, where: str, problems: list[str]) -> dict[str, tuple[int, ...]]:
    """Minor numbers in NVML's order by node, of `{"gpu[01-08]" = [2, 3, 0, 1]}`; what is wrong is told."""
    found: dict[str, tuple[int, ...]] = {}
    try:
        for hosts, numbers in value.items():
            if not numbers or len(numbers) > MAX_DEVICES_A_NODE or len(set(numbers)) < len(numbers):
                raise ValueError
            if not all(type(number) is int and 0 <= number < 1000 for number in numbers):
                raise ValueError
            found |= dict.fromkeys(expand_hostlist(hosts), tuple(numbers))
    except (AttributeError, TypeError, ValueError):
        problems.append(
            f'{where} gpu_minors: must be like {{"gpu[01-08]" = [2, 3, 0, 1]}}: minor numbers in NVML\'s order'
        )
    return found
