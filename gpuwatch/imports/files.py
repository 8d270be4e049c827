"""Imports history from files: each file once, identified by its content, and durable when acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.core.registry import find_importer, importers, plan_bundle
from gpuwatch.imports.cards import import_cards
from gpuwatch.imports.forget import forget_files
from gpuwatch.imports.provenance import (
    ASSUMED_ZONE,
    Facts,
    FileIdentity,
    ImportRun,
    KnownFiles,
    import_records,
    is_bill_file,
    known_files,
    paths_name,
    place_of,
    wider,
)
from gpuwatch.imports.read_ahead import OpenFile, Part, read_ahead
from gpuwatch.imports.zone_note import assumed_before, zone_note
from gpuwatch.rates.repository import load_rates
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.store.retention import drop_late
from gpuwatch.store.time_bounds import history, in_time

ROWS_A_COMMIT = 5_000_000
"""A file with more rows or a field new to the store is committed in parts; after a crash it is read again, repeated rows are dropped."""
SLURM_KINDS = ("sacct", "scontrol", "slurm-json")
"""Kinds of files that may tell of one run by different keys."""
INCOMPLETE = "incomplete: %"
"""Pattern of reasons for input that needs another file: its file is read again when it is imported again."""
DEFAULT_CLUSTER = "default"
WHERE = (
    "put the output of kubectl get pods,nodes,events -A -o json into k8s/NAME.json, that of sacct into slurm/sacct.txt, and pages of "
    "dcgm-exporter into metrics/NAME.prom (docs/get-started/from-files.md)"
)
"""Where files go, for a folder without any."""
NAMED_MAX = 3
"""Files that are not read and are named."""
INTERVAL_SETTING = "scrape_interval_us"


@dataclass
class ImportReport:
    """The result of an import."""

    files: int = 0
    repeated: int = 0
    """Files whose content was already imported."""
    records: int = 0
    """Rows stored: the values that a device has at one time are one row."""
    samples: int = 0
    """Metric values read."""
    from_us: int | None = None
    to_us: int | None = None
    """The time that the samples and jobs of files read now cover."""
    assumed_zone: str | None = None
    """In which naive times were read because no zone was given; None: there were none."""
    rejects: list[Rejects] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    assumed: list[Path] = field(default_factory=list)
    """Files with local times for which no zone was given."""

    @property
    def rejected(self) -> int:
        """The number of rejected records, without ignored input."""
        return sum(count for r in self.rejects for count in r.faults.values())

    @property
    def failed(self) -> bool:
        """Whether a file could not be read, or there were rows and not one of them was good."""
        return bool(self.unreadable) or (self.rejected > 0 and self.records + self.repeated == 0)


Progress = Callable[[int, int, str], None]


def import_paths(
    store: Store,
    state: State,
    kind: str,
    paths: Iterable[Path],
    *,
    cluster: str | None,
    now_us: int,
    timezone: str | None = None,
    zones: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    """Imports files, directories of files, or bundles; repeating an import changes nothing. A file that was imported with
    another cluster or time zone replaces what it gave before. `zones`: of clusters, where neither `timezone` nor a bundle has one.

    Raises UnreadableInput if nothing can be read; an unreadable file among others is listed in the report.
    `progress(done, total, name)` is called before each file. Times are in microseconds.
    """
    report = ImportReport()
    parts: list[Part] = []
    named = list(paths)
    for path in named:
        _require_path(path)
        if kind == "bundle":
            parts += _bundle_parts(path, cluster, timezone, state, report, now_us)
        else:
            parts += parts_of(kind, path, cluster, timezone)
    parts = [replace(part, timezone=part.timezone or (zones or {}).get(part.cluster)) for part in parts]
    read = 0
    repeated: list[int] = []
    known = known_files(store, _incomplete(store))
    run = ImportRun(store, kind, paths_name(named), now_us)
    with closing(read_ahead(parts, known)) as opened:
        for number, file in enumerate(opened):
            if progress is not None:
                progress(number, len(parts), file.part.path.name)
            try:
                _import_file(store, file, run, report, now_us)
                read += 1
            except UnreadableInput as error:
                report.unreadable.append(str(error))
                continue
            if file.known and file.identity is not None:
                repeated += _repeated(file.identity, known, report, file.part)
    run.finish(repeated)
    report.assumed += assumed_before(store, repeated, [part.path for part in parts if part.timezone is None])
    if progress is not None:
        progress(len(parts), len(parts), "sealing")
    if report.unreadable and (read == 0 or any(path.is_file() for path in named)):
        raise UnreadableInput("; ".join(report.unreadable[:5]))
    if report.assumed:
        bundle = named[0] if kind == "bundle" else None
        report.notes.append(zone_note(report.assumed, bundle, report.to_us, now_us))
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


def seal_all(store: Store, until_us: int | None = None) -> int:
    """Seals all samples, or those up to a time; returns the number of sealed rows."""
    newest = store.sql("select max(observed_us) from sample_tail")[0][0]
    if newest is None:
        return 0
    return store.seal(newest + 1 if until_us is None else min(newest, until_us) + 1)


def parts_of(kind: str, path: Path, cluster: str | None, timezone: str | None) -> list[Part]:
    """The files of a kind at a path: itself, or those in the directory. Raises UnreadableInput if there are none."""
    importer = find_importer(kind)
    if path.is_dir() and importer.suffixes:
        files = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(importer.suffixes))
        if not files:
            raise UnreadableInput(f"{path}: contains no file of kind {kind} ({', '.join(importer.suffixes)})")
    else:
        files = [path]
    return [Part(kind, p, cluster or DEFAULT_CLUSTER, timezone, cluster is not None) for p in files]


def _bundle_parts(
    path: Path, cluster: str | None, timezone: str | None, state: State, report: ImportReport, now_us: int
) -> list[Part]:
    plan = plan_bundle(path)
    name = cluster or plan.cluster
    priced = bool(load_rates(state))  # a store with prices keeps them
    report.notes += [f"{path} has no {text}" for text in plan.missing if not (priced and text.startswith("rates.csv"))]
    report.notes += [f"{path}: not understood: {text}" for text in plan.unknown]
    if plan.scrape_interval_us:
        state.set_setting(f"{INTERVAL_SETTING}:{name}", str(plan.scrape_interval_us), "import", now_us)
    if not plan.parts and plan.rates is None and plan.teams is None:
        left = f" ({', '.join(plan.unknown[:NAMED_MAX])}: not understood)" if plan.unknown else ""
        raise UnreadableInput(f"{path}: nothing to import{left}; {WHERE}")
    report.rejects += import_cards(plan.rates, plan.teams, state, now_us, report.notes, report.unreadable)
    known = importers()
    parts = []
    for kind, file in plan.parts:
        if kind in known:
            parts.append(Part(kind, file, name, timezone or plan.timezone))
        else:
            report.notes.append(f"{file}: kind {kind} cannot be imported by this version; left out")
    return parts


def _import_file(store: Store, file: OpenFile, run: ImportRun, report: ImportReport, now_us: int) -> None:
    facts = Facts(str(file.part.path), file.size, place=place_of(file.part.path))
    committed, stored, finished = 0, 0, False
    waiting: Records | Points | None = None
    try:
        while not finished:
            # Also looks once, outside the transaction, which fields have a column: within, each batch would.
            store.prepare(() if waiting is None else [waiting])
            with store.transaction():
                rows = 0
                while rows < ROWS_A_COMMIT:
                    batch, waiting = waiting or file.batches.get(), None
                    if batch is None:
                        if file.error is not None:
                            raise file.error
                        finished = True
                        break
                    if store.lacks(batch):
                        waiting = batch
                        break
                    file.taken()
                    if isinstance(batch, Points) and now_us > 0:
                        batch = in_time(batch, history(now_us), str(file.part.path), file.rejects)
                    facts.see(batch)
                    appended = store.append(batch, None if file.identity is None else file.identity.file_id)
                    rows += appended
                    if not is_bill_file(batch):
                        stored += appended
                if finished and not file.known and file.identity is not None:
                    facts.size = file.size
                    _record(store, file.identity, facts, file.rejects, report, now_us)
                    run.gave(file.identity.file_id)
            committed, stored = committed + stored, 0
    except UnreadableInput:
        if committed and not file.known and file.identity is not None:
            with store.transaction():
                forget_files(store, [file.identity.file_id], str(file.part.path))
        raise
    finally:
        if file.rejects.total:
            report.rejects.append(file.rejects)
    report.records += committed
    if file.known:
        report.repeated += 1
    else:
        report.files += 1
        report.samples += facts.samples
        report.from_us, report.to_us = wider((report.from_us, report.to_us), (facts.from_us, facts.to_us))
    if file.rejects.naive_times and file.part.timezone is None:
        report.assumed_zone = ASSUMED_ZONE
        report.assumed.append(file.part.path)


def _record(
    store: Store, file: FileIdentity, facts: Facts, rejects: Rejects, report: ImportReport, now_us: int
) -> None:
    """Notes a file that was read to its end. What it gave before with other options goes, and so do readings of its jobs in a
    wrong time zone.
    """
    if (file.digest, file.kind, file.cluster) in _incomplete(store):
        key = {"digest": file.digest, "kind": file.kind, "cluster": file.cluster}
        store.sql("delete from import_file where digest = $digest and kind = $kind and cluster = $cluster", **key)
        store.sql("delete from reject where digest = $digest and kind = $kind and cluster = $cluster", **key)
    replaced = store.rows("imports/replaced", **vars(file), place=facts.place, file_id=file.file_id)
    if replaced:
        forget_files(store, [row["file_id"] for row in replaced], f"{facts.path}: its earlier import")
    for batch in import_records(file, facts, rejects, now_us):
        store.append(batch)
    if rejects.naive_times:
        store.run("imports/read_again", file_id=file.file_id)
    if file.kind in SLURM_KINDS:
        store.run("imports/array_run")
    if facts.zoned and (misread := store.run("imports/exact_reading", file_id=file.file_id)):
        report.notes.append(
            f"{facts.path}: {misread} runs are also in another import, one with exact times and one with local times read in "
            "a wrong time zone; the exact times are used (gpuwatch imports shows which import was replaced)"
        )


def _repeated(file: FileIdentity, known: KnownFiles, report: ImportReport, part: Part) -> list[int]:
    """The id of a file that was imported before; none if an earlier version imported it, which is noted."""
    if not known.have_untraced(file):
        return [file.file_id]
    if part.timezone is not None and file.zone:
        report.notes.append(
            f"{part.path}: an earlier version of gpuwatch imported this file and did not keep the time zone, so it stays as "
            "it is; to read it in another zone, import into a new data directory"
        )
    return []


def _incomplete(store: Store) -> set[tuple[str, ...]]:
    """Files that needed another file when they were read."""
    found = store.sql("select distinct digest, kind, cluster from reject where reason like $like", like=INCOMPLETE)
    return {tuple(row) for row in found}
