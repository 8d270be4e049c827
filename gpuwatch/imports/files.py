"""Imports history from files: each file once, identified by its content, and durable when acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import find_importer, importers, plan_bundle
from gpuwatch.imports.read_ahead import OpenFile, Part, read_ahead
from gpuwatch.policy import ownership
from gpuwatch.policy.ownership import TeamRule
from gpuwatch.policy.repository import replace_team_rules
from gpuwatch.rates import card as rates_card
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import drop_late
from gpuwatch.store.time_bounds import history, in_time

ROWS_A_COMMIT = 5_000_000
"""A file with more rows is committed in parts; after a crash it is read again and repeated rows are dropped."""
INCOMPLETE = "incomplete: %"
"""Pattern of reasons for input that needs another file: its file is read again when it is imported again."""
DEFAULT_CLUSTER = "default"
SHOWN_REASONS = 3
"""Reasons in the message about a card without a valid row."""
INTERVAL_SETTING = "scrape_interval_us"


@dataclass
class ImportReport:
    """The result of an import."""

    files: int = 0
    repeated: int = 0
    """Files whose content was already imported."""
    records: int = 0
    rejects: list[Rejects] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """The number of rejected records, without ignored input."""
        return sum(count for r in self.rejects for count in r.faults.values())

    @property
    def failed(self) -> bool:
        """Whether a file could not be read, or there were rows and not one of them was good."""
        return bool(self.unreadable) or (self.rejected > 0 and self.records + self.repeated == 0)


Progress = Callable[[int, int, str], None]
R = TypeVar("R", Rate, TeamRule)


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
    """Imports files, directories of files, or bundles; repeating an import changes nothing.

    Raises UnreadableInput if nothing can be read; an unreadable file among others is listed in the report.
    `progress(done, total, name)` is called before each file. Times are in microseconds.
    """
    report = ImportReport()
    parts: list[Part] = []
    named = list(paths)
    for path in named:
        _require_path(path)
        if kind == "bundle":
            parts += _bundle_parts(path, cluster, state, report, now_us)
        else:
            parts += parts_of(kind, path, cluster, timezone)
    read = 0
    known = {tuple(row) for row in store.sql("select digest, kind, cluster from import_file")}
    known -= _incomplete(store)
    with closing(read_ahead(parts, known)) as opened:
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
    finish_import(store, report)
    return report


def _require_path(path: Path) -> None:
    if not path.exists():
        raise UnreadableInput(f"{path}: no such file or directory")
    if not (path.is_file() or path.is_dir()):
        raise UnreadableInput(f"{path}: neither a file nor a directory; write the stream to a file first")


def finish_import(store: Store, report: ImportReport) -> None:
    """Drops samples past retention, seals the others, and makes the import durable."""
    late = drop_late(store)
    if late:
        report.notes.append(f"{late} samples belong to days whose raw samples are past retention; they are left out")
    seal_all(store)
    store.checkpoint()


def seal_all(store: Store) -> int:
    """Seals all samples; returns the number of sealed rows."""
    newest = store.sql("select max(observed_us) from sample_tail")[0][0]
    return 0 if newest is None else store.seal(newest + 1)


def parts_of(kind: str, path: Path, cluster: str | None, timezone: str) -> list[Part]:
    """The files of a kind at a path: itself, or those in the directory. Raises UnreadableInput if there are none."""
    importer = find_importer(kind)
    if path.is_dir() and importer.suffixes:
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(importer.suffixes))
        if not files:
            raise UnreadableInput(f"{path}: contains no file of kind {kind} ({', '.join(importer.suffixes)})")
    else:
        files = [path]
    return [Part(kind, p, cluster or DEFAULT_CLUSTER, timezone, cluster is not None) for p in files]


def _bundle_parts(path: Path, cluster: str | None, state: State, report: ImportReport, now_us: int) -> list[Part]:
    plan = plan_bundle(path)
    name = cluster or plan.cluster
    report.notes += [f"{path}: missing {text}" for text in plan.missing]
    report.notes += [f"{path}: not understood: {text}" for text in plan.unknown]
    if plan.scrape_interval_us:
        state.set_setting(f"{INTERVAL_SETTING}:{name}", str(plan.scrape_interval_us), "import", now_us)
    if not plan.parts and plan.rates is None and plan.teams is None:
        raise UnreadableInput(
            f"{path}: nothing to import; a bundle has metrics/, slurm/, k8s/, topo/, rates.csv or teams.csv"
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


def _import_cards(
    rate_file: Path | None, team_file: Path | None, state: State, report: ImportReport, now_us: int
) -> None:
    """Replaces rates and team rules by those in rates.csv and teams.csv, unless a file has no valid row."""
    if rate_file is not None:
        _import_card(rate_file, rates_card.parse_rates, replace_rates, state, report, now_us)
    if team_file is not None:
        _import_card(team_file, ownership.parse_teams, replace_team_rules, state, report, now_us)


def _import_card(
    file: Path,
    parse: Callable[[bytes, str, Rejects], Sequence[R]],
    replace: Callable[[State, Sequence[R], str, str, int], object],
    state: State,
    report: ImportReport,
    now_us: int,
) -> None:
    rejects = Rejects()
    try:
        rows = parse(file.read_bytes(), str(file), rejects)
        if rows:
            replace(state, rows, "import", file.name, now_us)
        else:
            problems = report.unreadable if rejects.total else report.notes
            reasons = "".join(f"; {reason}" for reason in list(rejects.counts)[:SHOWN_REASONS])
            problems.append(f"{file}: no valid row; the previous rows remain in force{reasons}")
    except (UnreadableInput, OSError) as error:
        report.unreadable.append(str(error))
    if rejects.total:
        report.rejects.append(rejects)


def _import_file(store: Store, file: OpenFile, report: ImportReport, now_us: int) -> None:
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
                    if not is_bill_file(batch):
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


def is_bill_file(batch: Records | Points) -> bool:
    """Whether a batch is the record of a bill's file, which completes its lines and does not count as one of them."""
    return isinstance(batch, Records) and batch.table == "bill_file"


