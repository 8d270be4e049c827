"""Import of history from files: each file once, known by its content; what was acknowledged is on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event, Thread

import pyarrow as pa

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects, Rows, Source
from gpuwatch.core.registry import find_importer, importers, plan_bundle
from gpuwatch.policy import ownership
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates import card as rates_card
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import drop_late
from gpuwatch.store.time_bounds import history, in_time

ROWS_A_COMMIT = 5_000_000
"""A file with more rows is committed in parts; after a crash it is read again and the repeats are dropped."""
READ_BYTES = 1 << 20
BATCHES_AHEAD = 3
"""Parsed batches that may wait for the store: about a million readings each."""
IGNORED = "ignored: "
"""Reasons that start so count input that is not ours, not input that is wrong."""
INCOMPLETE = "incomplete: %"
"""Reasons like this one count input that lacked another file: its file is read again when it is named again."""
DEFAULT_CLUSTER = "default"
INTERVAL_SETTING = "scrape_interval_us"


@dataclass
class ImportReport:
    """What an import did, file by file."""

    files: int = 0
    repeated: int = 0
    """Files whose content had been imported before."""
    records: int = 0
    rejects: list[Rejects] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """Pieces of input refused, without what is merely not ours."""
        return sum(count for r in self.rejects for reason, count in r.counts.items() if not reason.startswith(IGNORED))


@dataclass(frozen=True)
class Part:
    """One file to import."""

    kind: str
    path: Path
    cluster: str
    timezone: str


Progress = Callable[[int, int, str], None]


def import_paths(
    store: Store,
    state: State,
    kind: str,
    paths: Iterable[Path],
    *,
    cluster: str | None,
    now_us: int,
    timezone: str = "UTC",
    progress: Progress | None = None,
) -> ImportReport:
    """Imports files, directories of files, or bundles; repeating it changes nothing.

    Raises UnreadableInput when nothing named can be read; a bad file among good ones is listed in the report.
    `progress(done, total, name)` is called before each file. Times are microseconds.
    """
    report = ImportReport()
    parts: list[Part] = []
    named = list(paths)
    for path in named:
        if not path.exists():
            raise UnreadableInput(f"{path}: no such file or directory")
        if not (path.is_file() or path.is_dir()):
            raise UnreadableInput(f"{path}: neither a file nor a directory; write the stream to a file first")
        if kind == "bundle":
            parts += _bundle_parts(path, cluster, state, report, now_us)
        else:
            parts += parts_of(kind, path, cluster or DEFAULT_CLUSTER, timezone)
    read = 0
    known = {tuple(row) for row in store.sql("select digest, kind, cluster from import_file")}
    known -= _incomplete(store)
    with closing(_read_ahead(parts, known)) as opened:
        for number, file in enumerate(opened):
            if progress is not None:
                progress(number, len(parts), file.part.path.name)
            try:
                _import_file(store, file, report, now_us)
                read += 1
            except UnreadableInput as error:
                report.unreadable.append(str(error))
    if progress is not None:
        progress(len(parts), len(parts), "sealing")
    if report.unreadable and (read == 0 or any(path.is_file() for path in named)):
        raise UnreadableInput("; ".join(report.unreadable[:5]))
    late = drop_late(store)
    if late:
        report.notes.append(f"{late} samples belong to days whose raw samples are past retention; they are left out")
    seal_all(store)
    store.checkpoint()
    return report


def seal_all(store: Store) -> int:
    """Seals every sample there is; returns rows sealed."""
    newest = store.sql("select max(observed_us) from sample_tail")[0][0]
    return 0 if newest is None else store.seal(newest + 1)


def parts_of(kind: str, path: Path, cluster: str, timezone: str) -> list[Part]:
    """The files of a kind that a path names: itself, or those in the directory. Raises UnreadableInput for none."""
    importer = find_importer(kind)
    if path.is_dir() and importer.suffixes:
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(importer.suffixes))
        if not files:
            raise UnreadableInput(f"{path}: no file of kind {kind} ({', '.join(importer.suffixes)}) in it")
        return [Part(kind, p, cluster, timezone) for p in files]
    return [Part(kind, path, cluster, timezone)]


def _bundle_parts(path: Path, cluster: str | None, state: State, report: ImportReport, now_us: int) -> list[Part]:
    plan = plan_bundle(path)
    name = cluster or plan.cluster
    report.notes += [f"{path}: missing {text}" for text in plan.missing]
    report.notes += [f"{path}: not understood: {text}" for text in plan.unknown]
    if plan.scrape_interval_us:
        state.set_setting(f"{INTERVAL_SETTING}:{name}", str(plan.scrape_interval_us), "import", now_us)
    if not plan.parts and plan.rates is None and plan.teams is None:
        raise UnreadableInput(
            f"{path}: nothing to import in it; a bundle has metrics/, slurm/, k8s/, topo/, rates.csv or teams.csv"
        )
    _import_cards(plan.rates, plan.teams, state, report, now_us)
    known = importers()
    parts = []
    for kind, file in plan.parts:
        if kind in known:
            parts.append(Part(kind, file, name, plan.timezone))
        else:
            report.notes.append(f"{file}: kind {kind} cannot be imported by this version; left out")
    return parts


@dataclass
class _File:
    """A file being read by the other thread: its batches come through a short queue, None at the end."""

    part: Part
    digest: str = ""
    size: int = 0
    known: bool = False
    rejects: Rejects = field(default_factory=Rejects)
    error: Exception | None = None
    batches: SimpleQueue[Records | Points | None] = field(default_factory=SimpleQueue)
    taken: Callable[[], None] = lambda: None
    """Says that a batch was taken from the queue: there is room for the next."""


def _read_ahead(parts: list[Part], known: set[tuple[str, ...]]) -> Generator[_File, None, None]:
    """Parses in a second thread while the first writes to the store: DuckDB works outside Python's lock.

    At most BATCHES_AHEAD batches wait. Closing the iterator stops the thread after the batch it is at.
    """
    together: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        together.setdefault((part.kind, part.cluster), []).append(str(part.path))
    beside = {key: tuple(paths) for key, paths in together.items()}
    opened: SimpleQueue[_File | None] = SimpleQueue()
    room = BoundedSemaphore(BATCHES_AHEAD)
    stop = Event()

    def work() -> None:
        for part in parts:
            file = _File(part)
            opened.put(file)
            try:
                file.digest, file.size = digest_of(part.path)
                file.known = (file.digest, part.kind, part.cluster) in known
                for batch in () if file.known else _batches(part, beside, file.rejects):
                    room.acquire()
                    if stop.is_set():
                        return
                    file.batches.put(batch)
            except OSError as error:
                file.error = UnreadableInput(f"{part.path}: {error.strerror or error}")
            except Exception as error:  # noqa: BLE001 - handed to the other thread, which raises it
                file.error = error
            file.batches.put(None)
            if stop.is_set():
                return
        opened.put(None)

    reader = Thread(target=work, name="reader", daemon=True)
    reader.start()
    try:
        while (file := opened.get()) is not None:
            file.taken = room.release
            yield file
    finally:
        stop.set()
        with suppress(ValueError):
            room.release()
        reader.join()


def _batches(part: Part, beside: dict[tuple[str, str], tuple[str, ...]], rejects: Rejects) -> Rows:
    return find_importer(part.kind).read(_source(part, beside[part.kind, part.cluster]), rejects)


def _source(part: Part, beside: tuple[str, ...]) -> Source:
    # A scrape without timestamps is of the moment it was saved. Nothing else takes its time from a file: a copy of an
    # old dump is not newer evidence.
    saved_us = part.path.stat().st_mtime_ns // 1000 if part.kind == "openmetrics" else None
    return Source(str(part.path), part.cluster, part.timezone, saved_us, beside)


def _import_cards(
    rate_file: Path | None, team_file: Path | None, state: State, report: ImportReport, now_us: int
) -> None:
    """Puts rates.csv and teams.csv into the state. A file without one good row leaves what was there."""
    rejects = Rejects()
    try:
        if rate_file is not None:
            card = rates_card.parse_rates(rate_file.read_bytes(), str(rate_file), rejects)
            if card:
                replace_rates(state, card, "import", rate_file.name, now_us)
            else:
                report.notes.append(f"{rate_file}: not one good row; the rates known before stay in force")
    except (UnreadableInput, OSError) as error:
        report.unreadable.append(str(error))
    try:
        if team_file is not None:
            rules = ownership.parse_teams(team_file.read_bytes(), str(team_file), rejects)
            if rules:
                replace_team_rules(state, rules, "import", team_file.name, now_us)
            else:
                report.notes.append(f"{team_file}: not one good row; the rules known before stay in force")
    except (UnreadableInput, OSError) as error:
        report.unreadable.append(str(error))
    if rejects.total:
        report.rejects.append(rejects)


def _import_file(store: Store, file: _File, report: ImportReport, now_us: int) -> None:
    records = stored = 0
    finished = False
    try:
        while not finished:
            with store.transaction():
                rows = 0
                while rows < ROWS_A_COMMIT:
                    batch = file.batches.get()
                    if batch is None:
                        if file.error is not None:
                            raise file.error
                        finished = True
                        break
                    file.taken()
                    if isinstance(batch, Points) and now_us > 0:
                        batch = in_time(batch, history(now_us), str(file.part.path), file.rejects)
                    appended = store.append(batch)
                    rows += appended
                    if not closes(batch):
                        records += batch.rows.num_rows
                        stored += appended
                if finished and not file.known:
                    _record(store, file, records, now_us)
            report.records, stored = report.records + stored, 0
    finally:
        if file.rejects.total:
            report.rejects.append(file.rejects)
    if file.known:
        report.repeated += 1
    else:
        report.files += 1


def closes(batch: Records | Points) -> bool:
    """Whether a batch is the record of a bill's file, which tells that its lines are there: it is none of its records."""
    return isinstance(batch, Records) and batch.table == "bill_file"


