"""What the cells of a lake have published, and how many files they use."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.lake import guard, notes
from gpuwatch.lake.connection import Lake
from gpuwatch.lake.tables import cells_of


@dataclass(frozen=True)
class CellStatus:
    """One cell. Times are microseconds."""

    cell: str
    published_us: int
    holder: str
    epoch: int
    publishes: int
    tables: int
    units: int
    rows: int
    newest_day: str | None
    """The newest day with hours of the ledger."""
    files: int
    files_bytes: int
    delete_files: int


def cells(lake: Lake) -> list[CellStatus]:
    """Every cell of the lake, by name."""
    sizes = _sizes(lake)
    others = [lake.cell(name) for name, tables in cells_of(lake).items() if guard.GUARD in tables]
    return [_cell(other, sizes.get(other.settings.schema, (0, 0, 0))) for other in others]


def _cell(other: Lake, sizes: tuple[int, int, int]) -> CellStatus:
    found, noted = guard.read(other), notes.read(other)
    days = [key.day for key in noted.get("ledger_hour", {}) if key.day is not None]
    units = [content for each in noted.values() for content in each.values()]
    return CellStatus(
        cell=other.settings.cell,
        published_us=found.at_us,
        holder=found.holder,
        epoch=found.epoch,
        publishes=found.n,
        tables=sum(1 for each in noted.values() if each),
        units=len(units),
        rows=sum(content.rows for content in units),
        newest_day=str(max(days)) if days else None,
        files=sizes[0],
        files_bytes=sizes[1],
        delete_files=sizes[2],
    )


def _sizes(lake: Lake) -> dict[str, tuple[int, int, int]]:
    """Files, their bytes and delete files by schema, as the catalogue has them now."""
    meta = lake.metadata
    rows = lake.sql(
        f"select s.schema_name, count(f.path), coalesce(sum(f.file_size_bytes), 0)::bigint, count(d.path)"
        f" from {meta}.ducklake_schema s join {meta}.ducklake_table t on t.schema_id = s.schema_id and t.end_snapshot is null"
        f" join {meta}.ducklake_data_file f on f.table_id = t.table_id and f.end_snapshot is null"
        f" left join {meta}.ducklake_delete_file d on d.data_file_id = f.data_file_id and d.end_snapshot is null"
        " where s.end_snapshot is null group by 1"
    )
    return {schema: (files, size, deletes) for schema, files, size, deletes in rows}
