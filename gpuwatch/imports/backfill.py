"""History out of a server of the Prometheus API: span by span, each once, the server read ahead of the store.

A span and the note that it is done are one transaction: whatever ends the program, running it again asks only for what
is missing, and nothing is stored twice.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Protocol

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.imports.files import ImportReport, seal_all
from gpuwatch.store.database import Store
from gpuwatch.store.retention import drop_late
from gpuwatch.store.wide_rows import wide

KIND = "backfill"
SETTLE_US = 5 * MINUTE_US
"""Late samples still come for that long: a span that ends later is read, but again by the next run."""
CHUNK_SAMPLES = 500_000
"""About as many samples are one transaction."""
LENGTHS_S = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Lengths of a span; each divides a day."""
RECORDS_US = 6 * HOUR_US
"""Length of a span of scheduler records."""
MEMORY_LIMIT = "300MB"
"""Of the store meanwhile: spans wait in memory beside it. Sorting a day goes through its temporary directory."""
MAX_JOBS = 16
MAX_DAYS = 3_660
MAX_WARNINGS = 20


class Chunk(Protocol):
    """What a span gave; see collectors/prometheus/metrics.py."""

    batches: list[Records | Points]
    samples: int
    bytes: int
    rejects: Rejects
    lacking: list[str]


class Source(Protocol):
    """Something that has a past: raises SourceUnreachable, UnreadableInput; used from many threads."""

    name: str
    fields: list[str]

    def find(self, start_us: int, end_us: int) -> list[str]: ...

    def measure(self, start_us: int, end_us: int) -> float: ...

    def chunk(self, start_us: int, end_us: int) -> Chunk: ...


class Scheduler(Protocol):
    """The records of kube-state-metrics in the same server."""

    name: str

    def find(self, start_us: int, end_us: int) -> list[str]: ...

    def chunk(self, start_us: int, end_us: int) -> Chunk: ...


@dataclass(frozen=True)
class History:
    """A server's past of one cluster."""

    samples: Source
    records: Scheduler
    identity: str
    """Hash of address, tenant, cluster and selector: what is done is done of these."""
    stop: Event
    close: Callable[[], None]


@dataclass
class BackfillReport(ImportReport):
    """What a backfill did: `files` are spans, `repeated` those that earlier runs had done."""

    samples: int = 0
    incomplete: int = 0
    """Spans that the server answered in part, or that late samples may still come to: the next run reads them again."""


def open_history(options: Mapping[str, Any], cluster: str) -> History:
    """The history that options of the command line name; see collectors/prometheus/options.py. Raises UsageError."""
    problems: list[str] = []
    found = importlib.import_module("gpuwatch.collectors.prometheus.options").history(options, cluster, problems)
    if problems:
        raise UsageError("backfill: " + "; ".join(problems))
    return History(*found)


@dataclass(frozen=True)
class Plan:
    """What there is to read in a time, both ends in microseconds."""

    since_us: int
    until_us: int
    now_us: int
    metrics: bool
    """Whether there are DCGM samples."""
    records: bool
    """Whether there is kube-state-metrics."""
    notes: list[str]


def look(history: History, since_us: int, until_us: int, now_us: int) -> Plan:
    """Asks what there is, before anything is written. Raises UsageError for a wrong time, SourceUnreachable, and
    UnreadableInput where there is nothing to read."""
    since_us, until_us = since_us // MINUTE_US * MINUTE_US, -(-min(until_us, now_us) // SECOND_US) * SECOND_US
    if since_us >= until_us:
        raise UsageError("backfill: --since must lie before --until, and before now")
    if until_us - since_us > MAX_DAYS * DAY_US:
        raise UsageError(f"backfill: more than {MAX_DAYS} days; give a later --since")
    names = history.samples.find(since_us, until_us)
    metrics, records = bool(history.samples.fields), bool(history.records.find(since_us, until_us))
    if not metrics and not records:
        raise UnreadableInput(_nothing(history, names, since_us, until_us))
    notes = []
    if not metrics:
        notes.append(f"{history.samples.name}: no DCGM metrics in this time; only scheduler records are read")
    if not records:
        notes.append(
            f"{history.samples.name}: no kube-state-metrics; to know who held what, give the labels of dcgm-exporter or "
            "import scheduler records"
        )
    return Plan(since_us, until_us, now_us, metrics, records, notes)


