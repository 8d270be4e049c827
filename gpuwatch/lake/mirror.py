"""What a data directory has from the lake: noted in a schema of the same file, in the transactions that write the rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from gpuwatch.core.errors import UsageError
from gpuwatch.lake.guard import Guard
from gpuwatch.lake.units import Content, Key, Units
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store

SCHEMA = "mirror"
_MAKE = (
    f"create schema {SCHEMA}",
    (
        f"create table {SCHEMA}.unit_note"
        ' (cell varchar, table_name varchar, cluster varchar, "day" date, "rows" bigint, digest varchar)'
    ),
    (
        f"create table {SCHEMA}.cell_note"
        " (cell varchar, number bigint, epoch bigint, n bigint, published_us bigint, store_id varchar)"
    ),
    f"create table {SCHEMA}.pull_note (snapshot bigint, pulled_us bigint, whole boolean)",
)
_NOTES = pa.schema(
    [("cell", pa.string()), ("table_name", pa.string()), ("cluster", pa.string()), ("day", pa.date32())]
    + [("rows", pa.int64()), ("digest", pa.string())]
)
CellUnits = dict[str, dict[str, Units]]
"""Units by cell and table."""


@dataclass(frozen=True)
class CellNote:
    """A cell as it was when all of it was copied."""

    cell: str
    number: int
    """Of its arrival in this directory."""
    epoch: int
    n: int
    published_us: int
    store_id: str

    def is_as(self, found: Guard) -> bool:
        """Whether the cell was not published since."""
        return (self.epoch, self.n, self.store_id) == (found.epoch, found.n, found.store_id)


@dataclass(frozen=True)
class PullNote:
    """The last pull. `whole`: everything is of one snapshot of the lake; a pull that was interrupted leaves several."""

    snapshot: int
    pulled_us: int
    whole: bool


def is_mirror(store: Connection) -> bool:
    """Whether the directory is filled from a lake."""
    query = "select 1 from duckdb_schemas() where schema_name = $name and database_name = current_database()"
    return bool(store.sql(query, name=SCHEMA))


def prepare(store: Store) -> None:
    """Makes the notes in an empty directory. Raises UsageError for one with data that are not from a lake."""
    if is_mirror(store):
        return
    if not store.is_empty() or store.linked_state() is not None:
        raise UsageError(
            f"--data {store.path}: has data of its own, which a copy of the lake would replace; name an empty directory"
        )
    with store.transaction():
        for statement in _MAKE:
            store.sql(statement)


def last_pull(store: Connection) -> PullNote | None:
    """The last pull; None before the first one has written something."""
    rows = store.sql(f"select snapshot, pulled_us, whole from {SCHEMA}.pull_note")
    return PullNote(*rows[0]) if rows else None


def cells(store: Connection) -> dict[str, CellNote]:
    """The cells that were copied to their end."""
    query = f"select cell, number, epoch, n, published_us, store_id from {SCHEMA}.cell_note order by number"
    return {row[0]: CellNote(*row) for row in store.sql(query)}


def units(store: Connection) -> CellUnits:
    """What is here of which cell."""
    found: CellUnits = {}
    query = f'select cell, table_name, cluster, "day", "rows", digest from {SCHEMA}.unit_note'
    for cell, table, cluster, day, rows, digest in store.sql(query):
        found.setdefault(cell, {}).setdefault(table, {})[Key(cluster, day)] = Content(rows, digest)
    return found


def note_units(store: Connection, table: str, keys: Collection[Key], now: Mapping[str, Units]) -> None:
    """Notes within a transaction what these units of a table have now, by cell."""
    gone = [{"cluster": key.cluster, "day": key.day} for key in keys]
    with store.view("gone_note", pa.Table.from_pylist(gone, schema=pa.schema(list(_NOTES)[2:4]))):
        store.sql(
            f"delete from {SCHEMA}.unit_note n where n.table_name = $table and exists (from gone_note g"
            ' where g.cluster is not distinct from n.cluster and g."day" is not distinct from n."day")',
            table=table,
        )
    rows = [
        {"cell": cell, "table_name": table, **key._asdict(), "rows": content.rows, "digest": content.digest}
        for cell, found in now.items()
        for key, content in found.items()
    ]
    if rows:
        with store.view("new_note", pa.Table.from_pylist(rows, schema=_NOTES)):
            store.sql(f"insert into {SCHEMA}.unit_note by name from new_note")


def note_pull(store: Connection, pull: PullNote) -> None:
    """Notes within a transaction which snapshot the directory has, or begins to have."""
    store.sql(f"delete from {SCHEMA}.pull_note")
    store.sql(
        f"insert into {SCHEMA}.pull_note values ($snapshot, $pulled_us, $whole)",
        snapshot=pull.snapshot,
        pulled_us=pull.pulled_us,
        whole=pull.whole,
    )


def note_cells(store: Connection, found: Iterable[CellNote]) -> None:
    """Notes within a transaction that all of these cells is here."""
    for cell in found:
        store.sql(f"delete from {SCHEMA}.cell_note where cell = $cell", cell=cell.cell)
        store.sql(
            f"insert into {SCHEMA}.cell_note values ($cell, $number, $epoch, $n, $published_us, $store_id)",
            **cell.__dict__,
        )


def forget(store: Connection) -> None:
    """Makes the directory one of its own, within a transaction."""
    store.sql(f"drop schema {SCHEMA} cascade")
