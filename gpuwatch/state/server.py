"""The state on a PostgreSQL server: its address, its password, and its connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpuwatch.core import database_url
from gpuwatch.core.errors import StoreError
from gpuwatch.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

CONNECTIONS, MORE_CONNECTIONS = 5, 10
"""Connections that one process keeps, and further ones during a peak."""
POOL_WAIT_S = 10
LOCK_WAIT = "10s"
"""How long a writer waits for another writer before it gives up."""
STUCK = "120s"
"""A transaction that does nothing for this long is ended by the server: its process hangs, and others wait for it."""
PASSWORD_MAX = 4096
_LOCK = 7_265_061
"""Key of the advisory lock that makes writers wait for each other, as SQLite's own lock does."""
_OPTIONS: dict[str, Any] = {
    "application_name": "gpuwatch",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    # A server that vanished without a word is noticed after about 15 seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
"""Options of a connection, unless the URL sets them."""


@dataclass(frozen=True)
class Server:
    """The address of a state on a server. The password is in the URL, in a file, or where libpq finds it (PGPASSWORD)."""

    url: str = field(repr=False)
    password_file: str | None = None

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """The server that the settings name; None if the state is a file in the data directory."""
        return None if settings.state_url is None else cls(settings.state_url, settings.state_password_file)

    @property
    def name(self) -> str:
        """The address without its password, for messages."""
        return database_url.shown(self.url)

    def engine(self) -> Engine:
        """A pool of connections, none of which is open yet. Raises StoreError for a bad URL, or without the driver."""
        import sqlalchemy as sa

        if (wrong := database_url.problem(self.url)) is not None:
            raise StoreError(f"state: its URL {wrong}")
        url = sa.engine.make_url(self.url).set(drivername="postgresql+psycopg")
        # No prepared statements: a pooler such as PgBouncer gives each transaction another connection.
        options = {name: value for name, value in _OPTIONS.items() if name not in url.query}
        try:
            engine = sa.create_engine(
                url,
                hide_parameters=True,
                pool_pre_ping=True,
                pool_size=CONNECTIONS,
                max_overflow=MORE_CONNECTIONS,
                pool_timeout=POOL_WAIT_S,
                connect_args=options | {"prepare_threshold": None},
            )
        except ImportError as error:
            fix = "install its driver: pip install 'gpuwatch[postgres]'"
            raise StoreError(f"state {self.name}: no driver ({error}); {fix}") from error
        if self.password_file is not None:
            sa.event.listen(engine, "do_connect", self._add_password)
        return engine

    def _add_password(self, dialect: Any, record: Any, arguments: Any, parameters: dict[str, Any]) -> None:
        """Reads the file at each connect, so a changed password needs no restart."""
        try:
            with Path(self.password_file or "").open(encoding="utf-8") as file:
                password = file.read(PASSWORD_MAX).strip("\r\n")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not text in UTF-8"
            fix = "correct state_password_file, or its permissions"
            raise StoreError(f"state {self.name}: password file {self.password_file}: {why}; {fix}") from error
        if not password:
            fix = "write the password into it"
            raise StoreError(f"state {self.name}: password file {self.password_file}: is empty; {fix}")
        parameters["password"] = password


READING = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
"""One snapshot for all queries of a reading transaction, as SQLite gives. It can never fail to serialize."""
WRITING = {"isolation_level": "READ COMMITTED"}
"""Whatever the server's default is: each query after the lock sees all that earlier writers committed."""


def wait_for_writers(connection: Connection, fence: Callable[[Connection], None] | None = None) -> None:
    """Begins a writing transaction: takes the one lock of all writers, so that no update is lost and none is retried.

    Then `fence` may refuse it.
    """
    import sqlalchemy as sa

    connection.execute(
        sa.select(
            sa.func.set_config("lock_timeout", LOCK_WAIT, True),
            sa.func.set_config("idle_in_transaction_session_timeout", STUCK, True),
        )
    )
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    if fence is not None:
        fence(connection)
