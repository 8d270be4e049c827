"""The engine of a state in SQLite. Loads SQLAlchemy, which takes longer than a command that only reads."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from gpuwatch.core.errors import StoreError
from gpuwatch.state.sqlite_file import begin, set_pragmas


def parsed(address: str) -> URL:
    """A SQLAlchemy URL for SQLite. Raises StoreError."""
    try:
        url = make_url(address)
    except sa.exc.ArgumentError as error:
        raise StoreError("state: not a database URL; expected one like postgresql://user@host/gpuwatch") from error
    if url.get_backend_name() != "sqlite":
        raise StoreError(f"state: no driver for {url.drivername}; name a PostgreSQL database or a data directory")
    return url


def sqlite(database: URL | Path) -> Engine:
    """The engine for a file, or for what a URL names."""
    url = URL.create("sqlite", database=str(database)) if isinstance(database, Path) else database
    engine = sa.create_engine(url, hide_parameters=True)
    sa.event.listen(engine, "connect", set_pragmas)
    sa.event.listen(engine, "begin", begin)
    return engine


def schema(connection: Connection) -> str | None:
    """The migration recorded in the database, None for an empty one."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(sa.text("select version_num from alembic_version"))
    return version
