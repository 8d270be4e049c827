"""Live source `slurm`: polls the controller for running and pending jobs, and accounting for ended ones."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from gpuwatch.collectors.shared.clock import ClockCheck, traces
from gpuwatch.collectors.shared.live_options import Options
from gpuwatch.collectors.shared.live_rounds import rounds
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.collectors.slurm.changes import JobChanges
from gpuwatch.collectors.slurm.queries import SlurmClient, reindexed
from gpuwatch.collectors.slurm.queue_changes import QueueChanges
from gpuwatch.collectors.slurm.queue_totals import Devices, usage_by_queue, with_totals
from gpuwatch.collectors.slurm.rest_client import Access
from gpuwatch.collectors.slurm.text import expand_hostlist
from gpuwatch.collectors.slurm.via_commands import CommandClient
from gpuwatch.collectors.slurm.via_rest import VERSIONS, RestClient
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.errors import GpuwatchError
from gpuwatch.core.model import Rejects
from gpuwatch.core.registry import LiveSource, Sink, live

MAX_CATCH_UP_US = 7 * DAY_US
"""The longest period that accounting is queried for."""
MAX_CLUSTERS = 100
MAX_DEVICES_PER_NODE = 64


@live("slurm", "Slurm polled through its own commands or slurmrestd: what runs and waits, what ended, queues and nodes")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source per `[[slurm]]` table; each needs a different cluster, whose runs are compared with the store."""
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
            options.wrong("cluster", "is required and must differ from the other [[slurm]] tables")
        sources[cluster] = source
    return list(sources.values())


def client_of(cluster: str, options: Options) -> SlurmClient:
    """A client for slurmrestd if `url` is set, else for commands on this machine. Problems are added to the options."""
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
            options.wrong("url", "is required: token_file, user, api_version and TLS options are for slurmrestd")
        return CommandClient(cluster, folder, conf_file, timeout_s, max_bytes)
    if folder or conf_file:
        options.wrong("url", "cannot be combined with bin_dir or conf_file, which are for commands")
    if not re.fullmatch(r"https?://[^/?#@\s]+|unix://(/[^?#\s]+)", access.url):
        options.wrong("url", "must be http://host:6820, https://host:6820 or unix:///path/slurmrestd.sock")
    if access.key_file and not access.cert_file:
        options.wrong("key_file", "needs cert_file")
    return RestClient(cluster, access, version, timeout_s, max_bytes)


