"""Which tables of a store are published, cut into which units: decided from the schema, so that a new table needs no edit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpuwatch.core.clock import DAY_US
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.settings import SCHEMA_PREFIX
from gpuwatch.store.connection import Connection, identifier
from gpuwatch.store.sample_columns import ORDER, SAMPLE_TABLES

NOT_PUBLISHED = {
    "analyzed": "what the last pass of this file read; a rebuilt file analyzes once",
    "attributed_day": "what lets a pass of this file skip days; rebuilt by the next pass",
    "clock_mark": "the clock of this machine since its last start",
    "dirty_hour": "hours that wait for this file's next pass, which publishes what it computes",
    "retention_bound": "what the next retention of this file may delete",
    "sample_tail": "samples that are not sorted yet; those of a whole day are published as sample",
    "schema_migration": "the migrations of this file",
    "state_link": "the state that belongs to this file",
    "store_identity": "the identity of this file",
}
"""Tables about the file itself, each with the reason. Every other one is published."""

STAMPED = frozenset(
    {"book_day", "device_hour", "device_minute", "device_window", "idle_span", "ledger_hour", "slice_day", "stranding"}
    | {"sample", "team_day", "word_day", "workload_hour"}
)
"""Large tables whose rows of a day change only with the day's stamp or their number; of all others the content is compared."""

SAMPLES = "sample"
"""Published by whole sealed days, which stay in the lake after the store's retention has deleted them."""

DAY_COLUMNS = ("day_us", "hour_us", "start_us", "started_us", "observed_us", "submit_us", "at_us", "imported_us")
"""The first of these that a table has decides the day of its rows."""
LAST_US = 7_258_118_400_000_000
"""The year 2200. Rows of later days, of days before 1970 and of no day are one unit."""
DAY = "_day"
"""The column that a table of the lake has beside those of the store's."""

_COLUMNS = """
select c.table_name, c.column_name, c.data_type
from duckdb_columns() c
join duckdb_tables() t using (database_name, schema_name, table_name)
where c.database_name = current_database() and c.schema_name = 'main' and not t.temporary and not t.internal
order by c.table_name, c.column_index
"""
_DEFINITIONS = """
select table_name, sql
from duckdb_tables()
where database_name = current_database() and schema_name = 'main' and not temporary and not internal
"""
_SAMPLE_PLACES = {name: place for place, name in enumerate(ORDER)}


@dataclass(frozen=True)
class Table:
    """A published table of the store."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and type in the store."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def listed(self) -> str:
        """The names of the columns, for SQL."""
        return ", ".join(map(identifier, self.names))

    @property
    def cluster(self) -> bool:
        """Whether each row belongs to a cluster."""
        return "cluster" in self.names

    @property
    def day_column(self) -> str | None:
        """The time that decides the day of a row; None: the table has no days."""
        return next((name for name in DAY_COLUMNS if name in self.names), None)

    @property
    def day(self) -> str:
        """The expression of the day of a row of the store."""
        if self.day_column is None:
            return "null::date"
        at = identifier(self.day_column)
        return f"case when {at} >= 0 and {at} < {LAST_US} then date '1970-01-01' + ({at} // {DAY_US})::integer end"

    @property
    def stamped(self) -> bool:
        return self.name in STAMPED

    @cached_property
    def kept_columns(self) -> list[tuple[str, str]]:
        """Name and type in the lake."""
        return [(name, kept_type(kind)) for name, kind in self.columns] + ([(DAY, "DATE")] if self.day_column else [])

    @property
    def values(self) -> str:
        """The columns of the store as the lake keeps them."""
        return ", ".join(
            identifier(name)
            if kept_type(kind) == kind
            else f"{identifier(name)}::{kept_type(kind)} as {identifier(name)}"
            for name, kind in self.columns
        )

    @property
    def digest(self) -> str:
        """A sum over all rows that has no order; the same expression serves the store and the lake."""
        parts = ", ".join(f"{identifier(name)}::{kept_type(kind)}" for name, kind in self.columns)
        return f"coalesce(sum(hash({parts})::hugeint), 0)::varchar"


def kept_type(kind: str) -> str:
    """The type in the lake. Parquet has no whole numbers above 64 bits: DuckDB would write them as floating point."""
    return "VARCHAR" if "HUGEINT" in kind else kind


def every_table(store: Connection) -> list[Table]:
    """All tables of a store."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in store.sql(_COLUMNS):
        found.setdefault(table, []).append((column, kind))
    for table in SAMPLE_TABLES:  # their columns move when a field gets a stored one
        found[table].sort(key=lambda column: _SAMPLE_PLACES.get(column[0], len(ORDER)))
    return [Table(name, tuple(columns)) for name, columns in found.items()]


def definitions(store: Connection) -> list[tuple[str, str]]:
    """The statements that would make the tables of a store: a third of what reading their columns costs."""
    return sorted(store.sql(_DEFINITIONS))


def published_tables(store: Connection, samples: bool = True) -> list[Table]:
    """Those that the lake gets."""
    left_out = NOT_PUBLISHED.keys() | (set() if samples else {SAMPLES, "sample_origin"})
    return [table for table in every_table(store) if table.name not in left_out]


Columns = dict[str, list[tuple[str, str]]]
"""The tables of a cell, in order, with names and types of their columns."""


def cells_of(lake: Lake) -> dict[str, Columns]:
    """Every cell of the lake with all its tables, as the catalogue has them."""
    # duckdb_tables() would ask the catalogue for the size of every table.
    query = (
        "select schema_name, table_name, column_name, data_type from duckdb_columns() where database_name = 'lake'"
        " and starts_with(schema_name, $prefix) order by schema_name, table_name, column_index"
    )
    found: dict[str, Columns] = {}
    for schema, table, column, kind in lake.sql(query, prefix=SCHEMA_PREFIX):
        cell = found.setdefault(schema.removeprefix(SCHEMA_PREFIX), {})
        cell.setdefault(table, []).append((column, kind))
    return found


def columns_of(lake: Lake) -> Columns:
    """The tables of the lake's own cell; none where it was never published."""
    return cells_of(lake).get(lake.settings.cell, {})


def lake_tables(columns: Columns) -> list[Table]:
    """The published tables as the lake has them. Those whose names begin with _ are the lake's own."""
    return [
        Table(name, tuple(column for column in listed if column[0] != DAY))
        for name, listed in columns.items()
        if not name.startswith("_")
    ]
