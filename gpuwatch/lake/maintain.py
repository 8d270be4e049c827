"""Keeps the lake small: merges files, forgets old snapshots, deletes files that nothing names any more."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.lake import guard
from gpuwatch.lake.connection import Lake, LakeConflict
from gpuwatch.lake.literals import text
from gpuwatch.lake.tables import columns_of

KEEP_DAYS = 7
"""Snapshots stay so long: a reader that holds one of them can still read it."""
ORPHAN_DAYS = 1
"""A file that no snapshot names is deleted after so long: a publish that runs now may still name it."""
TRIES = 3


@dataclass(frozen=True)
class Maintained:
    """What was done. A table that a publish changed meanwhile is skipped until the next time."""

    tables: int
    skipped: int
    snapshots: int
    files: int
    orphans: int
    files_before: int
    files_after: int


def maintain(lake: Lake, keep_days: int = KEEP_DAYS) -> Maintained:
    """Merges the cell's files; then expires and deletes what is old in the whole lake. Repeating it changes nothing.

    Raises UsageError where the cell was never published.
    """
    guard.require(lake)
    before = _files(lake)
    names = list(columns_of(lake))
    crowded = _crowded(lake)
    skipped = sum(not _merged(lake, name) for name in names if name in crowded)
    snapshots = lake.sql(
        f"call ducklake_expire_snapshots('lake', older_than => now() - interval {int(keep_days)} days)"
    )
    files = lake.sql(f"call ducklake_cleanup_old_files('lake', older_than => now() - interval {ORPHAN_DAYS} days)")
    orphans = lake.sql(
        f"call ducklake_delete_orphaned_files('lake', older_than => now() - interval {ORPHAN_DAYS} days)"
    )
    return Maintained(len(names), skipped, len(snapshots), len(files), len(orphans), before, _files(lake))


def _merged(lake: Lake, table: str) -> bool:
    """Rewrites files with deleted rows, then merges small ones; False if a publish was faster each time."""
    where = f"'lake', {text(table)}, schema => {text(lake.settings.schema)}"
    for _ in range(TRIES):
        try:
            lake.sql(f"call ducklake_rewrite_data_files({where}, delete_threshold => 0)")
            lake.sql(f"call ducklake_merge_adjacent_files({where})")
            return True
        except LakeConflict:
            continue
    return False


def _crowded(lake: Lake) -> set[str]:
    """Tables with deleted rows in their files, or several files in one folder."""
    meta = lake.metadata
    rows = lake.sql(
        f"select t.table_name from {meta}.ducklake_schema s"
        f" join {meta}.ducklake_table t on t.schema_id = s.schema_id and t.end_snapshot is null"
        f" join {meta}.ducklake_data_file f on f.table_id = t.table_id and f.end_snapshot is null"
        f" left join {meta}.ducklake_delete_file d on d.data_file_id = f.data_file_id and d.end_snapshot is null"
        " where s.schema_name = $schema and s.end_snapshot is null group by 1"
        " having count(d.path) > 0 or count(f.path) > count(distinct regexp_replace(f.path, '[^/]*$', ''))",
        schema=lake.settings.schema,
    )
    return {table for (table,) in rows}


def _files(lake: Lake) -> int:
    """Data files and delete files of the whole lake."""
    return int(
        lake.sql("select coalesce(sum(file_count + delete_file_count), 0) from ducklake_table_info('lake')")[0][0]
    )
