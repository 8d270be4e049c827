"""Imports history from a server with the Prometheus API: each span once, with spans read ahead of the store.

A span and its record of completion are written in one transaction, so that after any interruption another run reads
only what is missing and nothing is stored twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Points, Records
from gpuwatch.imports.files import ImportReport, finish_import
from gpuwatch.imports.history import Chunk, History
from gpuwatch.imports.provenance import Facts, FileIdentity, ImportRun, import_records
from gpuwatch.imports.spans import missing_spans, span_length
from gpuwatch.store.database import Store
from gpuwatch.store.wide_rows import wide

KIND = "backfill"
SETTLE_US = 5 * MINUTE_US
"""Late samples may arrive for this long: a span that ends later is read again by the next run."""
RECORDS_US = 6 * HOUR_US
"""The length of a span of scheduler records."""
MEMORY_LIMIT = "300MB"
"""The store's limit during a backfill, because spans are kept in memory too. Sorting uses its temporary directory."""
FIRST_OF_US = 3 * DAY_US
"""Of less history, the result comes soon enough."""
MAX_JOBS = 16
MAX_DAYS = 3_660
MAX_WARNINGS = 20
THIN_STEP_S = 60
"""Seconds of which the latest sample is read where there are more samples than wanted. The detectors are measured at
this step too, see docs/understand/accuracy.md."""


@dataclass
class BackfillReport(ImportReport):
    """The result of a backfill: `files` are spans, `repeated` those that earlier runs had completed."""

    incomplete: int = 0
    """Spans with an incomplete response or possible late samples, which the next run reads again."""
    step_s: int = 0
    """With a number, only the latest sample of every so many seconds was read."""


@dataclass(frozen=True)
class Plan:
    """What there is to read in a time range, with both ends in microseconds."""

    since_us: int
    until_us: int
    now_us: int
    metrics: bool
    """Whether there are DCGM metrics."""
    records: bool
    """Whether there is kube-state-metrics."""
    notes: list[str]


def plan_backfill(history: History, since_us: int, until_us: int, now_us: int) -> Plan:
    """Queries what there is, before anything is written. Raises UsageError for an invalid time range,
    SourceUnreachable, and UnreadableInput if there is nothing to read.
    """
    since_us, until_us = since_us // MINUTE_US * MINUTE_US, -(-min(until_us, now_us) // SECOND_US) * SECOND_US
    if since_us >= until_us:
        raise UsageError("backfill: --since must be before --until and in the past")
    if until_us - since_us > MAX_DAYS * DAY_US:
        raise UsageError(f"backfill: more than {MAX_DAYS} days; use a later --since")
    names = history.samples.find(since_us, until_us)
    metrics, records = bool(history.samples.fields), bool(history.records.find(since_us, until_us))
    if not metrics and not records:
        raise UnreadableInput(_nothing(history, names, since_us, until_us))
    notes = []
    if not metrics:
        notes.append(f"{history.samples.name}: no DCGM metrics in this time; only scheduler records are read")
    if not records:
        notes.append(
            f"{history.samples.name}: no kube-state-metrics; to attribute GPUs to jobs, use the labels of dcgm-exporter "
            "or import scheduler records"
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
    thin_above: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    first: Callable[[], None] | None = None,
) -> BackfillReport:
    """Imports the samples and scheduler records of the planned time range, and seals them.

    `again` also reads completed spans. Where the server has more than `thin_above` samples, one a minute is read of each
    series, and a note says so. `progress(done, total, what)` counts seconds of history. `first` is called once, when all of the
    first day is stored and there are FIRST_OF_US or more. Raises SourceUnreachable; what was already stored is kept.
    """
    store.sql("set memory_limit = $limit", limit=MEMORY_LIMIT)
    report = BackfillReport(notes=list(plan.notes))
    noted = ImportRun(store, KIND, history.samples.name, plan.now_us)
    run = _Run(store, history, cluster, report, plan.now_us, noted)
    parts = []
    if plan.metrics:
        rate = history.samples.measure(plan.since_us, plan.until_us)
        expected = int(rate * (plan.until_us - plan.since_us) / SECOND_US)
        if thin_above is not None and expected > thin_above:
            rate = history.samples.thin(THIN_STEP_S)
            report.step_s = history.samples.step_s
            report.notes += _thinned(history, expected)
        length_us = chunk_us or span_length(rate)
        parts.append(_Part("samples", length_us, history.samples.chunk))
    if plan.records:
        parts.append(_Part("records", RECORDS_US, history.records.chunk))
    todo = [run.missing(part, plan, again) for part in parts]
    total = sum(end - start for spans in todo for start, end in spans) // SECOND_US
    finished = 0
    for stage in _stages(plan, todo, first is not None):
        for part, spans in zip(parts, stage, strict=True):
            for start, end in run.read(part, spans, min(jobs, MAX_JOBS)):
                finished += (end - start) // SECOND_US
                if progress is not None:
                    progress(finished, total, f"{part.name} of {rfc3339(start)[:16]}")
        if first is not None and 0 < finished < total:
            first()
            first = None
    if progress is not None:
        progress(total, total, "sealing")
    noted.finish(run.repeated)
    finish_import(store, report)
    report.notes += run.warnings()
    return report


