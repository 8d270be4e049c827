"""The state database: connection, migrations, settings and the audit log. Other tables have modules of their own."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from json import dumps
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.state.causes import cause
from gpuwatch.state.changes import Watch
from gpuwatch.state.server import READING, WRITING, Server, wait_for_writers
from gpuwatch.state.sqlite_file import Reader, StateMissing, file_path

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

SCHEMA = "0012"
"""The newest migration in state_migrations/versions."""

IDENTITY = "state_id"
"""Name of the setting with the random id of this state."""

MAX_AUDIT_ROWS = 1000
"""Audit rows that one call returns at most."""


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

    def __init__(
        self, made: Callable[[], Engine], name: str, file: Path | None = None, on_server: bool = False
    ) -> None:
        """`made` makes the engine, when it is needed: queries of a SQLite `file` are read without it."""
        self._made = made
        self.name = name
        self.on_server = on_server
        self._making = Lock()
        self._engine_made: Engine | None = None
        self._reader = None if file is None else Reader(file)
        self._fence: Callable[[Connection], None] | None = None
        self._watch = Watch(None if on_server else name)

    @property
    def _engine(self) -> Engine:
        with self._making:
            if self._engine_made is None:
                self._engine_made = self._made()
            return self._engine_made

    @cached_property
    def _reading(self) -> Engine:
        return self._engine.execution_options(gpuwatch_write=False, **(READING if self.on_server else {}))

    @cached_property
    def _writing(self) -> Engine:
        return self._engine.execution_options(gpuwatch_write=True, **(WRITING if self.on_server else {}))

    @classmethod
    def open(cls, where: str | os.PathLike[str] | Server, create: bool = True) -> Self:
        """Opens and migrates the state in a data directory, on a server, or at a SQLAlchemy URL; `create` makes an absent one.

        Raises StoreError: not writable, not a database, no driver, unreachable, or written by a newer gpuwatch, and
        StateMissing if it is absent or empty and `create` is not set.
        """
        if not isinstance(where, Server) and os.fspath(where).startswith(("postgresql://", "postgresql+")):
            where = Server(os.fspath(where))
        if isinstance(where, Server):
            engine = where.engine()
            state = cls(lambda: engine, where.name, on_server=True)
        elif "://" in (text := os.fspath(where)):
            from gpuwatch.state.engine import parsed, sqlite

            url = parsed(text)
            state = cls(lambda: sqlite(url), url.database or "")
        else:
            file = file_path(Path(text), create)
            state = cls(lambda: _engine_of(file), str(file), file)
        try:
            state._migrate(create)
        except BaseException:
            state.close()
            raise
        return state

    def close(self) -> None:
        """Closes the connections."""
        self._watch.close()
        if self._reader is not None:
            self._reader.close()
        if self._engine_made is not None:
            self._engine_made.dispose()

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
        from sqlalchemy import exc as errors

        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                raw: Any = connection.connection.driver_connection
                raw.execute("vacuum into ?", (str(path),))
        except (errors.SQLAlchemyError, sqlite3.Error) as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def version(self) -> str | None:
        """A text that changes with every commit to this database by anyone; None where the database has none to offer."""
        if self.on_server:
            (found,) = self.read("select pg_current_snapshot()::text as seen")  # equal ones see the same transactions
            return str(found["seen"])
        try:
            return self._watch.version()
        except sqlite3.Error as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def card_version(self, kind: str) -> int:
        """The current version of a versioned list: 0 before the first."""
        return int(
            self.read("select coalesce(max(version), 0) as newest from card where kind = :kind", kind=kind)[0]["newest"]
        )

    def identity(self) -> str:
        """The random id of this state. Copies of it have the same."""
        found = self.setting(IDENTITY)
        if found is None:
            raise StoreError(f"state {self.name}: has no id; restore it from a backup")
        return found

    def setting(self, name: str, default: str | None = None) -> str | None:
        """A stored value by name, else `default`."""
        found = self.read("select value from setting where name = :name", name=name)
        value: str | None = found[0]["value"] if found else None
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
        query = "select at_us, actor, what, before, after from audit_log order by id desc limit :most"
        return tuple(AuditEntry(**row) for row in self.read(query, most=max(0, min(limit, MAX_AUDIT_ROWS))))

    def read(self, query: str, **parameters: object) -> list[dict[str, Any]]:
        """The rows of one query, which names its parameters as `:name`. It is one transaction."""
        if self._reader is not None:
            return self._reader.rows(query, parameters)
        from sqlalchemy import text

        with self.transaction(write=False) as connection:
            return [dict(row) for row in connection.execute(text(query), parameters).mappings()]

    @contextmanager
    def transaction(self, write: bool) -> Iterator[Connection]:
        """One transaction, committed at the end of the block. Repositories of other packages build on it."""
        from sqlalchemy import exc as errors

        try:
            with (self._writing if write else self._reading).begin() as connection:
                if write and self.on_server:
                    wait_for_writers(connection, self._fence)
                yield connection
        except errors.IntegrityError as error:
            raise StoreError(f"state {self.name}: another process changed it at the same time; repeat") from error
        except errors.DataError as error:
            raise UsageError(
                f"state {self.name}: a value cannot be stored: {cause(error).partition(';')[0]}"
            ) from error
        except (errors.SQLAlchemyError, ImportError) as error:
            raise StoreError(f"state {self.name}: {cause(error)}") from error

    def problems(self) -> list[str]:
        """Why the state cannot be read; empty if it can."""
        try:
            self.read("select 1 as one")
        except StoreError as error:
            return [str(error)]
        return []

    def _migrate(self, create: bool) -> None:
        """1. Read the recorded schema. 2. If it is outdated, read it again as the only writer and run the missing migrations."""
        if self._reader is not None and self._reader.schema() == SCHEMA:
            return
        from gpuwatch.state.engine import schema

        with self.transaction(write=False) as connection:
            found = schema(connection)
        if found == SCHEMA:
            return
        if found is None and not create:
            raise StateMissing(f"state {self.name}: is empty")
        with self.transaction(write=True) as connection:
            found = schema(connection)
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


def _engine_of(file: Path) -> Engine:
    from gpuwatch.state.engine import sqlite

    return sqlite(file)


def _set(connection: Connection, name: str, value: str | None) -> tuple[str | None, bool]:
    """Stores or deletes a setting; returns the previous value and whether it changed."""
    import sqlalchemy as sa

    from gpuwatch.state.tables import SETTING

    found = SETTING.c.name == name
    before: str | None = connection.scalar(sa.select(SETTING.c.value).where(found))
    if before == value:
        return before, False
    connection.execute(sa.delete(SETTING).where(found))
    if value is not None:
        connection.execute(sa.insert(SETTING).values(name=name, value=value))
    return before, True


def newest_version(connection: Connection, kind: str) -> Any:
    """The row of `card` of the current version of a list, None before the first."""
    import sqlalchemy as sa

    from gpuwatch.state.tables import CARD

    return connection.execute(
        sa.select(CARD).where(CARD.c.kind == kind).order_by(CARD.c.version.desc()).limit(1)
    ).first()


def record(connection: Connection, at_us: int, actor: str, what: str, before: str | None, after: str | None) -> None:
    """Adds an audit row within a transaction."""
    import sqlalchemy as sa

    from gpuwatch.state.tables import AUDIT

    row = {"at_us": at_us, "actor": actor, "what": what, "before": before, "after": after}
    connection.execute(sa.insert(AUDIT).values(**row))


def _json(value: object) -> str | None:
    return None if value is None else dumps(value)
