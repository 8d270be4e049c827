"""A connection to the lake: an in-memory DuckDB of its own with the lake attached, apart from the one that has the store."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

import duckdb
import pyarrow as pa

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.lake import bucket, extensions
from gpuwatch.lake.bucket import SILENT_S
from gpuwatch.lake.literals import quoted, text
from gpuwatch.lake.settings import LakeSettings
from gpuwatch.store.private_files import private_umask

DUCKDB = duckdb.__version__
_SESSION = "gpuwatch"
MEMORY_LIMIT = "1GB"
THREADS = 2
"""For many rows. Small work has one thread: a second one costs it a third more of the processor."""
MANY_ROWS = 100_000
CONNECT_S = 10
CATALOGUE_SCHEMA = "lake"
"""The schema of the PostgreSQL database that has DuckLake's own tables."""
ATTACHES_MAX, ATTACH_AGAIN_S = 5, 0.5
"""How often an empty catalogue is attached that other processes make at the same time."""
_MADE_TWICE = re.compile(
    r"duplicate key value violates unique constraint \W{1,2}pg_\w+_index|relation \W{1,2}ducklake_\w+\W{1,2} already exists"
)
_CONFLICT = ("conflict", "attempting to")
_SERVER_OPTIONS = ("host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "hostaddr", "passfile", "service")


class LakeError(StoreError):
    """The lake cannot be reached, read or written."""


class LakeConflict(LakeError):
    """Another process has committed to the same tables first."""


class Lake:
    """One connection. Not for use by two threads at once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, settings: LakeSettings) -> None:
        self._connection = connection
        self.settings = settings
        self._secrets: tuple[str, ...] = ()
        """What no message may show."""
        self._details = ""
        """How the catalogue is connected to, which DuckDB's messages repeat."""

    @classmethod
    def open(cls, settings: LakeSettings, *, create: bool = False) -> Self:
        """Attaches the lake to a DuckDB of its own; with `create`, one that does not exist yet is made.

        Raises UsageError without the extensions or for data that belong to another place, LakeError for a lake that does not
        respond, UnreadableInput for a secret that cannot be read.
        """
        extensions.needed(settings, DUCKDB)
        connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "memory_limit": MEMORY_LIMIT,
                "threads": 1,
            }
        )
        try:
            return cls.attached(connection, settings, create=create)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def attached(cls, connection: duckdb.DuckDBPyConnection, settings: LakeSettings, *, create: bool = False) -> Self:
        """The same on a DuckDB that is there already: its other tables can be joined with those of the lake."""
        lake = cls(connection, settings)
        if not settings.on_server:
            _folders(settings, create)
        for path in extensions.needed(settings, DUCKDB):
            lake._do(f"load {text(str(path))}")
        lake._keys()
        attach = _attach(settings, lake._catalogue(), create)
        with private_umask():
            for tried in range(1, ATTACHES_MAX + 1):
                try:
                    lake._do(attach)
                    break
                except LakeError as error:
                    # Others make the same empty catalogue now: PostgreSQL has no "if not exists" that waits for them.
                    if tried == ATTACHES_MAX or _MADE_TWICE.search(str(error)) is None:
                        raise
                    time.sleep(ATTACH_AGAIN_S)
        return lake

    def close(self) -> None:
        """Ends the connection. What was not committed is not in the lake."""
        with suppress(duckdb.Error):
            self._connection.close()

    def cell(self, name: str) -> Lake:
        """The same connection for another cell."""
        return Lake(self._connection, replace(self.settings, cell=name))

    @property
    def metadata(self) -> str:
        """The schema with DuckLake's own tables, for SQL."""
        return f"__ducklake_metadata_lake.{CATALOGUE_SCHEMA if self.settings.on_server else 'main'}"

    @property
    def _session(self) -> str:
        """What the catalogue's server calls the connections of this process: PostgreSQL keeps 63 characters."""
        return f"{_SESSION} {self.settings.cell or '-'} {os.getpid()} {socket.gethostname()}"[:63]

    def end_others(self) -> None:
        """Ends the catalogue's sessions of other processes of this cell that stopped in the middle of a commit: one that is paused,
        or whose machine is gone, would keep its locks. A process that wakes without its session may end: DuckDB's extension aborts
        where it cannot roll back. Sessions that only read are left alone.
        """
        if not self.settings.on_server:
            return
        query = (
            "select pg_terminate_backend(pid) from pg_stat_activity a where datname = current_database()"
            f" and usename = current_user and starts_with(application_name, '{_SESSION} {self.settings.cell} ')"
            f" and application_name <> {text(self._session)} and state like 'idle in transaction%'"
            " and exists (select from pg_locks l where l.pid = a.pid and locktype = 'relation' and mode <> 'AccessShareLock')"
        )
        self.sql(f"from postgres_query('__ducklake_metadata_lake', {text(query)})")

    def interrupt(self) -> None:
        """Ends the running statement, from another thread."""
        with suppress(duckdb.Error):
            self._connection.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(self, statement: str, **parameters: object) -> list[tuple[Any, ...]]:
        """The rows of one statement; a change returns the number of rows."""
        return self._do(statement, parameters or None)

    def reader(self, statement: str) -> pa.RecordBatchReader:
        """The rows of one statement in batches."""
        try:
            return self._connection.execute(statement).to_arrow_reader()
        except duckdb.Error as error:
            raise self._explained(error) from error

    @contextmanager
    def incoming(self, name: str, rows: pa.RecordBatchReader | pa.Table) -> Iterator[None]:
        """Makes rows of another connection readable as `name` within the block."""
        self._connection.register(name, rows)
        try:
            yield
        finally:
            with suppress(duckdb.Error):
                self._connection.unregister(name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, over one snapshot of the lake. Raises LakeConflict if another process was faster."""
        self._do("begin transaction")
        try:
            yield
        except BaseException:
            with suppress(duckdb.Error):
                self._connection.execute("rollback")
            raise
        self._do("commit")

    @contextmanager
    def threads(self, rows: int = MANY_ROWS) -> Iterator[None]:
        """As many threads within the block as so many rows need."""
        if rows < MANY_ROWS:
            yield
            return
        self._do(f"set threads = {THREADS}")
        try:
            yield
        finally:
            with suppress(duckdb.Error):
                self._connection.execute("set threads = 1")

    def restart(self) -> None:
        """Begins the transaction again that an error has ended, over the newest snapshot."""
        with suppress(duckdb.Error):
            self._connection.execute("rollback")
        self._do("begin transaction")

    def _do(self, statement: str, parameters: object = None) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except duckdb.Error as error:
            raise self._explained(error) from error

    def _keys(self) -> None:
        """The secret that reads and writes the bucket."""
        if not self.settings.in_bucket:
            return
        secret, hidden = bucket.secret(self.settings)
        self._secrets += hidden
        self._do(secret)
        self._do(f"set http_timeout = {SILENT_S}")

    def _catalogue(self) -> str:
        """The catalogue as DuckLake names it. What is secret is in a secret, which no error shows."""
        settings = self.settings
        if not settings.on_server:
            return f"sqlite:{settings.catalogue}" if settings.catalogue.endswith(".sqlite") else settings.catalogue
        parts = urlsplit(settings.catalogue)
        options = {name: value for name, value in parse_qsl(parts.query) if name in _SERVER_OPTIONS}
        given = {"host": parts.hostname, "port": parts.port, "user": parts.username, "database": parts.path.strip("/")}
        secret = {name: unquote(str(value)) for name, value in given.items() if value}
        secret |= {name: options.pop(name) for name in ("host", "port") if name in options}
        if (password := settings.password()) is not None:
            secret["password"] = password
            self._secrets += (password,)
        named = ", ".join(f"{name} {text(value)}" for name, value in secret.items())
        self._do(f"create temporary secret catalogue (type postgres, {named})")
        options |= {
            "connect_timeout": str(CONNECT_S),
            "keepalives_idle": str(CONNECT_S),
            "keepalives_count": "3",
            "tcp_user_timeout": str(SILENT_S * 1000),
            "application_name": self._session,
            "options": f"-c statement_timeout={SILENT_S}s -c lock_timeout={SILENT_S}s",
        }
        self._details = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
        return f"postgres:{self._details}"

    def _explained(self, error: duckdb.Error) -> Exception:
        """What went wrong, where, and the fix, without secrets."""
        words = str(error).replace(self._details, "") if self._details else str(error)
        words = " ".join(words.split())[:500]
        settings = self.settings
        for secret in self._secrets:
            words = words.replace(secret, "...")
        where = f"the lake {settings.shown()} with data in {settings.data}"
        lower = words.lower()
        if isinstance(error, duckdb.TransactionException) or any(word in lower for word in _CONFLICT):
            return LakeConflict(f"{where}: another process committed first: {words}")
        if "data_path" in lower or "data path" in lower:
            return UsageError(
                f"{where}: its data are elsewhere: {words}; set [lake] data to that place, or use another catalogue"
            )
        if "could not set lock" in lower:
            return LakeError(
                f"{where}: another process has it open, and a catalogue in a file serves one at a time; retry, or use PostgreSQL"
            )
        if "creating a new ducklake is explicitly disabled" in lower:
            return LakeError(f"{where}: there is none yet; gpuwatch lake publish makes it")
        return LakeError(f"{where}: {words}; check that it is there, and retry")


def _folders(settings: LakeSettings, create: bool) -> None:
    """The folder of a catalogue in a file. DuckDB would make an empty catalogue where there is none."""
    path = Path(settings.catalogue)
    if not create and not path.exists():
        raise LakeError(f"there is no lake {path} yet; gpuwatch lake publish makes it")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LakeError(f"the lake {path}: {error.strerror or error}; set [lake] catalogue to another place") from error


def _attach(settings: LakeSettings, catalogue: str, create: bool) -> str:
    """Every row is in Parquet files, none in the catalogue: an export of the bucket is whole."""
    data = settings.data if settings.in_bucket else str(Path(settings.data).absolute())
    options = ["data_inlining_row_limit 0", f"create_if_not_exists {str(create).lower()}"]
    options.append(f"data_path {text(data.rstrip('/') + '/')}")
    if settings.on_server:
        options += ["meta_secret 'catalogue'", f"metadata_schema {text(CATALOGUE_SCHEMA)}"]
    return f"attach {text('ducklake:' + catalogue)} as lake ({', '.join(options)})"