def backfill(
    store: Store,
    history: History,
    plan: Plan,
    *,
    cluster: str,
    jobs: int = 4,
    chunk_us: int | None = None,
    again: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> BackfillReport:
    """Brings the samples of a time and the scheduler's records of it into the store, and seals them.

    `again` asks also for what was done. `progress(done, total, what)` counts seconds of history. Raises
    SourceUnreachable: what was stored before stays.
    """
    store.sql("set memory_limit = $limit", limit=MEMORY_LIMIT)
    report = BackfillReport(notes=list(plan.notes))
    run = _Run(store, history, cluster, report, plan.now_us)
    parts = []
    if plan.metrics:
        length_us = chunk_us or _length(history.samples.measure(plan.since_us, plan.until_us))
        parts.append(_Part("samples", length_us, history.samples.chunk))
    if plan.records:
        parts.append(_Part("records", RECORDS_US, history.records.chunk))
    todo = []
    for part in parts:
        done = [] if again else run.done(part.name)
        report.repeated += sum(1 for start, end in done if start < plan.until_us and end > plan.since_us)
        todo.append(list(_spans(plan.since_us, plan.until_us, plan.now_us - SETTLE_US, part.length_us, done)))
    total = sum(end - start for spans in todo for start, end in spans) // SECOND_US
    finished = 0
    for part, spans in zip(parts, todo, strict=True):
        for start, end in run.read(part, spans, min(jobs, MAX_JOBS)):
            finished += (end - start) // SECOND_US
            if progress is not None:
                progress(finished, total, f"{part.name} of {rfc3339(start)[:16]}")
    if progress is not None:
        progress(total, total, "sealing")
    late = drop_late(store)
    if late:
        report.notes.append(f"{late} samples belong to days whose raw samples are past retention; they are left out")
    seal_all(store)
    store.checkpoint()
    report.notes += run.warnings()
    return report


@dataclass(frozen=True)
class _Part:
    """One kind of history, and how it is read."""

    name: str
    length_us: int
    read: Callable[[int, int], Chunk]


@dataclass
class _Run:
    """One run of backfill."""

    store: Store
    history: History
    cluster: str
    report: BackfillReport
    now_us: int
    _lock: Lock = field(default_factory=Lock)
    _lacking: dict[str, int] = field(default_factory=dict)

    def done(self, part: str) -> list[tuple[int, int]]:
        """The spans that earlier runs have read whole, in order."""
        prefix = self._digest(part, "")
        rows = self.store.sql(
            "select distinct digest from import_file where kind = $kind and cluster = $cluster"
            " and starts_with(digest, $prefix)",
            kind=KIND,
            cluster=self.cluster,
            prefix=prefix,
        )
        found = []
        for (digest,) in rows:
            start, _, end = digest.removeprefix(prefix).partition("-")
            if start.isdigit() and end.isdigit():
                found.append((int(start) * SECOND_US, int(end) * SECOND_US))
        return sorted(found)

    def read(self, part: _Part, spans: Sequence[tuple[int, int]], jobs: int) -> Iterator[tuple[int, int]]:
        """Reads spans in threads, at most `jobs` ahead, and stores them in order; yields those that are on disk."""
        todo = iter(spans)
        ahead: deque[tuple[tuple[int, int], Future[Chunk]]] = deque()
        sealed_day = spans[0][0] // DAY_US if spans else 0
        with self._threads(jobs) as pool:
            while True:
                while len(ahead) <= jobs and (span := next(todo, None)) is not None:
                    ahead.append((span, pool.submit(self._prepared, part.read, *span)))
                if not ahead:
                    return
                span, future = ahead.popleft()
                self._store(part.name, span, future.result())
                if span[0] // DAY_US > sealed_day:  # the days before are whole: sorted now, they do not wait on disk
                    sealed_day = span[0] // DAY_US
                    self.store.seal(sealed_day * DAY_US)
                yield span

    @contextmanager
    def _threads(self, jobs: int) -> Iterator[ThreadPoolExecutor]:
        """A pool whose threads stop at once when the block is left by an error."""
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="backfill")
        try:
            yield pool
        except BaseException:
            self.history.stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _prepared(self, read: Callable[[int, int], Chunk], start_us: int, end_us: int) -> Chunk:
        """A span as it goes into the store: in wide rows. One at a time, which bounds the memory."""
        chunk = read(start_us, end_us)
        with self._lock:
            chunk.batches = [Records("sample", wide(b)) if isinstance(b, Points) else b for b in chunk.batches]
        return chunk

    def _store(self, part: str, span: tuple[int, int], chunk: Chunk) -> None:
        whole = not chunk.lacking and span[1] <= self.now_us - SETTLE_US
        with self.store.transaction():
            for batch in chunk.batches:
                self.store.append(batch)
            if whole:
                self._note(part, span, chunk)
        self.report.files += 1
        self.report.incomplete += not whole
        self.report.records += chunk.samples
        self.report.samples += chunk.samples if part == "samples" else 0
        if chunk.rejects.total:
            self.report.rejects.append(chunk.rejects)
        for text in chunk.lacking:
            if text in self._lacking or len(self._lacking) < MAX_WARNINGS:
                self._lacking[text] = self._lacking.get(text, 0) + 1

    def _note(self, part: str, span: tuple[int, int], chunk: Chunk) -> None:
        """The row that says that a span is done, and what was refused of it."""
        name = f"{self.history.samples.name} {part} {rfc3339(span[0])},{rfc3339(span[1])}"
        own = {
            "digest": self._digest(part, f"{span[0] // SECOND_US}-{span[1] // SECOND_US}"),
            "kind": KIND,
            "cluster": self.cluster,
        }
        self.store.sql(
            "insert into import_file values ($digest, $kind, $cluster, $path, $bytes, $records, $rejected, $now)",
            **own,
            path=name,
            bytes=chunk.bytes,
            records=chunk.samples,
            rejected=chunk.rejects.total,
            now=self.now_us,
        )
        for reason, count in chunk.rejects.counts.items():
            path, line, example = chunk.rejects.first[reason]
            self.store.sql(
                "insert into reject values ($digest, $kind, $cluster, $path, $reason, $count, $line, $example)",
                **own,
                path=path,
                reason=reason,
                count=count,
                line=line,
                example=example,
            )

    def _digest(self, part: str, span: str) -> str:
        return f"{self.history.identity}:{part}:{span}"

    def warnings(self) -> list[str]:
        """What the server said that its answers lack."""
        return [
            f"{self.history.samples.name}: answers lack something in {count} spans, which the next run reads again: {text}"
            for text, count in self._lacking.items()
        ]


