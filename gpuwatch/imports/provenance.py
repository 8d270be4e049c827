"""Which import gave which file, and which file gave which record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpuwatch.core.model import Points, Records, Rejects, hash64
from gpuwatch.store.database import Store

ASSUMED_ZONE = "UTC"
"""The time zone of naive times if none was given."""
SHOWN_PATHS = 3
"""Paths in the name of an import."""


@dataclass(frozen=True)
class FileIdentity:
    """What makes a file the same file: its content, and the options that change its records."""

    digest: str
    kind: str
    cluster: str
    zone: str = ""
    """In which naive times are read; "" for a kind without any."""

    @property
    def file_id(self) -> int:
        """The number that its records carry."""
        return hash64("file", self.digest, self.kind, self.cluster, self.zone)


@dataclass(frozen=True)
class KnownFiles:
    """The files that were already imported."""

    identities: frozenset[tuple[str, ...]]
    untraced: frozenset[tuple[str, ...]]
    """Digest, kind and cluster of those of earlier versions, which did not keep the time zone."""

    def have(self, file: FileIdentity) -> bool:
        """Whether the file gave all its records already."""
        return (file.digest, file.kind, file.cluster, file.zone) in self.identities or self.have_untraced(file)

    def have_untraced(self, file: FileIdentity) -> bool:
        """Whether an earlier version imported the file, in whatever time zone."""
        return (file.digest, file.kind, file.cluster) in self.untraced


def known_files(store: Store, without: set[tuple[str, ...]]) -> KnownFiles:
    """What the store has; `without` has digest, kind and cluster of files to read again."""
    rows = store.sql("select digest, kind, cluster, zone, traced from import_file")
    kept = [row for row in rows if row[:3] not in without]
    return KnownFiles(
        frozenset(tuple(row[:4]) for row in kept if row[4]), frozenset(tuple(row[:3]) for row in kept if not row[4])
    )


@dataclass
class Facts:
    """What is noted about a file besides its identity."""

    path: str
    size: int
    records: int = 0
    place: str | None = None
    """Its absolute path."""
    bill_file_id: int | None = None
    first_us: int | None = None
    last_us: int | None = None
    samples: int = 0
    from_us: int | None = None
    to_us: int | None = None
    """The time that its samples and jobs cover."""
    zoned: bool = False
    """Whether it has jobs of a scheduler whose commands print local times."""

    def see(self, batch: Records | Points) -> None:
        """Notes a batch of the file: its records, the time of its samples, the id of its bill."""
        if is_bill_file(batch):
            self.bill_file_id = batch.rows.column("file_id")[0].as_py()
            return
        self.records += batch.rows.num_rows
        if not batch.rows.num_rows:
            return
        if isinstance(batch, Points) or batch.table == "sample":
            self.samples += batch.rows.num_rows
            times = _ends(batch.rows, "observed_us")
            self.first_us, self.last_us = wider((self.first_us, self.last_us), times)
        elif batch.table == "claim":
            self.zoned |= batch.rows.column("scheduler")[0].as_py() in ("slurm", "ray")
            times = [*_ends(batch.rows, "start_us"), *_ends(batch.rows, "end_us")]
        else:
            return
        self.from_us, self.to_us = wider((self.from_us, self.to_us), times)


def _ends(rows: pa.Table | pa.RecordBatch, column: str) -> list[int | None]:
    """The smallest and the largest value of a column; None where it has none."""
    found = pc.min_max(rows.column(column)).as_py()
    return [found["min"], found["max"]]


def wider(known: tuple[int | None, int | None], times: Sequence[int | None]) -> tuple[int | None, int | None]:
    """The span of what is known and these times."""
    every = [at for at in (*known, *times) if at is not None]
    return min(every, default=None), max(every, default=None)


def import_records(file: FileIdentity, facts: Facts, rejects: Rejects, now_us: int) -> list[Records]:
    """The rows about an imported file, and about what was rejected in it."""
    key = {"digest": file.digest, "kind": file.kind, "cluster": file.cluster}
    noted: dict[str, Any] = {
        "path": facts.path,
        "bytes": facts.size,
        "records": facts.records,
        "rejected": rejects.total,
        "imported_us": now_us,
        "file_id": file.file_id,
        "zone": file.zone,
        "place": facts.place,
        "bill_file_id": facts.bill_file_id,
        "first_us": facts.first_us,
        "last_us": facts.last_us,
        "traced": True,
    }
    batches = [Records("import_file", pa.Table.from_pylist([key | noted], schema=_IMPORT_FILE))]
    rejected = []
    for reason, count in rejects.counts.items():
        name, line, example = rejects.first[reason]
        rejected.append(key | {"path": name, "reason": reason, "count": count, "line": line, "example": example})
    return [*batches, Records("reject", pa.Table.from_pylist(rejected))] if rejected else batches


_IMPORT_FILE = pa.schema(
    [(name, pa.string()) for name in ("digest", "kind", "cluster", "path", "zone", "place")]
    + [(name, pa.int64()) for name in ("bytes", "records", "rejected", "imported_us", "file_id")]
    + [(name, pa.int64()) for name in ("bill_file_id", "first_us", "last_us")]
    + [("traced", pa.bool_())]
)


@dataclass
class ImportRun:
    """One import while it runs: a command, an upload or a backfill."""

    store: Store
    kind: str
    path: str
    now_us: int
    import_id: int | None = None
    _files: set[int] = field(default_factory=set)

    def gave(self, file_id: int) -> None:
        """Notes a new file, in the transaction that stores its records."""
        if self.import_id is None:
            self._begin(finished=False)
        self._note([file_id])
        self._files.add(file_id)

    def finish(self, repeated: Iterable[int]) -> None:
        """Ends the import. `repeated` are the files that earlier imports had given. An import of exactly the files of an
        earlier one is no other import.
        """
        more = sorted(set(repeated) - self._files)
        files = sorted(self._files.union(more))
        if not files:
            return
        with self.store.transaction():
            if self.import_id is None:
                if self.store.rows("imports/same_run", files=files):
                    return
                self._begin(finished=True)
            self._note(more)
            self.store.run("imports/finish_run", import_id=self.import_id, now_us=self.now_us)

    def _note(self, files: Sequence[int]) -> None:
        self.store.run("imports/give", import_id=self.import_id, files=files)

    def _begin(self, finished: bool) -> None:
        """Goes on with an interrupted import of the same paths, or begins another one."""
        row = {"kind": self.kind, "path": self.path, "now": self.now_us}
        found = self.store.sql(
            "update import_run set imported_us = $now where not finished and forgotten_us is null and kind = $kind"
            " and path = $path returning import_id",
            **row,
        )
        if found:
            self.import_id = int(found[0][0])
            return
        self.import_id = _next_id(self.store)
        self.store.sql(
            "insert into import_run values ($import_id, $kind, $path, $now, $finished, null)",
            import_id=self.import_id,
            finished=finished,
            **row,
        )


def run_records(store: Store, kind: str, path: str, file_id: int, now_us: int) -> list[Records]:
    """The rows about an import of one file, to be written together with its records."""
    import_id = _next_id(store)
    run = {"import_id": import_id, "kind": kind, "path": path, "imported_us": now_us, "finished": True}
    given = {"import_id": import_id, "file_id": file_id}
    return [
        Records("import_run", pa.Table.from_pylist([run])),
        Records("import_given", pa.Table.from_pylist([given])),
    ]


def _next_id(store: Store) -> int:
    return int(store.sql("select coalesce(max(import_id), 0) + 1 from import_run")[0][0])


def place_of(path: Path) -> str:
    """The absolute path of a file, by which it is recognized with other options."""
    return str(path.absolute())


def is_bill_file(batch: Records | Points) -> bool:
    """Whether a batch is the record of a bill's file, which completes its lines and does not count as one of them."""
    return isinstance(batch, Records) and batch.table == "bill_file"


def paths_name(named: Sequence[Path]) -> str:
    """The name of an import."""
    shown = ", ".join(str(path) for path in named[:SHOWN_PATHS])
    return f"{shown} and {len(named) - SHOWN_PATHS} more" if len(named) > SHOWN_PATHS else shown
