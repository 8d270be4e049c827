"""The columns of the tables of samples: a field has a stored column only once a sample has the field.

Before that, its column is generated as NULL: every query reads it, and it takes no time and no space. DuckDB sorts, compresses
and logs a stored column of NULLs like any other, and most fleets read a fifth of the fields.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable

import pyarrow as pa

from gpuwatch.core.fields import columns
from gpuwatch.core.model import Points, Records
from gpuwatch.store.connection import Connection, identifier

SAMPLE_TABLES = ("sample", "sample_tail", "sample_origin")
KEYS = ("device_id", "context_id", "observed_us")
ORDER = (*KEYS, *columns(), "file_id")
"""The columns of these tables in the order in which the first version made them. The tables themselves may have another."""
COPIED_ROWS_MAX = 50_000_000
"""Samples that are copied when a store of an earlier version is opened (about a CPU-second for each million). A larger table keeps
stored columns for all fields.
"""
_FIELDS = "select name from pragma_table_info('{table}') where dflt_value is null"
"""DuckDB lists the expression of a generated column as its default. duckdb_columns() takes eight times as long: it lists every table."""


def fields_of(batches: Iterable[Records | Points]) -> frozenset[str]:
    """The fields of which any sample of the batches may have a value."""
    found: set[str] = set()
    for batch in batches:
        if isinstance(batch, Points):
            found.update(batch.series.column("field").unique().to_pylist())
        elif batch.table == "sample":
            found.update(filled(batch.rows))
    return frozenset(found & columns().keys())


def filled(rows: pa.Table) -> list[str]:
    """The columns of samples without fields that have no value."""
    known = columns()
    return [name for name in rows.column_names if name not in known or rows.column(name).null_count < rows.num_rows]


def stored_fields(store: Connection) -> frozenset[str]:
    """The fields that have a stored column in every table of samples."""
    found = store.changes.sample_fields
    if found is None:
        found = _stored(store, "sample_tail")
        if not store.within:
            store.changes.sample_fields = found
    return found


def lacking(store: Connection, batches: Iterable[Records | Points]) -> frozenset[str]:
    """The fields of the batches that have no stored column yet."""
    return fields_of(batches) - stored_fields(store)


def widen(store: Connection, fields: Collection[str]) -> None:
    """Gives fields a stored column: in a transaction of its own, or in the caller's before its first sample, because DuckDB 1.5
    cannot alter a table with many rows that are not committed.

    Waits for a transaction that seals or deletes samples, which could not be committed afterwards.
    """
    if stored_fields(store).issuperset(fields):
        return
    if store.within:
        if _stored(store, "sample_tail").issuperset(fields):
            return
        if "sample_tail" in store.hollow:
            raise RuntimeError("a field got no column before the transaction that stores it: call Store.prepare")
        store.ends.enter_context(store.changes.sample_lock)
        # The transaction may have begun before others were committed: a table that looks empty to it need not be.
        changed = store.changes.counts()
        for table in SAMPLE_TABLES:
            _add(store, table, fields, surely=not changed[table])
        return
    with store.changes.sample_lock:
        with store.transaction():
            for table in SAMPLE_TABLES:
                _add(store, table, fields, surely=True)
        store.changes.sample_fields = _stored(store, "sample_tail")


def narrow(store: Connection) -> None:
    """Takes the stored columns of fields without any value from a store of an earlier version, in its migration's transaction."""
    counts = ", ".join(f"count({identifier(name)})" for name in columns())
    used: set[str] = set()
    rows: dict[str, int] = {}
    for table in SAMPLE_TABLES:
        rows[table], *counted = store.sql(f"select count(*), {counts} from {table}")[0]
        used.update(name for name, count in zip(columns(), counted, strict=True) if count)
    for table in SAMPLE_TABLES:
        if rows[table] <= COPIED_ROWS_MAX and (not rows[table] or _has_room(store)):
            _make(store, table, used, copied=rows[table] > 0)


def _has_room(store: Connection) -> bool:
    """Whether the disk has room for the file twice."""
    if store.path is None:
        return True
    size = sum(file.stat().st_size for file in store.path.glob("gpuwatch.duckdb*"))
    return shutil.disk_usage(store.path).free > 2 * size


def _stored(store: Connection, table: str) -> frozenset[str]:
    return frozenset(name for (name,) in store.sql(_FIELDS.format(table=table))) & columns().keys()


def _add(store: Connection, table: str, fields: Collection[str], *, surely: bool) -> None:
    """`surely`: the transaction sees all rows of the table. An empty one is made again, which is faster than to alter it."""
    have = _stored(store, table)
    missing = [name for name in columns() if name in fields and name not in have]
    if not missing:
        return
    if surely and not store.sql(f"select exists(select 1 from {table})")[0][0]:
        _make(store, table, have.union(missing), copied=False)
        return
    for name in missing:
        store.sql(f"alter table {table} drop column {identifier(name)}")
        store.sql(f"alter table {table} add column {identifier(name)} {columns()[name].type}")


def _make(store: Connection, table: str, fields: Collection[str], *, copied: bool) -> None:
    """Makes a table again in which these fields alone have stored columns."""
    kept = [name for name in ORDER if name not in columns() or name in fields]
    listed = [
        f"{identifier(name)} {field.type}"
        + ("" if name in fields else f" generated always as (null::{field.type}) virtual")
        for name, field in columns().items()
    ]
    keys = [f"{name} bigint" for name in KEYS]
    store.sql(f"create table new_{table} ({', '.join([*keys, *listed, 'file_id bigint'])})")
    if copied:
        names = ", ".join(map(identifier, kept))
        store.sql(f"insert into new_{table} ({names}) select {names} from {table}")
    store.sql(f"drop table {table}")
    store.sql(f"alter table new_{table} rename to {table}")
