"""Live source `slurm`: a controller asked again and again who holds which GPUs, and its accounting how jobs ended.

squeue is not run: `scontrol show job` lists the waiting jobs too, from the same memory of slurmctld, with more columns.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.clock import DAY_US, SECOND_US, from_us
from gpuwatch.collectors.live_options import Options, backoff_s
from gpuwatch.collectors.live_write import write
from gpuwatch.collectors.slurm_accounting import FIELDS, parse_sacct
from gpuwatch.collectors.slurm_book import Book, RunKey
from gpuwatch.collectors.slurm_command import environment, output_of
from gpuwatch.collectors.slurm_control import parse_scontrol
from gpuwatch.collectors.slurm_files import Lines, Row, batches
from gpuwatch.errors import GpuwatchError
from gpuwatch.model import Rejects, Source
from gpuwatch.registry import LiveSource, Sink, live

MAX_CATCH_UP_US = 7 * DAY_US
"""How far sacct is ever asked to reach back."""
MAX_LOST_JOBS = 1000
"""Jobs that one sacct is asked for by number."""
MAX_WAIT_S = 300.0
DELIMITER = "^|^"
"""Between sacct's columns: a plain bar may stand in a job's name."""
MAX_CLUSTERS = 100

JOBS = ("scontrol", "--all", "show", "job", "-d")
NODES = ("scontrol", "--all", "show", "node", "-d")
SACCT = (
    *("sacct", "--allusers", "--duplicates", "--allocations", "--parsable2"),
    *(f"--delimiter={DELIMITER}", f"--format={FIELDS}"),
)

Parse = Callable[[Lines, Source, Rejects], Iterator[Row]]


@live("slurm", "Slurm polled through its own commands: scontrol for what runs and waits, sacct for what ended")
def configure(tables: Sequence[Mapping[str, Any]], problems: list[str]) -> Sequence[LiveSource]:
    """One source a `[[slurm]]` table; clusters must differ, since a cluster's runs are compared with its records."""
    sources: dict[str, SlurmSource] = {}
    if len(tables) > MAX_CLUSTERS:
        problems.append(f"[[slurm]]: more than {MAX_CLUSTERS} tables")
    for number, table in enumerate(tables[:MAX_CLUSTERS], start=1):
        options = Options(table, f"[[slurm]] {number}", problems)
        cluster = options.text("cluster", "default")
        source = SlurmSource(cluster, options)
        options.finish()
        if not cluster or cluster in sources:
            options.wrong("cluster", "must be there and differ from the other [[slurm]] tables")
        sources[cluster] = source
    return list(sources.values())


