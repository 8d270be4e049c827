"""Statements on the state's server that each commit themselves, on connections of their own.

A process that is paused in the middle of one holds no lock, and neither the writers of the state nor a full pool delay it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gpuwatch.core.errors import StoreError
from gpuwatch.state.causes import cause
from gpuwatch.state.server import Server

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

CONNECT_S_MIN = 2
"""libpq waits no shorter for a connection."""


class Statements:
    """Waits `wait_s` at most for a connection or an answer. Every method raises StoreError if the server does not respond."""

    def __init__(self, server: Server, what: str, wait_s: float) -> None:
        """`what` begins the message of an error."""
        import sqlalchemy as sa

        self._what, self._name = what, server.name
        url = sa.engine.make_url(server.url)
        given = {
            "connect_timeout": str(max(CONNECT_S_MIN, int(wait_s))),
            "tcp_user_timeout": str(max(1000, int(wait_s * 1000))),
        }
        more = {name: value for name, value in given.items() if name not in url.query}
        addressed = url.update_query_dict(more).render_as_string(hide_password=False)
        self._engine = Server(addressed, server.password_file).engine()

    def rows(self, statement: str, **given: object) -> list[tuple[Any, ...]]:
        """What a statement returns."""
        with self._connected() as connection:
            return [tuple(row) for row in _execute(connection, statement, given)]

    def changed(self, statement: str, **given: object) -> int:
        """How many rows a statement has changed."""
        with self._connected() as connection:
            return int(_execute(connection, statement, given).rowcount)

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        from sqlalchemy import exc as errors

        try:
            with self._engine.connect() as connection:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")
        except (errors.SQLAlchemyError, ImportError) as error:
            raise StoreError(f"{self._what} on {self._name}: {cause(error)}") from error


def _execute(connection: Connection, statement: str, given: dict[str, object]) -> Any:
    import sqlalchemy as sa

    return connection.execute(sa.text(statement), given)
