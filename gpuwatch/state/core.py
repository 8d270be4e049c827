"""The state database: connection, migrations, settings and the audit log. Other tables have modules of their own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.state.causes import cause
from gpuwatch.state.changes import Watch
from gpuwatch.state.server import READING, WRITING, Server, wait_for_writers
from gpuwatch.state.sqlite_file import StateMissing, begin, file_url, set_pragmas

SCHEMA = "0010"
"""The newest migration in state_migrations/versions."""

IDENTITY = "state_id"
"""Name of the setting with the random id of this state."""

MAX_AUDIT_ROWS = 1000
"""Audit rows that one call returns at most."""

_tables = sa.MetaData()
CARD = sa.Table(
    "card",
    _tables,
    sa.Column("kind", sa.String),
    sa.Column("version", sa.Integer),
    sa.Column("digest", sa.String),
    sa.Column("source", sa.Text),
    sa.Column("actor", sa.Text),
    sa.Column("at_us", sa.BigInteger),
)
_setting = sa.Table("setting", _tables, sa.Column("name", sa.String), sa.Column("value", sa.Text))
_audit = sa.Table(
    "audit_log",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("at_us", sa.BigInteger),
    sa.Column("actor", sa.Text),
    sa.Column("what", sa.Text),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
)


@dataclass(frozen=True)
class AuditEntry:
    """One change: who made it, when, to what, and the values before and after (JSON, None where there was none)."""

    at_us: int
    actor: str
    what: str
    before: str | None
    after: str | None


class State:
    """The state database, migrated to SCHEMA. Methods are thread-safe; each is one transaction.

    Every method raises StoreError when the database cannot be reached or is busy for longer than sqlite_file.BUSY_TIMEOUT_MS.
    """

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self.name = name
        self.on_server = engine.dialect.name == "postgresql"
        reading, writing = (READING, WRITING) if self.on_server else ({}, {})
        self._reading = engine.execution_options(gpuwatch_write=False, **reading)
        self._writing = engine.execution_options(gpuwatch_write=True, **writing)
        self._watch = Watch(None if self.on_server else engine.url.database)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | Server, create: bool = True) -> Self:
        """Opens and migrates the state in a data directory, on a server, or at a SQLAlchemy URL; `create` makes an absent one.

        Raises StoreError: not writable, not a database, no driver, unreachable, or written by a newer gpuwatch, and
        StateMissing if it is absent or empty and `create` is not set.
        """
        if not isinstance(where, Server) and os.fspath(where).startswith(("postgresql://", "postgresql+")):
            where = Server(os.fspath(where))
        if isinstance(where, Server):
            state = cls(where.engine(), where.name)
        else:
            text = os.fspath(where)
            url = _parsed(text) if "://" in text else file_url(Path(text), create)
            if url.get_backend_name() != "sqlite":
                raise StoreError(
                    f"state: no driver for {url.drivername}; name a PostgreSQL database or a data directory"
                )
            engine = sa.create_engine(url, hide_parameters=True)
            sa.event.listen(engine, "connect", set_pragmas)
            sa.event.listen(engine, "begin", begin)
            state = cls(engine, url.database or "")
        try:
            state._migrate(create)
        except BaseException:
            state.close()
            raise
        return state

    def close(self) -> None:
        """Closes the connections."""
        self._watch.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def copy_to(self, path: Path) -> None:
        """Writes a consistent copy of a SQLite state to a new file, readable by its owner only. `copying.save` writes
        one of a state on a server.
        """
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("vacuum into ?", (str(path),))
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def version(self) -> str | None:
        """A text that changes with every commit to this database by anyone; None where the database has none to offer."""
        if self.on_server:
            with self.transaction(write=False) as connection:  # equal snapshots see the same transactions
                return str(connection.scalar(sa.text("select pg_current_snapshot()::text")))
        try:
            return self._watch.version()
        except sqlite3.Error as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def card_version(self, kind: str) -> int:
        """The current version of a versioned list: 0 before the first."""
        with self.transaction(write=False) as connection:
            card = newest_version(connection, kind)
        return 0 if card is None else int(card.version)

    def identity(self) -> str:
        """The random id of this state. Copies of it have the same."""
        found = self.setting(IDENTITY)
        if found is None:
            raise StoreError(f"state {self.name}: has no id; restore it from a backup")
        return found

    def setting(self, name: str, default: str | None = None) -> str | None:
        """A stored value by name, else `default`."""
        with self.transaction(write=False) as connection:
            value: str | None = connection.scalar(sa.select(_setting.c.value).where(_setting.c.name == name))
        return default if value is None else value

    def set_setting(self, name: str, value: str | None, actor: str, at_us: int) -> bool:
        """Stores a value, or deletes it (None). True if that changes it."""
        with self.transaction(write=True) as connection:
            before, changed = _set(connection, name, value)
            if changed:
                record(connection, at_us, actor, f"setting {name}", _json(before), _json(value))
        return changed

    def note(self, name: str, value: str | None) -> None:
        """Stores or deletes a value of the program's own bookkeeping, which is not audited."""
        with self.transaction(write=True) as connection:
            _set(connection, name, value)

    def record(self, actor: str, at_us: int, what: str, before: str | None = None, after: str | None = None) -> None:
        """Adds an audit row for a change made elsewhere (an acknowledged finding, a closed period)."""
        with self.transaction(write=True) as connection:
            record(connection, at_us, actor, what, before, after)

    def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        """The latest changes, newest first; at most `limit`, and never more than MAX_AUDIT_ROWS."""
        columns = (_audit.c.at_us, _audit.c.actor, _audit.c.what, _audit.c.before, _audit.c.after)
        query = sa.select(*columns).order_by(_audit.c.id.desc()).limit(max(0, min(limit, MAX_AUDIT_ROWS)))
        with self.transaction(write=False) as connection:
            return tuple(AuditEntry(*row) for row in connection.execute(query))

    @contextmanager
    def transaction(self, write: bool) -> Iterator[Connection]:
        """One transaction, committed at the end of the block. Repositories of other packages build on it."""
        try:
            with (self._writing if write else self._reading).begin() as connection:
                if write and self.on_server:
                    wait_for_writers(connection)
                yield connection
        except sa.exc.IntegrityError as error:
            raise StoreError(f"state {self.name}: another process changed it at the same time; repeat") from error
        except sa.exc.DataError as error:
            raise UsageError(
                f"state {self.name}: a value cannot be stored: {cause(error).partition(';')[0]}"
            ) from error
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def problems(self) -> list[str]:
        """Why the state cannot be read; empty if it can."""
        try:
            with self.transaction(write=False) as connection:
                connection.execute(sa.select(sa.literal(1)))
        except StoreError as error:
            return [str(error)]
        return []

    def _migrate(self, create: bool) -> None:
        """1. Read the recorded schema. 2. If it is outdated, read it again as the only writer and run the missing migrations."""
        with self.transaction(write=False) as connection:
            found = _schema(connection)
            if found == SCHEMA:
                return
            if found is None and not create:
                raise StateMissing(f"state {self.name}: is empty")
        with self.transaction(write=True) as connection:
            found = _schema(connection)
            if found == SCHEMA:
                return
            if found is not None and found > SCHEMA:
                raise StoreError(
                    f"state {self.name}: written by a newer gpuwatch (schema {found}, this one knows {SCHEMA}); upgrade"
                )
            # Imported here: a database that is up to date opens without Alembic's start-up time.
            from alembic import command
            from alembic.config import Config

            config = Config(attributes={"connection": connection})
            config.set_main_option("script_location", str(Path(__file__).parents[1] / "state_migrations"))
            config.set_main_option("path_separator", "os")
            command.upgrade(config, SCHEMA)


