"""A store whose tables are views on those of a lake: every question of gpuwatch can be asked through it."""

from __future__ import annotations

from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.lake.tables import Table, kept_type, published_tables
from gpuwatch.lake.units import place
from gpuwatch.store.connection import identifier
from gpuwatch.store.database import Store


def store_through(settings: LakeSettings) -> Store:
    """A store in memory: published tables are read from the lake, all others are empty."""
    store = Store.open(None)
    lake = Lake.attached(store._connection, settings)
    for table in published_tables(store):
        store.sql(f"drop table {identifier(table.name)}")
        store.sql(f"create view {identifier(table.name)} as {as_in_the_store(lake, table)}")
    return store


def as_in_the_store(lake: Lake, table: Table) -> str:
    """A select of a table of the lake with the columns and types of the store."""
    columns = ", ".join(
        identifier(name) if kept_type(kind) == kind else f"{identifier(name)}::{kind} as {identifier(name)}"
        for name, kind in table.columns
    )
    return f"select {columns} from {place(lake, table.name)}"