def _record(store: Store, file: OpenFile, records: int, now_us: int) -> None:
    part = file.part
    if (file.digest, part.kind, part.cluster) in _incomplete(store):
        key = {"digest": file.digest, "kind": part.kind, "cluster": part.cluster}
        store.sql("delete from import_file where digest = $digest and kind = $kind and cluster = $cluster", **key)
        store.sql("delete from reject where digest = $digest and kind = $kind and cluster = $cluster", **key)
    identity = file.digest, part.kind, part.cluster
    for batch in import_records(identity, str(part.path), file.size, records, file.rejects, now_us):
        store.append(batch)


def import_records(
    key: tuple[str, str, str], path: str, size: int, records: int, rejects: Rejects, now_us: int
) -> list[Records]:
    """The rows about an imported file with the key (digest, kind, cluster): its size in bytes, its number of records,
    and its rejects.
    """
    identity = dict(zip(("digest", "kind", "cluster"), key, strict=True))
    file = {"path": path, "bytes": size, "records": records, "rejected": rejects.total, "imported_us": now_us}
    batches = [Records("import_file", pa.Table.from_pylist([identity | file]))]
    rejected = []
    for reason, count in rejects.counts.items():
        name, line, example = rejects.first[reason]
        rejected.append(identity | {"path": name, "reason": reason, "count": count, "line": line, "example": example})
    return [*batches, Records("reject", pa.Table.from_pylist(rejected))] if rejected else batches


def _incomplete(store: Store) -> set[tuple[str, ...]]:
    """Files that needed another file when they were read."""
    found = store.sql("select distinct digest, kind, cluster from reject where reason like $like", like=INCOMPLETE)
    return {tuple(row) for row in found}
