"""Copies what has changed in the lake into a data directory: the units whose content differs, of one snapshot for all cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuwatch.core.errors import UsageError
from gpuwatch.core.fields import columns
from gpuwatch.lake import guard, mirror, notes
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.guard import Guard
from gpuwatch.lake.mirror import CellNote, CellUnits, PullNote
from gpuwatch.lake.tables import SAMPLES, Columns, Table, cells_of, kept_type, published_tables
from gpuwatch.lake.units import Content, Key, Units, among, exactly, key_table, place, within
from gpuwatch.store.connection import Connection, identifier
from gpuwatch.store.database import Store
from gpuwatch.store.sample_columns import SAMPLE_TABLES, widen

ROWS_MAX = 1_000_000
"""Rows of one transaction. A pull with fewer is one transaction: readers see all of it at once."""
OWNED = ("device", "segment", "ledger_hour")
"""Tables in which the rows of a cluster are of one cell: of two, its GPU time would count twice."""
NUMBERED = "import_id"
"""Each cell numbers its imports from 1, so a directory with several cells gives each its own range."""
RANGE_BITS = 32
SHARED = "shared_row"
_MERGED = {"sealed_day": 'select day_us, sum("rows")::bigint, bool_or(repeated) from shared_row group by day_us'}
"""How rows of several cells with one key become one; of other tables, equal rows of several cells are one."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Pulled:
    """What a pull has copied."""

    snapshot: int
    cells: int = 0
    """In the directory now."""
    tables: int = 0
    units: int = 0
    rows: int = 0
    removed: int = 0
    """Units that the lake no longer has."""


@dataclass(frozen=True)
class Piece:
    """Some units of a table that differ: by cell, as the lake has them."""

    table: Table
    keys: list[Key]
    now: dict[str, Units]

    @property
    def rows(self) -> int:
        return sum(content.rows for found in self.now.values() for content in found.values())


