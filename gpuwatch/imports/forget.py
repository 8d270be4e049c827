"""Lists imports and takes them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.store.connection import Connection
from gpuwatch.store.database import Store
from gpuwatch.store.withdraw import withdraw

COLUMNS = (
    "id",
    "imported_at",
    "kind",
    "path",
    "cluster",
    "timezone",
    "files",
    "records",
    "rejected",
    "replaced",
    "replaced_by",
    "state",
)
FORGOTTEN = ("id", "path", "files", "kept_files", "records")
"""What was taken back; `kept_files` were given by another import too."""
COMPLETE, INTERRUPTED, FIXED = "complete", "interrupted", "not removable"
"""States of an import: all its files, those before an interruption, or made by a version that kept no origin of records."""


class NoSuchImport(UsageError):
    """No import has the id, or it was already taken back."""


def imports(store: Connection) -> list[dict[str, Any]]:
    """Every import whose records are in the store, the newest first; the columns are COLUMNS."""
    return [
        {
            "id": row["import_id"],
            "imported_at": rfc3339(row["imported_us"]),
            "kind": row["kind"],
            "path": row["path"],
            "cluster": row["cluster"],
            "timezone": row["zone"],
            "files": row["files"],
            "records": row["records"],
            "rejected": row["rejected"],
            "replaced": row["replaced"],
            "replaced_by": row["replaced_by"],
            "state": FIXED if row["untraced"] else COMPLETE if row["finished"] else INTERRUPTED,
        }
        for row in store.rows("imports/listing")
    ]


def forget(store: Store, import_id: int, now_us: int) -> dict[str, Any]:
    """Takes an import back, all or nothing: records that another import gave too stay. The next analysis computes the
    touched hours again.

    Raises NoSuchImport, and UsageError for an import that cannot be undone.
    """
    with store.workspace() as work, work.transaction():
        run = work.sql("select path from import_run where import_id = $id and forgotten_us is null", id=import_id)
        if not run:
            raise NoSuchImport(f"import {import_id}: there is none with this id; gpuwatch imports lists them")
        files = work.rows("imports/givers", import_id=import_id)
        untraced = [file["path"] for file in files if not file["traced"] and not file["shared"]]
        if untraced:
            raise UsageError(
                f"import {import_id}: cannot be undone, because it was made by an earlier version, which did not keep "
                f"which records came from {untraced[0]}; to leave it out, import the other files into a new data directory"
            )
        gone = [file["file_id"] for file in files if not file["shared"]]
        removed = forget_files(work, gone, f"import {import_id}")
        work.sql("delete from import_given where import_id = $id", id=import_id)
        work.sql("update import_run set forgotten_us = $now where import_id = $id", id=import_id, now=now_us)
    store.checkpoint()
    done = (import_id, run[0][0], len(gone), len(files) - len(gone), removed)
    return dict(zip(FORGOTTEN, done, strict=True))


def forget_files(store: Connection, file_ids: Sequence[int], what: str) -> int:
    """Removes all that files gave, in the caller's transaction; returns the number of records."""
    removed = withdraw(store, file_ids, what)
    bills = store.rows("imports/bill_lines", files=file_ids)[0]["lines"]
    store.run("imports/forget", files=file_ids)
    store.run("imports/exact_reading", file_id=None)
    return removed + int(bills)
