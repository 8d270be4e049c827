"""The SQLite file of the state: where it is, how it is opened, and how its transactions begin."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from gpuwatch.core.errors import StoreError
from gpuwatch.state.causes import cause
from gpuwatch.state.sqlite_log import check_log
from gpuwatch.store.private_files import make_private

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

FILE = "state.sqlite"
"""Name of the SQLite file in the data directory."""

BUSY_TIMEOUT_MS = 10_000
"""How long a writer waits for another writer before it gives up."""


class StateMissing(StoreError):
    """There is no state where one was expected, or only an empty database."""


def file_path(directory: Path, create: bool) -> Path:
    """The SQLite file of a data directory, readable by its owner only because it stores secrets."""
    path = directory / FILE
    if not create and not (path.exists() and path.stat().st_size):
        raise StateMissing(f"state {path}: is {'empty' if path.exists() else 'missing'}")
    try:
        make_private(directory)
        check_log(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        fix = "choose another --data directory or its permissions"
        raise StoreError(f"state {path}: {error.strerror or error}; {fix}") from error
    return path


class Reader:
    """Reads a SQLite file without SQLAlchemy, which takes longer to import than a command to answer. For several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._own: sqlite3.Connection | None = None

    def rows(self, query: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
        """The rows of a query. Raises StoreError."""
        try:
            with self._lock:
                if self._own is None:
                    self._own = self._opened()
                found = self._own.execute(query, parameters)
                names = [column[0] for column in found.description]
                return [dict(zip(names, row, strict=True)) for row in found]
        except sqlite3.Error as error:
            raise StoreError(f"state {self._path}: {cause(error)}") from error

    def schema(self) -> str | None:
        """The migration recorded in the file, None for an empty one."""
        if not self.rows("select 1 from sqlite_master where type = 'table' and name = 'alembic_version'", {}):
            return None
        found = self.rows("select version_num from alembic_version", {})
        return str(found[0]["version_num"]) if found else None

    def _opened(self) -> sqlite3.Connection:
        opened = sqlite3.connect(self._path, check_same_thread=False)
        try:
            set_pragmas(opened, None)
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        """Closes the connection."""
        with self._lock:
            if self._own is not None:
                self._own.close()
            self._own = None


def set_pragmas(connection: Any, _: Any) -> None:
    """Lets readers run concurrently with a writer, keeps every acknowledged commit, and leaves BEGIN to begin."""
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = wal",
        "synchronous = full",
        "foreign_keys = on",
    ):
        connection.execute(f"pragma {pragma}")


def begin(connection: Connection) -> None:
    """A writer takes the lock immediately: upgrading a read transaction can fail without waiting."""
    write = connection.get_execution_options().get("gpuwatch_write", True)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
