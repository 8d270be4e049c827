"""Takes a cell out of the lake: every table as plain Parquet, readable without the catalogue."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.literals import text
from gpuwatch.lake.tables import SAMPLES, Table, columns_of, lake_tables
from gpuwatch.lake.units import place
from gpuwatch.store.connection import identifier

PARTIAL = ".partial"


@dataclass(frozen=True)
class ExportedTable:
    """A table that was written."""

    table: str
    files: int
    rows: int
    size_bytes: int


def export(
    lake: Lake, target: Path, only: tuple[str, ...] = (), progress: Callable[[int, int], None] | None = None
) -> Iterator[ExportedTable]:
    """Writes TABLE.parquet for each table into an empty directory; samples a file for each day. One snapshot of the lake.

    Raises UsageError for a directory with something in it, an unknown table or a cell that is not there, UnreadableInput
    where it cannot be written.
    """
    if not guard.exists(lake):
        raise UsageError(
            f"the lake {lake.settings.shown()} has no cell {lake.settings.cell}: gpuwatch lake status lists them"
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise UsageError(f"--to {target}: there is something in it; name an empty directory or a new one")
    except OSError as error:
        raise UnreadableInput(f"--to {target}: {error.strerror or error}; use another directory") from error
    with lake.transaction():
        tables = lake_tables(columns_of(lake))
        if unknown := sorted(set(only) - {table.name for table in tables}):
            raise UsageError(f"--table {unknown[0]}: unknown; known: {', '.join(table.name for table in tables)}")
        chosen = [table for table in tables if not only or table.name in only]
        for number, table in enumerate(chosen):
            if progress is not None:
                progress(number, len(chosen))
            yield _table(lake, target, table)


def _table(lake: Lake, target: Path, table: Table) -> ExportedTable:
    columns, source = ", ".join(map(identifier, table.names)), place(lake, table.name)
    if table.name != SAMPLES:
        path = target / f"{table.name}.parquet"
        rows = _write(lake, path, f"select {columns} from {source}")
        return ExportedTable(table.name, 1, rows, path.stat().st_size)
    days = [str(day) for (day,) in lake.sql(f"select distinct _day from {source} where _day is not null order by 1")]
    paths = [target / SAMPLES / f"day={day}" / "samples.parquet" for day in days]
    rows = 0
    for day, path in zip(days, paths, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        rows += _write(lake, path, f"select {columns} from {source} where _day = date {text(day)}")
    return ExportedTable(table.name, len(paths), rows, sum(path.stat().st_size for path in paths))


def _write(lake: Lake, path: Path, query: str) -> int:
    """Writes a file that is complete before it has its name; returns its rows."""
    fresh = path.with_name(path.name + PARTIAL)
    rows = lake.sql(f"copy ({query}) to {text(str(fresh))} (format parquet, compression zstd)")[0][0]
    os.replace(fresh, path)
    return int(rows)