def _spans(
    since_us: int, until_us: int, settled_us: int, length_us: int, done: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The spans of [since_us, until_us) that are not done, in order: at most `length_us` long, cut at its multiples.

    What lies after `settled_us` is a span of its own: only it has to be read again.
    """
    settled_us = settled_us // SECOND_US * SECOND_US
    at = since_us
    skip = deque(done)
    while at < until_us:
        while skip and skip[0][1] <= at:
            skip.popleft()
        if skip and skip[0][0] <= at:
            at = skip[0][1]
            continue
        end = min(until_us, (at // length_us + 1) * length_us)
        if skip:
            end = min(end, skip[0][0])
        if at < settled_us:
            end = min(end, settled_us)
        yield at, end
        at = end


def _length(samples_a_second: float) -> int:
    """The longest of LENGTHS_S with at most CHUNK_SAMPLES, microseconds."""
    fitting = [s for s in LENGTHS_S if s * samples_a_second <= CHUNK_SAMPLES]
    return max(fitting, default=LENGTHS_S[0]) * SECOND_US


def _nothing(history: History, names: Sequence[str], since_us: int, until_us: int) -> str:
    span = f"between {rfc3339(since_us)} and {rfc3339(until_us)}"
    if names:
        return f"{history.samples.name}: none of its {len(names)} DCGM metrics {span} is known ({', '.join(names[:3])}, ...)"
    return (
        f"{history.samples.name}: answers, but has no DCGM metric (DCGM_FI_...) and no kube-state-metrics {span}; "
        "check --match, --since, --tenant, and that this server scrapes dcgm-exporter"
    )