def _record(store: Store, file: _File, records: int, now_us: int) -> None:
    part = file.part
    if (file.digest, part.kind, part.cluster) in _incomplete(store):
        words = {"digest": file.digest, "kind": part.kind, "cluster": part.cluster}
        store.sql("delete from import_file where digest = $digest and kind = $kind and cluster = $cluster", **words)
        store.sql("delete from reject where digest = $digest and kind = $kind and cluster = $cluster", **words)
    for note in noted((file.digest, part.kind, part.cluster), str(part.path), file.size, records, file.rejects, now_us):
        store.append(note)


def noted(
    key: tuple[str, str, str], path: str, size: int, records: int, rejects: Rejects, now_us: int
) -> list[Records]:
    """What is kept of a file that was read, known by (digest, kind, cluster): its size in bytes, how many records it
    held, and what was refused of it.
    """
    known = dict(zip(("digest", "kind", "cluster"), key, strict=True))
    file = {"path": path, "bytes": size, "records": records, "rejected": rejects.total, "imported_us": now_us}
    notes = [Records("import_file", pa.Table.from_pylist([known | file]))]
    refused = []
    for reason, count in rejects.counts.items():
        name, line, example = rejects.first[reason]
        words = {"path": name, "reason": reason, "count": count, "line": line, "example": example}
        refused.append(known | words)
    return [*notes, Records("reject", pa.Table.from_pylist(refused))] if refused else notes


def _incomplete(store: Store) -> set[tuple[str, ...]]:
    """Files that lacked another one when they were read."""
    found = store.sql("select distinct digest, kind, cluster from reject where reason like $like", like=INCOMPLETE)
    return {tuple(row) for row in found}


def digest_of(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a file, or of every file below a directory with its name."""
    total = hashlib.sha256()
    size = 0
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        total.update(file.name.encode())
        try:
            with file.open("rb") as stream:
                while block := stream.read(READ_BYTES):
                    total.update(block)
                    size += len(block)
        except OSError as error:
            raise UnreadableInput(f"{file}: {error.strerror}") from error
    return total.hexdigest(), size
