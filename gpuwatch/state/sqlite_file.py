"""The SQLite file of the state: where it is, how it is opened, and how its transactions begin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, Connection

from gpuwatch.core.errors import StoreError
from gpuwatch.state.sqlite_log import check_log
from gpuwatch.store.private_files import make_private

FILE = "state.sqlite"
"""Name of the SQLite file in the data directory."""

BUSY_TIMEOUT_MS = 10_000
"""How long a writer waits for another writer before it gives up."""


class StateMissing(StoreError):
    """There is no state where one was expected, or only an empty database."""


def file_url(directory: Path, create: bool) -> URL:
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
    return URL.create("sqlite", database=str(path))


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
