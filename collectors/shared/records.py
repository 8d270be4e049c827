"""Rows of store tables, gathered into Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from gpuwatch.core.model import TABLES, Records

BATCH_ROWS = 100_000

Columns = dict[str, Any]
"""One row by column name; a missing column is NULL."""
Row = tuple[str, Columns]
"""A store table and one row of it."""

_LARGEST = {
    table: [(field.name, 2 ** (field.type.bit_width - 1) - 1) for field in schema if pa.types.is_integer(field.type)]
    for table, schema in TABLES.items()
}
"""The integer columns of each table with the largest value that fits."""


def fitting(rows: list[Row]) -> list[Row]:
    """Returns the rows; raises ValueError for a number that is too large for its column, e.g. a sum or a product."""
    for table, row in rows:
        for name, largest in _LARGEST[table]:
            if (value := row.get(name)) is not None and abs(value) > largest:
                raise ValueError(f"{name} is larger than {largest}")
    return rows


def batches(rows: Iterable[Row]) -> Iterator[Records]:
    """Gathers rows of any tables into batches of at most BATCH_ROWS rows each."""
    waiting: dict[str, list[Columns]] = {}
    for table, row in rows:
        gathered = waiting.setdefault(table, [])
        gathered.append(row)
        if len(gathered) >= BATCH_ROWS:
            yield _records(table, waiting.pop(table))
    for table, gathered in waiting.items():
        yield _records(table, gathered)


def table_batches(table: str, rows: Sequence[Columns], cluster: str) -> Iterator[Records]:
    """Batches of at most BATCH_ROWS rows each of one table, all of one cluster."""
    for start in range(0, len(rows), BATCH_ROWS):
        yield _records(table, rows[start : start + BATCH_ROWS], cluster)


def _records(table: str, rows: Sequence[Columns], cluster: str | None = None) -> Records:
    """One batch; `cluster` replaces the rows' own."""
    schema = TABLES[table]
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    if cluster is not None:
        columns["cluster"] = [cluster] * len(rows)
    return Records(table, pa.Table.from_pydict(columns, schema=schema))