@dataclass
class Puller:
    """Brings one directory up to date again and again. `only`: the names of the wanted cells; () means all."""

    now_us: Callable[[], int]
    only: tuple[str, ...] = ()
    on_parts: Callable[[bool], None] = lambda mixed: None
    """Called with True before the first of several transactions, and with False after the last one."""
    _seen: tuple[Lake, int] | None = None
    """The snapshot that was pulled last over a connection: nothing is asked about it again."""
    _tables: list[Table] = field(default_factory=list)
    _columns: dict[str, Columns] = field(default_factory=dict)

    def pull(self, lake: Lake, store: Store, progress: Progress | None = None) -> Pulled:
        """Copies what differs. A pull that was killed at any moment is finished by the next one.

        Raises UsageError for a directory with data of its own, a cell that is not there, a cluster that two cells publish or
        a newer gpuwatch's cell; LakeError if the lake does not respond.
        """
        began_us = self.now_us()
        with lake.transaction():
            snapshot = int(lake.sql("from ducklake_current_snapshot('lake')")[0][0])
            if self._seen == (lake, snapshot):
                return Pulled(snapshot)
            mirror.prepare(store)
            self._columns = cells_of(lake)
            found = self._guards(lake)
            known = mirror.cells(store)
            done = self._copy(lake, store, PullNote(snapshot, began_us, True), found, known, progress)
        self._seen = (lake, snapshot)
        return done

    def _guards(self, lake: Lake) -> dict[str, Guard]:
        """The wanted cells."""
        there = [cell for cell, tables in self._columns.items() if guard.GUARD in tables]
        if missing := [cell for cell in self.only if cell not in there]:
            raise UsageError(
                f"the lake {lake.settings.shown()} has no cell {missing[0]}: gpuwatch lake status lists them"
            )
        if not there:
            raise UsageError(f"the lake {lake.settings.shown()} has no cell yet; gpuwatch lake publish makes one")
        found = {cell: guard.read(lake.cell(cell)) for cell in self.only or there}
        for cell, one in found.items():
            guard.check_version(one, lake.cell(cell).settings)
        return found

    def _copy(
        self,
        lake: Lake,
        store: Store,
        pull: PullNote,
        found: dict[str, Guard],
        known: dict[str, CellNote],
        progress: Progress | None,
    ) -> Pulled:
        last = mirror.last_pull(store)
        changed = [cell for cell, one in found.items() if cell not in known or not known[cell].is_as(one)]
        have = mirror.units(store) if changed or last is None or not last.whole or gone_of(known, found) else {}
        if gone := gone_of(known, found) or sorted(have.keys() - found.keys()):
            raise UsageError(
                f"--data {store.path}: has cell {gone[0]}, which is not wanted or no longer in the lake; pull into an empty "
                "directory"
            )
        if not changed and last is not None and last.whole:
            return Pulled(pull.snapshot, len(found))
        self._tables = published_tables(store, lake.settings.samples)
        want = {cell: self._wanted(lake.cell(cell)) if cell in changed else have.get(cell, {}) for cell in found}
        _check_owners(lake, want)
        first = max((note.number for note in known.values()), default=-1) + 1
        fresh = [cell for cell in sorted(found) if cell not in known]
        numbers = {cell: note.number for cell, note in known.items()} | {
            cell: first + place for place, cell in enumerate(fresh)
        }
        pieces = list(self._pieces(have, want))
        cells = [
            CellNote(cell, numbers[cell], one.epoch, one.n, one.at_us, one.store_id) for cell, one in found.items()
        ]
        self._write(lake, store, pieces, numbers, pull, cells, progress)
        copied = [key for piece in pieces for units in piece.now.values() for key in units]
        kept = [{key for units in piece.now.values() for key in units} for piece in pieces]
        return Pulled(
            pull.snapshot,
            len(found),
            len({piece.table.name for piece in pieces}),
            len(copied),
            sum(piece.rows for piece in pieces),
            sum(len(set(piece.keys) - units) for piece, units in zip(pieces, kept, strict=True)),
        )

    def _wanted(self, cell: Lake) -> dict[str, Units]:
        """The units of a cell. Of samples, those of days that the cell itself has still: older ones stay in the lake alone."""
        noted = notes.read(cell)
        if SAMPLES in noted:
            days = {key.day for key in noted.get("sealed_day", {})}
            noted[SAMPLES] = {key: content for key, content in noted[SAMPLES].items() if key.day in days}
        names = {table.name for table in self._tables}
        return {name: units for name, units in noted.items() if name in names}

    def _pieces(self, have: CellUnits, want: CellUnits) -> Iterator[Piece]:
        """The units that differ, in pieces of at most ROWS_MAX rows, or of one unit."""
        for table in self._tables:
            old, new = _by_key(have, table.name), _by_key(want, table.name)
            differing = [key for key in sorted(old.keys() | new.keys(), key=_order) if old.get(key) != new.get(key)]
            part: list[Key] = []
            rows = 0
            for key in differing:
                size = sum(rows for rows, _ in new.get(key, {}).values())
                if part and rows + size > ROWS_MAX:
                    yield _piece(table, part, new)
                    part, rows = [], 0
                part.append(key)
                rows += size
            if part:
                yield _piece(table, part, new)

    def _write(
        self,
        lake: Lake,
        store: Store,
        pieces: Sequence[Piece],
        numbers: dict[str, int],
        pull: PullNote,
        cells: list[CellNote],
        progress: Progress | None,
    ) -> None:
        """In transactions of about ROWS_MAX rows; the last one notes that everything is there."""
        total, done = sum(piece.rows for piece in pieces), 0
        if any(piece.table.name in SAMPLE_TABLES for piece in pieces):
            widen(store, columns())
        groups = _groups(pieces)
        if len(groups) > 1:
            self.on_parts(True)
        for number, group in enumerate(groups, 1):
            with lake.threads(total), store.workspace() as work, work.transaction():
                for piece in group:
                    self._replace(lake, work, piece, numbers)
                    done += piece.rows
                if number == len(groups):
                    mirror.note_cells(work, cells)
                    mirror.note_pull(work, pull)
                else:
                    mirror.note_pull(work, PullNote(pull.snapshot, pull.pulled_us, False))
            if progress is not None:
                progress(done, total)
        self.on_parts(False)
        if total > ROWS_MAX:
            store.checkpoint()

    def _replace(self, lake: Lake, work: Connection, piece: Piece, numbers: dict[str, int]) -> None:
        """Puts the rows of the lake in place of those that are here."""
        table, name = piece.table, identifier(piece.table.name)
        with work.view("gone_unit", key_table(piece.keys)):
            work.sql(f"delete from {name} where {within(table, piece.keys)} and {among(table, 'gone_unit', name)}")
        counts = {key: sum(key in units for units in piece.now.values()) for key in piece.keys}
        shared = {key for key, count in counts.items() if count > 1}
        if shared:
            work.sql(f"create or replace temp table {SHARED} as select {table.listed} from {name} limit 0")
        for cell, units in piece.now.items():
            for into, keys in ((name, units.keys() - shared), (SHARED, units.keys() & shared)):
                if keys:
                    self._insert(lake.cell(cell), work, into, table, sorted(keys, key=_order), numbers[cell])
        if shared:
            work.sql(
                f"insert into {name} ({table.listed}) {_MERGED.get(table.name, f'select distinct * from {SHARED}')}"
            )
            work.sql(f"drop table {SHARED}")
        mirror.note_units(work, table.name, piece.keys, piece.now)

    def _insert(self, cell: Lake, work: Connection, into: str, table: Table, keys: list[Key], number: int) -> None:
        there = {column for column, _ in self._columns[cell.settings.cell].get(table.name, [])}
        columns = [(column, kind) for column, kind in table.columns if column in there]
        names = ", ".join(identifier(column) for column, _ in columns)
        values = ", ".join(_value(column, kind, number) for column, kind in columns)
        query = f"select {names} from {place(cell, table.name)} where {exactly(keys, table)}"
        with work.view("incoming", cell.reader(query)):
            work.sql(f"insert into {into} ({names}) select {values} from incoming")