def _stages(plan: Plan, todo: Sequence[list[tuple[int, int]]], early: bool) -> list[list[list[tuple[int, int]]]]:
    """The spans of each part: those of the first day, then the others; all at once where that is not wanted or is not worth it."""
    edge_us = plan.since_us + DAY_US
    if (
        not early
        or plan.until_us - plan.since_us < FIRST_OF_US
        or not all(spans and spans[0][0] < edge_us for spans in todo)
    ):
        return [list(todo)]
    return [[[span for span in spans if (span[0] < edge_us) is day] for spans in todo] for day in (True, False)]


@dataclass(frozen=True)
class _Part:
    """A kind of history, and how it is read."""

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
    noted: ImportRun
    repeated: list[int] = field(default_factory=list)
    """Files of spans that earlier runs have completed."""
    _lock: Lock = field(default_factory=Lock)
    _lacking: dict[str, int] = field(default_factory=dict)

    def done(self, part: str) -> list[tuple[int, int]]:
        """The spans that earlier runs have completed, in order."""
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

    def missing(self, part: _Part, plan: Plan, again: bool) -> list[tuple[int, int]]:
        """The spans of a part that must be read; counts those that earlier runs have completed."""
        done = [] if again else self.done(part.name)
        known = [span for span in done if span[0] < plan.until_us and span[1] > plan.since_us]
        self.report.repeated += len(known)
        self.repeated += [self._file(part.name, span).file_id for span in known]
        return list(missing_spans(plan.since_us, plan.until_us, plan.now_us - SETTLE_US, part.length_us, done))

    def read(self, part: _Part, spans: Sequence[tuple[int, int]], jobs: int) -> Iterator[tuple[int, int]]:
        """Reads spans in threads, at most `jobs` ahead, and stores them in order; yields those that are stored."""
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
                if span[0] // DAY_US > sealed_day:  # earlier days are complete and can be sorted now
                    sealed_day = span[0] // DAY_US
                    self.store.seal(sealed_day * DAY_US)
                yield span

    @contextmanager
    def _threads(self, jobs: int) -> Iterator[ThreadPoolExecutor]:
        """A pool whose threads stop immediately after an error in the block."""
        pool = ThreadPoolExecutor(jobs, thread_name_prefix="backfill")
        try:
            yield pool
        except BaseException:
            self.history.stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _prepared(self, read: Callable[[int, int], Chunk], start_us: int, end_us: int) -> Chunk:
        """A span as wide rows for the store. One at a time, which limits memory."""
        chunk = read(start_us, end_us)
        with self._lock:
            chunk.batches = [Records("sample", wide(b)) if isinstance(b, Points) else b for b in chunk.batches]
        return chunk

    def _store(self, part: str, span: tuple[int, int], chunk: Chunk) -> None:
        complete = not chunk.lacking and span[1] <= self.now_us - SETTLE_US
        file = self._file(part, span, complete)
        facts = Facts(f"{self.history.samples.name} {part} {rfc3339(span[0])},{rfc3339(span[1])}", chunk.bytes)
        self.store.prepare(chunk.batches)
        with self.store.transaction():
            for batch in chunk.batches:
                facts.see(batch)
                self.store.append(batch, file.file_id)
            facts.records = chunk.samples
            self.store.sql("delete from import_file where file_id = $file", file=file.file_id)
            for records in import_records(file, facts, chunk.rejects, self.now_us):
                self.store.append(records)
            self.noted.gave(file.file_id)
        self.report.files += 1
        self.report.incomplete += not complete
        self.report.records += chunk.samples
        self.report.samples += chunk.samples if part == "samples" else 0
        if chunk.rejects.total:
            self.report.rejects.append(chunk.rejects)
        for text in chunk.lacking:
            if text in self._lacking or len(self._lacking) < MAX_WARNINGS:
                self._lacking[text] = self._lacking.get(text, 0) + 1

    def _file(self, part: str, span: tuple[int, int], complete: bool = True) -> FileIdentity:
        """A span as a file. Only complete ones are left out by the next run; for the others its name is no span."""
        name = f"{span[0] // SECOND_US}-{span[1] // SECOND_US}"
        return FileIdentity(self._digest(part, name if complete else f"incomplete:{name}"), KIND, self.cluster)

    def _digest(self, part: str, span: str) -> str:
        step_s = self.history.samples.step_s if part == "samples" else 0
        return f"{self.history.identity}:{part}{f'/{step_s}s' if step_s else ''}:{span}"

    def warnings(self) -> list[str]:
        """What the server reported as missing in its responses."""
        return [
            f"{self.history.samples.name}: incomplete responses in {count} spans, which the next run reads again: {text}"
            for text, count in self._lacking.items()
        ]


def _thinned(history: History, expected: int) -> list[str]:
    each = f"one every {history.samples.step_s} s was read of each metric"
    return [f"{history.samples.name}: about {expected:,} samples; {each}"] if history.samples.step_s else []


def _nothing(history: History, names: Sequence[str], since_us: int, until_us: int) -> str:
    span = f"between {rfc3339(since_us)} and {rfc3339(until_us)}"
    if names:
        return f"{history.samples.name}: none of its {len(names)} DCGM metrics {span} is known ({', '.join(names[:3])}, ...)"
    return (
        f"{history.samples.name}: responds, but has no DCGM metric (DCGM_FI_...) and no kube-state-metrics {span}; "
        "check --match, --tenant and the times, and that this server scrapes dcgm-exporter"
    )