class SlurmSource:
    """One Slurm cluster, polled through scontrol and sacct. One object a cluster; not for two tasks at once."""

    kind = "slurm"

    def __init__(self, cluster: str, options: Options) -> None:
        """Reads its options; what is wrong is told there."""
        self.name = f"slurm {cluster}"
        self.cluster = cluster
        self.interval_s = options.number("interval_s", 15, 1, 3600)
        self._accounting = options.flag("accounting", True)
        self._accounts_every_us = int(options.number("sacct_interval_s", 60, 1, 86_400) * SECOND_US)
        self._lookback_us = int(options.number("sacct_lookback_s", 7200, 60, 604_800) * SECOND_US)
        self._first_lookback_us = int(options.number("lookback_start_s", 86_400, 60, 604_800) * SECOND_US)
        self._timeout_s = options.number("timeout_s", 30, 0.1, 600)
        self._max_bytes = int(options.number("max_bytes", 256 << 20, 1024, 4 << 30))
        self._folder = options.path("bin_dir", folder=True)
        self._env = environment(os.environ, options.path("conf_file"))
        self._book: Book | None = None
        self._heard_us: int | None = None
        """Up to when sacct was heard, or before that the store's records reach."""
        self._fresh = True
        """sacct was not heard since the process began."""
        self._next_accounts_us = 0
        self._accounts_problem: str | None = None
        self._refused: dict[str, dict[str, int]] = {}

    async def run(self, sink: Sink, now_us: Callable[[], int]) -> None:
        """Polls for ever. Begins with what the store knows, also when it is started again."""
        self._book, self._fresh, failures = None, True, 0
        while True:
            started_us = now_us()
            failures = 0 if await self.poll(sink, now_us) else failures + 1
            spent_s = max(0, now_us() - started_us) / SECOND_US
            wait_s = self.interval_s + (backoff_s(failures, self.interval_s, MAX_WAIT_S) if failures else 0.0)
            await asyncio.sleep(max(0.1, wait_s - spent_s))

    async def poll(self, sink: Sink, now_us: Callable[[], int]) -> bool:
        """One round: asks, writes the news, tells the sink how it went. False when the controller did not answer."""
        rows = 0
        try:
            if self._book is None:
                book = Book()
                self._heard_us = book.remember(await sink.open_claims(self.cluster, "slurm"))
                self._book = book
            rows = await self._control(self._book, sink, now_us)
            if self._accounting and now_us() >= self._next_accounts_us:
                self._next_accounts_us = now_us() + self._accounts_every_us
                self._accounts_problem = None
                try:
                    rows += await self._accounts(self._book, sink, now_us)
                except GpuwatchError as error:
                    # The jobs that run are known all the same; ends wait until accounting answers.
                    self._accounts_problem = str(error)
        except GpuwatchError as error:
            sink.failed(self.name, now_us(), str(error))
            return False
        if self._accounts_problem is None:
            sink.succeeded(self.name, now_us(), rows)
        else:
            sink.failed(self.name, now_us(), self._accounts_problem)
        return True

    async def _control(self, book: Book, sink: Sink, now_us: Callable[[], int]) -> int:
        """Jobs and nodes as slurmctld knows them now; returns how many rows it told."""
        rejects, at_us = Rejects(), now_us()
        jobs = await self._ask(JOBS, parse_scontrol, at_us, rejects)
        nodes = await self._ask(NODES, parse_scontrol, at_us, rejects)
        news = await asyncio.to_thread(lambda: book.jobs(jobs, at_us, rejects) + book.nodes(nodes, at_us))
        if not self._accounting:
            news += book.close_lost(book.lost(), at_us)
        await write(sink, self.name, list(batches(news)), rejects, now_us)
        return len(jobs) + len(nodes)

    async def _accounts(self, book: Book, sink: Sink, now_us: Callable[[], int]) -> int:
        """How jobs ended since sacct was last heard, and an overlap: records may arrive late."""
        rejects, at_us = Rejects(), now_us()
        rows = await self._ask((*SACCT, "--starttime", _utc(self._since_us(at_us))), parse_sacct, at_us, rejects)
        news = await asyncio.to_thread(book.accounts, rows)
        if lost := book.lost()[:MAX_LOST_JOBS]:
            # What began before the window and is gone is asked for by its number, before it is given up.
            if named := by_number(lost):
                news += book.accounts(await self._ask((*SACCT, *named), parse_sacct, at_us, rejects))
            news += book.close_lost(lost, at_us)
        await write(sink, self.name, list(batches(news)), rejects, now_us)
        self._heard_us, self._fresh = at_us, False
        return len(rows)

    def _since_us(self, at_us: int) -> int:
        """Start of the window to ask sacct for. A process that begins reaches back to what the store last heard."""
        since_us = at_us if self._heard_us is None else self._heard_us - self._lookback_us
        if self._fresh:
            since_us = min(since_us, at_us - self._first_lookback_us)
        return max(since_us, at_us - MAX_CATCH_UP_US)

    async def _ask(self, command: tuple[str, ...], parse: Parse, at_us: int, rejects: Rejects) -> list[Row]:
        """Rows of what a command prints. What it refuses is counted once, not again at each poll."""
        argv = [os.path.join(self._folder, command[0]), *command[1:]]
        printed = await output_of(argv, self._env, self._timeout_s, self._max_bytes)
        name = " ".join(command[:1] if command[0] == "sacct" else (command[0], *command[2:]))
        source, refused = Source(name, self.cluster, "UTC", at_us), Rejects()
        # A big cluster prints tens of megabytes: they are read beside the loop, which other sources share.
        rows = await asyncio.to_thread(lambda: list(parse(_lines(printed), source, refused)))
        told = self._refused.get(name, {})
        for reason, count in refused.counts.items():
            if count > told.get(reason, 0):
                rejects.add(reason, *refused.first[reason], count=count - told.get(reason, 0))
        self._refused[name] = refused.counts
        return rows


def by_number(runs: Sequence[RunKey]) -> list[str]:
    """sacct's options for runs by job number, none when their keys tell no number: `7@<start in µs>` does."""
    keys = [key.partition("@") for _, key in runs]
    known = [(number, int(start)) for number, _, start in keys if number.isdigit() and start.isdigit()]
    if not known:
        return []
    since_us = min(start for _, start in known)
    return ["--starttime", _utc(since_us), "--jobs", ",".join(sorted({number for number, _ in known}))]


def _utc(us: int) -> str:
    return from_us(us).strftime("%Y-%m-%dT%H:%M:%S")


def _lines(printed: bytes) -> Lines:
    lines = printed.decode(errors="replace").split("\n")
    return ((number, line.rstrip("\r")) for number, line in enumerate(lines, start=1))