def _parsed(text: str) -> URL:
    try:
        return make_url(text)
    except sa.exc.ArgumentError as error:
        raise StoreError("state: not a database URL; expected one like postgresql://user@host/gpuwatch") from error


def _schema(connection: Connection) -> str | None:
    """The migration recorded in the database, None for an empty one."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(sa.text("select version_num from alembic_version"))
    return version


def _set(connection: Connection, name: str, value: str | None) -> tuple[str | None, bool]:
    """Stores or deletes a setting; returns the previous value and whether it changed."""
    found = _setting.c.name == name
    before: str | None = connection.scalar(sa.select(_setting.c.value).where(found))
    if before == value:
        return before, False
    connection.execute(sa.delete(_setting).where(found))
    if value is not None:
        connection.execute(sa.insert(_setting).values(name=name, value=value))
    return before, True


def newest_version(connection: Connection, kind: str) -> Any:
    """The row of CARD of the current version of a list, None before the first."""
    return connection.execute(
        sa.select(CARD).where(CARD.c.kind == kind).order_by(CARD.c.version.desc()).limit(1)
    ).first()


def record(connection: Connection, at_us: int, actor: str, what: str, before: str | None, after: str | None) -> None:
    """Adds an audit row within a transaction."""
    row = {"at_us": at_us, "actor": actor, "what": what, "before": before, "after": after}
    connection.execute(sa.insert(_audit).values(**row))


def _json(value: object) -> str | None:
    return None if value is None else dumps(value)
