"""Compares the lake with the store, or with what was noted when it was published, and names the first row that differs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuwatch.lake import guard, notes
from gpuwatch.lake.connection import Lake, LakeError
from gpuwatch.lake.literals import text
from gpuwatch.lake.tables import SAMPLES, Table, columns_of, kept_type, lake_tables, published_tables
from gpuwatch.lake.units import Key, Stamps, Units, exactly, of_lake, of_store, place, with_retired, within
from gpuwatch.store.connection import Connection, identifier

LATE, DAMAGED = "late", "damaged"


@dataclass(frozen=True)
class Difference:
    """A unit that is not the same in the store and in the lake."""

    table: str
    key: Key
    kind: str
    """late: the store has changed since the last publish. damaged: the lake no longer has what was published."""
    store_rows: int | None
    """None: it was not compared with the store."""
    lake_rows: int
    row: str
    """The first row that one side has more often than the other, and which; "" if no rows could be compared."""


@dataclass(frozen=True)
class TableReport:
    """What was compared of one table."""

    table: str
    units: int
    rows: int
    """In the lake."""
    differences: tuple[Difference, ...]


def verify(
    lake: Lake, store: Connection | None, now_us: int, progress: Callable[[int, int], None] | None = None
) -> Iterator[TableReport]:
    """One table after the other, over one snapshot of each side. Without a store: with what was noted at the publish.

    Every row of the lake is read. Units whose number of rows and 64-bit digest are equal are equal; of others the rows
    themselves are compared. Raises UsageError where the cell was never published or belongs to another store.
    """
    guard.require(lake)
    with lake.transaction():
        noted = notes.read(lake)
        if store is None:
            yield from _with_notes(lake, noted)
            return
        store_id = str(store.sql("select id from store_identity")[0][0])
        guard.check(guard.read(lake), lake.settings, store_id, None, take_over=False)
        with store.workspace() as work, work.transaction():
            tables = published_tables(work, lake.settings.samples)
            stamps = Stamps(work)
            for number, table in enumerate(tables):
                if progress is not None:
                    progress(number, len(tables))
                yield _table(lake, work, table, noted.get(table.name, {}), stamps, now_us)


def _table(lake: Lake, store: Connection, table: Table, noted: Units, stamps: Stamps, now_us: int) -> TableReport:
    own = of_store(store, table, {}, stamps, now_us, whole=True)
    try:
        there = of_lake(lake, table)
    except LakeError as error:
        lake.restart()
        first = f"cannot be read: {error}"
        return TableReport(table.name, 0, 0, (Difference(table.name, Key(None, None), DAMAGED, None, 0, first),))
    if table.name == SAMPLES:
        own = with_retired(store, own, noted)
    none = notes.GONE
    found: list[Difference] = []
    for key in sorted(own.keys() | there.keys(), key=_order):
        mine, its = own.get(key, none), there.get(key, none)
        if (mine.rows, mine.digest) == (its.rows, its.digest):
            continue
        as_noted = (its.rows, its.digest) == (noted.get(key, none).rows, noted.get(key, none).digest)
        row = "" if found else _first_row(lake, store, table, key)
        found.append(Difference(table.name, key, LATE if as_noted else DAMAGED, mine.rows, its.rows, row))
    return TableReport(table.name, len(there), sum(unit.rows for unit in there.values()), tuple(found))


def _with_notes(lake: Lake, noted: dict[str, Units]) -> Iterator[TableReport]:
    """The lake alone: whether each unit still has what was published."""
    none = notes.GONE
    for table in lake_tables(columns_of(lake)):
        name, known = table.name, noted.get(table.name, {})
        try:
            there = of_lake(lake, table)
        except LakeError as error:
            lake.restart()
            yield TableReport(
                name, 0, 0, (Difference(name, Key(None, None), DAMAGED, None, 0, f"cannot be read: {error}"),)
            )
            continue
        found = [
            Difference(name, key, DAMAGED, None, there.get(key, none).rows, "")
            for key in sorted(known.keys() | there.keys(), key=_order)
            if (there.get(key, none).rows, there.get(key, none).digest)
            != (known.get(key, none).rows, known.get(key, none).digest)
        ]
        yield TableReport(name, len(there), sum(unit.rows for unit in there.values()), tuple(found))


def _first_row(lake: Lake, store: Connection, table: Table, key: Key) -> str:
    """The first row, in order of its columns, that one side has more often."""
    columns = ", ".join(
        f"{identifier(name)}::varchar as {identifier(name)}" if "(" in kind or "[" in kind else identifier(name)
        for name, kind in ((name, kept_type(kind)) for name, kind in table.columns)
    )
    cluster = "cluster" if table.cluster else "null::varchar"
    mine = (
        f"select {table.values} from {identifier(table.name)} where {within(table, [key])}"
        f" and {cluster} is not distinct from {text(key.cluster) if key.cluster is not None else 'null'}"
        f" and {table.day} is not distinct from {'null' if key.day is None else f'date {text(str(key.day))}'}"
    )
    its = f"select {columns} from {place(lake, table.name)} where {exactly([key], table)}"
    try:
        for side, query in (
            ("only in the store", f"select {columns} from incoming except all {its}"),
            ("only in the lake", f"{its} except all select {columns} from incoming"),
        ):
            with lake.incoming("incoming", store.reader(mine)):
                rows = lake.sql(f"from ({query}) order by all limit 1")
            if rows:
                return f"{side}: {_words(table.names, rows[0])}"
    except LakeError as error:
        lake.restart()
        return f"cannot be read: {error}"
    return ""


def _words(names: list[str], row: tuple[Any, ...]) -> str:
    """A row as JSON, without what is unknown in it."""
    values = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    return json.dumps(values, ensure_ascii=False, default=str)


def _order(key: Key) -> tuple[str, str]:
    return key.cluster or "", str(key.day or "")
