"""Damage of the store's two files: recognized when they are opened, with what is lost and the ways out."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shlex import quote

import duckdb

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.errors import StoreError

IN_USE = ("could not set lock", "conflicting lock")
CORRUPT = (
    "corrupt",
    "not a valid duckdb database",
    "could not read enough bytes",
    "failed to deserialize",
    "checksum",
    "serialization error",
)
LOG_ERRORS = ("wal file", "this wal was created", "replaying wal")
_LOG_HEAD = re.compile(rb"\x64\x00\x62\x65\x00[\x00-\x7f]\x66\x00\x10.{16,32}?\x67\x00.{1,10}?\xff\xff", re.DOTALL)
"""DuckDB's log begins with its version, the id of its store (16 numbers of one or two bytes) and the count of checkpoints."""
_LOG_COMMIT = re.compile(rb"\x05\x00{7}.{8}\x64\x00\x64\xff\xff", re.DOTALL)
"""The entry that ends a transaction in DuckDB's log: its size, its checksum and its type."""
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"([\d.]+) (bytes|KiB|MiB|GiB|TiB)")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChangeLog:
    """DuckDB's write-ahead log before the store is opened: committed changes that are not in the main file yet."""

    path: Path
    size_bytes: int
    written_us: int

    @classmethod
    def of(cls, store_file: Path) -> ChangeLog | None:
        """The log of a store file; None if it has none or an empty one."""
        path = store_file.with_name(f"{store_file.name}.wal")
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(path, found.st_size, found.st_mtime_ns // 1000) if found.st_size else None


def cannot_open(error: duckdb.Error, path: Path | None, file: Path | None, changes: ChangeLog | None) -> StoreError:
    """Why a store cannot be opened, and what to do."""
    text = str(error)
    lower = text.lower()
    if any(words in lower for words in IN_USE):
        pid = re.search(r"PID (\d+)", text)
        holder = f"process {pid[1]}" if pid else "another process"
        return StoreError(f"{path} is in use by {holder}: stop it, or ask it instead of opening its files")
    first = text.splitlines()[0] if text else type(error).__name__
    if path is None or file is None:
        return StoreError(f"cannot open the store: {first}")
    if changes is not None and any(words in lower for words in LOG_ERRORS):
        return log_damaged(changes, path, file, first)
    if any(words in lower for words in CORRUPT):
        return StoreError(
            f"the store {file} is damaged: {first}. Restore a backup: gpuwatch restore BACKUP --data {quote(str(path))} "
            "(it keeps the damaged files aside), or give another --data directory"
        )
    return StoreError(f"cannot open the store in {path}: {first}")


def check_replayed(connection: duckdb.DuckDBPyConnection, path: Path, file: Path, changes: ChangeLog) -> None:
    """Raises StoreError if DuckDB ignored committed changes, which it does without an error where the log's head is damaged.

    A log with a whole head and no commit is what a kill during its first transaction leaves: nothing in it was acknowledged.
    """
    replayed = _replayed_bytes(connection)
    if replayed is None or replayed[0] != 0 or changes != ChangeLog.of(file):
        return
    with changes.path.open("rb") as log_file, mmap(log_file.fileno(), 0, access=ACCESS_READ) as content:
        if _LOG_HEAD.match(content) is None:
            raise log_damaged(changes, path, file, "its head is not that of a log of this store")
        if _LOG_COMMIT.search(content) is not None:
            raise log_damaged(changes, path, file, "an entry before its first commit is damaged")


def warn_if_cut(
    connection: duckdb.DuckDBPyConnection, file: Path, changes: ChangeLog, newest_us: Callable[[], int | None]
) -> None:
    """Logs how much of the end of the log DuckDB dropped, and the time that may be missing."""
    now = ChangeLog.of(file)
    replayed = _replayed_bytes(connection)
    if now is None or replayed is None:
        return  # it was folded into the file
    used, rounding = replayed
    dropped = changes.size_bytes - used
    if dropped <= max(64, rounding):
        return
    newest = newest_us()
    log.warning(
        "%s: about %d bytes at its end were an unfinished or damaged change and were dropped; the newest sample that is "
        "kept is of %s, and the log was last written at %s, so data of the time between may be missing",
        changes.path,
        dropped,
        "no time" if newest is None else rfc3339(newest),
        rfc3339(changes.written_us),
    )


def log_damaged(changes: ChangeLog, path: Path, file: Path, why: str) -> StoreError:
    """The refusal to go on without committed changes."""
    folded = rfc3339(file.stat().st_mtime_ns // 1000)
    aside = f"{changes.path}.damaged"
    return StoreError(
        f"the change log {changes.path} cannot be read: {why}. It has {changes.size_bytes} bytes of acknowledged changes, "
        f"the last of {rfc3339(changes.written_us)}; the store file without it is from {folded}. Restore a backup: "
        f"gpuwatch restore BACKUP --data {quote(str(path))}; or go on without what changed between these two times: "
        f"mv {quote(str(changes.path))} {quote(aside)}"
    )


def _replayed_bytes(connection: duckdb.DuckDBPyConnection) -> tuple[int, int] | None:
    """The size of the log that DuckDB uses, and how much of it DuckDB may have rounded away (it prints one decimal); None
    if it reports no size that can be read.
    """
    rows = connection.execute("select wal_size from pragma_database_size()").fetchall()
    found = _SIZE.fullmatch(str(rows[0][0])) if rows else None
    if found is None:
        return None
    unit = _UNITS[found[2]]
    return int(float(found[1]) * unit), unit // 10
