"""Publishes a store to its cell of the lake: what has changed, in one transaction with the guard's row."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpuwatch.lake import guard, notes
from gpuwatch.lake.connection import Lake, LakeConflict, LakeError
from gpuwatch.lake.guard import Guard
from gpuwatch.lake.notes import GONE, Note
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.tables import DAY, SAMPLES, Columns, Table, columns_of, definitions, lake_tables, published_tables
from gpuwatch.lake.units import (
    DECIDED_BY,
    SETTLED_US,
    Content,
    Key,
    Stamps,
    Units,
    among,
    day_of,
    exactly,
    key_table,
    of_lake,
    of_store,
    place,
    with_retired,
    within,
)
from gpuwatch.store.connection import Connection, identifier

TRIES = 3
"""How often a publish is begun again that another process's commit has overtaken."""


@dataclass
class TableChange:
    """What a publish does to one table of the lake."""

    table: Table
    units: Units
    """All units that the table has after it."""
    write: list[Key]
    delete: list[Key]
    """Units to remove first: those that are written again, and those that the store no longer has."""
    make: bool = False
    """The table is new in the lake, or has other columns there."""

    @property
    def rows(self) -> int:
        """Rows to write."""
        return sum(self.units[key].rows for key in self.write)

    def notes(self, known: Units) -> Iterator[Note]:
        """What to note of the units that change, if `known` was noted of them before."""
        gone = set(known if self.make else self.delete) - set(self.write)
        yield from ((self.table.name, key, GONE) for key in gone)
        yield from ((self.table.name, key, self.units[key]) for key in self.write)


@dataclass(frozen=True)
class Published:
    """What a publish has written."""

    tables: int = 0
    units: int = 0
    rows: int = 0
    removed: int = 0


@dataclass
class Publisher:
    """Publishes one store again and again; remembers what the lake has as long as nobody else publishes the cell."""

    settings: LakeSettings
    now_us: Callable[[], int]
    take_over: bool = False
    whole: bool = False
    """Compares with what the lake has, read in full, instead of with what was noted; repairs what is not the same."""
    epoch: int | None = None
    """The epoch in which this process publishes: that of its lease; without one None before its first publish."""
    holder: str | None = None
    """This process, as the guard names it."""
    _found: Guard | None = None
    """The guard's row as it must still be; None: to be read."""
    _known: dict[str, Units] = field(default_factory=dict)
    _columns: Columns = field(default_factory=dict)
    _appended: int = 0
    """Notes that were added since there was one for each unit."""
    _definitions: list[tuple[str, str]] = field(default_factory=list)
    _tables: list[Table] = field(default_factory=list)
    """Those of the store with these definitions."""
    _counts: Counter[str] | None = None
    """How often the store's tables had changed at the last publish."""
    _counted_us: int = 0
    """When that was."""

    @property
    def _name(self) -> str:
        return self.holder or _holder()

    def publish(self, lake: Lake, store: Connection) -> Published:
        """Writes what has changed since the last publish; nothing if nothing has.

        Raises Fenced if another process has taken over the cell, UsageError if it belongs to another store, LakeError if the
        lake does not respond. After an error the lake is as before, or, where only the answer was lost, as after.
        """
        store_id = str(store.sql("select id from store_identity")[0][0])
        for attempt in range(1, TRIES + 1):
            try:
                if self._found is None:
                    self._read(lake, store_id)
                return self._once(lake, store, store_id)
            except LakeConflict:
                self._found = None
                if attempt == TRIES:
                    raise
            except BaseException:
                self._found = None  # what the lake has is read again
                raise
        raise AssertionError("unreachable")

    def _read(self, lake: Lake, store_id: str) -> None:
        """Reads what the lake has: after the start, an error, or a commit of another process."""
        if not guard.exists(lake):
            guard.create(lake, store_id, self._name, self.now_us())
        with lake.transaction():
            found = guard.read(lake)
            guard.check(found, self.settings, store_id, self.epoch, self.take_over, self.holder)
            self._columns = columns_of(lake)
            notes.upgrade(lake, self._columns)
            self._known = notes.read(lake)
            self._appended = notes.count(lake) - sum(map(len, self._known.values()))
            if self.whole:
                self._reread(lake)
        self._found, self._counts = found, None

    def _reread(self, lake: Lake) -> None:
        """Takes what is in the lake for what was published. A table whose files cannot be read is made again.

        Raises LakeError for such samples: the store may no longer have all that the lake had.
        """
        for table in lake_tables(columns_of(lake)):
            try:
                there = of_lake(lake, table)
            except LakeError:
                if table.name == SAMPLES:
                    raise
                lake.restart()
                del self._columns[table.name]
                continue
            noted = self._known.get(table.name, {})
            self._known[table.name] = {
                key: noted[key] if key in noted and _same(noted[key], content) else content
                for key, content in there.items()
            }

    def _once(self, lake: Lake, store: Connection, store_id: str) -> Published:
        counts, now_us = store.changes.counts(), self.now_us()
        with store.workspace() as work, work.transaction():
            changes = list(self._changes(work, counts, now_us))
            done = self._write(lake, work, store_id, [each for each in changes if _changes_lake(each)])
        for each in changes:
            self._known[each.table.name] = each.units
            self._columns[each.table.name] = each.table.kept_columns
        self._counts, self._counted_us = counts, now_us
        return done

    def _changes(self, store: Connection, counts: Counter[str], now_us: int) -> Iterable[TableChange]:
        stamps = Stamps(store)
        for table in self._published_tables(store):
            make = self._columns.get(table.name) != table.kept_columns
            if not make and self._unchanged(table, counts, now_us):
                continue
            known = {} if make else self._known.get(table.name, {})
            units = of_store(store, table, known, stamps, now_us)
            if table.name == SAMPLES:
                units = with_retired(store, units, known)
            same = {key for key, content in units.items() if key in known and _same(known[key], content)}
            write = [key for key in units if key not in same]
            delete = [key for key in known if key not in same]
            yield TableChange(table, units, write, delete, make)

    def _published_tables(self, store: Connection) -> list[Table]:
        """The tables to publish; their columns are read again only where a definition has changed."""
        found = definitions(store)
        if found != self._definitions:
            self._definitions, self._tables = found, published_tables(store, self.settings.samples)
        return self._tables

    def _unchanged(self, table: Table, counts: Counter[str], now_us: int) -> bool:
        """Whether no connection of this process has changed the table since the last publish. Days of samples settle with time."""
        if self._counts is None:
            return False
        if table.name == SAMPLES and day_of(now_us - SETTLED_US) != day_of(self._counted_us - SETTLED_US):
            return False
        read = DECIDED_BY if table.name == SAMPLES else (table.name,)
        return all(self._counts[name] == counts[name] for name in read)

    def _write(self, lake: Lake, store: Connection, store_id: str, changes: list[TableChange]) -> Published:
        found = self._found
        if not changes or found is None:
            return Published()
        epoch, n = found.epoch + 1 if self.epoch is None else self.epoch, found.n + 1
        noted = [note for each in changes for note in each.notes(self._known.get(each.table.name, {}))]
        after = self._known | {each.table.name: each.units for each in changes}
        again = self.whole or self._appended > sum(map(len, after.values())) + notes.OLD_MAX
        with lake.threads(sum(each.rows for each in changes)), lake.transaction():
            guard.step(lake, found, epoch, store_id, self._name, self.now_us())
            rows = sum(_replace(lake, store, each) for each in changes)
            if again:
                notes.replace(lake, after, n)
            else:
                notes.add(lake, noted, n)
        self._appended = 0 if again else self._appended + len(noted)
        self.epoch = epoch
        self._found = replace(found, epoch=epoch, n=n, store_id=store_id)
        removed = sum(len(set(each.delete) - set(each.write)) for each in changes)
        return Published(len(changes), sum(len(each.write) for each in changes), rows, removed)