def gone_of(known: dict[str, CellNote], found: dict[str, Guard]) -> list[str]:
    """Cells of the directory that are not among those found."""
    return sorted(known.keys() - found.keys())


def _value(column: str, kind: str, number: int) -> str:
    name = identifier(column)
    if column == NUMBERED and number:
        return f"{name} + {number << RANGE_BITS}"
    return name if kept_type(kind) == kind else f"{name}::{kind}"


def _by_key(found: CellUnits, table: str) -> dict[Key, dict[str, tuple[int, str]]]:
    """The units of a table by key, each with its number of rows and digest in each cell."""
    keys: dict[Key, dict[str, tuple[int, str]]] = {}
    for cell, tables in found.items():
        for key, content in tables.get(table, {}).items():
            keys.setdefault(key, {})[cell] = (content.rows, content.digest)
    return keys


def _piece(table: Table, keys: list[Key], new: dict[Key, dict[str, tuple[int, str]]]) -> Piece:
    now: dict[str, Units] = {}
    for key in keys:
        for cell, (rows, digest) in new.get(key, {}).items():
            now.setdefault(cell, {})[key] = Content(rows, digest)
    return Piece(table, keys, now)


def _groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces of each transaction; one at least, for the notes."""
    groups: list[list[Piece]] = [[]]
    rows = 0
    for piece in pieces:
        if groups[-1] and rows + piece.rows > ROWS_MAX:
            groups.append([])
            rows = 0
        groups[-1].append(piece)
        rows += piece.rows
    return groups


def _check_owners(lake: Lake, want: CellUnits) -> None:
    """Raises UsageError for a cluster that two cells publish."""
    owners: dict[str, str] = {}
    for cell, tables in want.items():
        for cluster in {key.cluster for name in OWNED for key in tables.get(name, {}) if key.cluster is not None}:
            if (other := owners.setdefault(cluster, cell)) != cell:
                raise UsageError(
                    f"the lake {lake.settings.shown()}: cells {other} and {cell} both have cluster {cluster}, so its GPU time "
                    "would count twice; take it out of one of them (gpuwatch import --forget), or name the wanted cells"
                )


def _order(key: Key) -> tuple[str, str]:
    return key.cluster or "", str(key.day or "")