class SlurmSource:
    """One Slurm cluster that is polled. One object per cluster; not safe for concurrent tasks."""

    kind = "slurm"

    def __init__(self, cluster: str, options: Options, minors: Mapping[str, Sequence[int]]) -> None:
        """Reads the options; problems are added to them."""
        self.name = f"slurm {cluster}"
        self.cluster = cluster
        self.interval_s = options.number("interval_s", 15, 1, 3600)
        self._accounting = options.flag("accounting", True)
        self._queues = options.flag("queues", True)
        self._queues_every_us = int(options.number("queues_interval_s", 60, 1, 86_400) * SECOND_US)
        self._accounts_every_us = int(options.number("sacct_interval_s", 60, 1, 86_400) * SECOND_US)
        self._lookback_us = int(options.number("sacct_lookback_s", 7200, 60, 604_800) * SECOND_US)
        self._first_lookback_us = int(options.number("lookback_start_s", 86_400, 60, 604_800) * SECOND_US)
        self._client = client_of(cluster, options)
        self._minors = minors
        self._jobs: JobChanges | None = None
        self._queue_changes = QueueChanges()
        self._devices: Devices = {}
        self._accounted_us: int | None = None
        """The last accounting query, or at first the newest evidence in the store."""
        self._first_query = True
        """Accounting has not been queried since the process began."""
        self._next_accounts_us = 0
        self._next_queues_us = 0
        self._problems: dict[str, str] = {}
        """Errors of accounting or queues, which do not stop a round."""

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls forever. Loads the state from the store each time it is started."""
        self._jobs, self._queue_changes, self._first_query = None, QueueChanges(), True
        if isinstance(self._client, RestClient):
            check = ClockCheck(lambda offset_us, at_us: sink.clock(self.cluster, self.name, offset_us, at_us))
            self._client.traces = traces(check, now_us)
        await rounds(lambda: self.poll(sink, now_us), self.interval_s, now_us)

    async def poll(self, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: queries Slurm, writes changes, reports to the sink. False if the controller did not respond."""
        try:
            if self._jobs is None:
                tracker = JobChanges()
                self._accounted_us = tracker.remember(await sink.open_claims(self.cluster, "slurm"))
                for table in ("workload", "queue") if self._queues else ():
                    self._queue_changes.remember(await sink.open_rows(self.cluster, table), now_us())
                self._jobs = tracker
            rows, jobs = await self._poll_controller(self._jobs, sink, now_us)
            if self._queues and _due(now_us(), self._next_queues_us, self._queues_every_us):
                self._next_queues_us = now_us() + self._queues_every_us
                rows += await self._optional("queues", self._poll_queues(jobs, sink, now_us))
            if self._accounting and _due(now_us(), self._next_accounts_us, self._accounts_every_us):
                self._next_accounts_us = now_us() + self._accounts_every_us
                rows += await self._optional("accounts", self._poll_accounting(self._jobs, sink, now_us))
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        if self._problems:
            sink.failed(self.name, now_us(), " | ".join(self._problems.values()))
        else:
            sink.succeeded(self.name, now_us(), rows)
        return True

    async def _optional(self, what: str, round_: Coroutine[Any, Any, int]) -> int:
        """The row count of a part whose failure does not fail the round."""
        self._problems.pop(what, None)
        try:
            return await round_
        except GpuwatchError as error:
            self._problems[what] = str(error)
            return 0

    async def _poll_controller(
        self, tracker: JobChanges, sink: Sink, now_us: Callable[[], int]
    ) -> tuple[int, list[Row]]:
        """Writes changes of jobs and nodes; returns the number of rows received, and the rows of jobs."""
        rejects, at_us = Rejects(), now_us()
        jobs = reindexed(await self._client.jobs(at_us, rejects), self._minors)
        nodes = await self._client.nodes(at_us, rejects)

        def changes() -> list[Row]:
            self._devices = {row["node"]: json.loads(row["devices"] or "{}") for _, row in nodes}
            changed = tracker.jobs(jobs, at_us, rejects) + tracker.nodes(nodes, at_us)
            return changed + (self._queue_changes.workloads(jobs, at_us, rejects) if self._queues else [])

        rows = await asyncio.to_thread(changes)
        if not self._accounting:
            rows += tracker.close_lost(tracker.lost(), at_us)
        await write(sink, self.name, list(batches(rows)), rejects, now_us)
        return len(nodes) + sum(table != "workload" for table, _ in jobs), jobs

    async def _poll_queues(self, jobs: list[Row], sink: Sink, now_us: Callable[[], int]) -> int:
        """Writes changes of partitions, QOS and reservations, with their usage by `jobs`."""
        rejects, at_us = Rejects(), now_us()
        rows = await self._client.queues(at_us, self._accounting, rejects)
        queues = await asyncio.to_thread(lambda: list(with_totals(rows, self._devices, usage_by_queue(jobs))))
        await write(sink, self.name, list(batches(self._queue_changes.queues(queues, at_us))), rejects, now_us)
        return len(queues)

    async def _poll_accounting(self, tracker: JobChanges, sink: Sink, now_us: Callable[[], int]) -> int:
        """Writes ends of jobs since the last query and some time before it, because records may arrive late."""
        rejects, at_us = Rejects(), now_us()
        rows = await self._client.ended(self._since_us(at_us), at_us, rejects)
        changes = await asyncio.to_thread(tracker.accounts, rows)
        if lost := tracker.lost()[: self._client.max_lost]:
            # Missing runs that began before the window are looked up by number before they are closed.
            changes += tracker.accounts(await self._client.ended_of(lost, at_us, rejects))
            changes += tracker.close_lost(lost, at_us)
        changes += self._queue_changes.ended(changes, at_us)
        await write(sink, self.name, list(batches(changes)), rejects, now_us)
        self._accounted_us, self._first_query = at_us, False
        return sum(table == "claim" for table, _ in rows)

    def _since_us(self, at_us: int) -> int:
        """Start of the window to query. The first query reaches back to the newest evidence in the store."""
        since_us = at_us if self._accounted_us is None else self._accounted_us - self._lookback_us
        if self._first_query:
            since_us = min(since_us, at_us - self._first_lookback_us)
        return max(since_us, at_us - MAX_CATCH_UP_US)


def _due(now_us: int, next_us: int, every_us: int) -> bool:
    """Whether it is time, also if the clock was set back since."""
    return now_us >= next_us or now_us < next_us - every_us


def _minors(value: Any, where: str, problems: list[str]) -> dict[str, tuple[int, ...]]:
    """Minor numbers in NVML's order by node, from `{"gpu[01-08]" = [2, 3, 0, 1]}`; an error is added to `problems`."""
    found: dict[str, tuple[int, ...]] = {}
    try:
        for hosts, numbers in value.items():
            if not numbers or len(numbers) > MAX_DEVICES_PER_NODE or len(set(numbers)) < len(numbers):
                raise ValueError
            if not all(type(number) is int and 0 <= number < 1000 for number in numbers):
                raise ValueError
            found |= dict.fromkeys(expand_hostlist(hosts), tuple(numbers))
    except (AttributeError, TypeError, ValueError):
        problems.append(
            f'{where} gpu_minors: must be like {{"gpu[01-08]" = [2, 3, 0, 1]}}: minor numbers in NVML\'s order'
        )
    return found