def _changes_lake(change: TableChange) -> bool:
    return bool(change.make or change.write or change.delete)


def _same(known: Content, new: Content) -> bool:
    return (known.rows, known.digest) == (new.rows, new.digest)


def _make(lake: Lake, table: Table) -> None:
    """An empty table in the lake, in place of one with other columns. Files are by cluster and day."""
    where = place(lake, table.name)
    columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in table.kept_columns)
    lake.sql(f"drop table if exists {where}")
    lake.sql(f"create table {where} ({columns})")
    parts = ["cluster"] * table.cluster + [DAY] * (table.day_column is not None)
    if parts:
        lake.sql(f"alter table {where} set partitioned by ({', '.join(parts)})")


def _replace(lake: Lake, store: Connection, change: TableChange) -> int:
    """Puts the rows of the units to write in place of those to delete; returns how many."""
    if change.make:
        _make(lake, change.table)
    elif change.delete:
        kept = change.units.keys() - set(change.write)
        # Without a condition DuckLake asks the catalogue nothing about columns.
        condition = f" where {exactly(change.delete, change.table)}" if kept else ""
        lake.sql(f"delete from {place(lake, change.table.name)}{condition}")
    return _copy(lake, store, change) if change.write else 0


def _copy(lake: Lake, store: Connection, change: TableChange) -> int:
    """Copies the rows of the units to write."""
    table = change.table
    day = f", {table.day} as {DAY}" if table.day_column else ""
    whole = set(change.write) == set(change.units) and table.name != SAMPLES
    wanted = "true" if whole else among(table, "wanted_unit", "t")
    query = (
        f"select {table.values}{day} from {identifier(table.name)} t where {within(table, change.write)} and {wanted}"
    )
    with store.view("wanted_unit", key_table(change.write)), lake.incoming("incoming", store.reader(query)):
        return int(lake.sql(f"insert into {place(lake, table.name)} by name from incoming")[0][0])


def _holder() -> str:
    """This process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def publish_once(
    settings: LakeSettings,
    store: Connection,
    now_us: Callable[[], int],
    *,
    take_over: bool = False,
    whole: bool = False,
) -> Published:
    """Publishes a store over a connection of its own."""
    with Lake.open(settings, create=True) as lake, lake.threads():
        return Publisher(settings, now_us, take_over, whole).publish(lake, store)
