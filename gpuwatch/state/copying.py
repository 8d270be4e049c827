"""Copies a state into an empty one, of the same engine or the other: a file to a server, or back."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from gpuwatch.core.errors import UsageError
from gpuwatch.state.core import IDENTITY, State, record
from gpuwatch.state.pairing import MOVED

ROWS = 1000
"""Rows that are in memory at a time."""
VERSION = "alembic_version"
_setting = sa.table("setting", sa.column("name", sa.String), sa.column("value", sa.Text))


def move(source: State, target: State, actor: str, at_us: int) -> dict[str, int]:
    """Copies a state into an empty one, which replaces it: whoever opens the source from then on is refused.

    Returns the number of rows by table. Nobody writes to the source meanwhile. Raises UsageError if the target has content.
    """
    with source.transaction(write=True) as old:
        with target.transaction(write=True) as new:
            counts = _copy(old, new, target.name)
            after = json.dumps({"from": source.name, "rows": sum(counts.values())})
            record(new, at_us, actor, "state copied", None, after)
        # The target is complete. If the process ends here, both can be opened; the same command then names the target.
        old.execute(sa.insert(_setting).values(name=MOVED, value=target.name))
    return counts


def fill(source: State, target: State) -> None:
    """Copies one snapshot of a state into an empty one. Raises UsageError if the target has content."""
    with source.transaction(write=False) as old, target.transaction(write=True) as new:
        _copy(old, new, target.name)


def save(source: State, path: Path) -> None:
    """Writes a consistent copy of a state to a new SQLite file, readable by its owner only."""
    if not source.on_server:
        source.copy_to(path)
        return
    with TemporaryDirectory(suffix=".partial", dir=path.parent) as aside, State.open(aside) as target:
        fill(source, target)
        target.copy_to(path)


def is_new(state: State) -> bool:
    """Whether a state has no content besides its id."""
    with state.transaction(write=False) as connection:
        return not _contents(connection)


def same_content(one: State, other: State) -> bool:
    """Whether two states have the same id and the same newest entry of the audit log: one is a copy of the other, and
    nobody changed either since.
    """
    entries = [state.audit(limit=1) for state in (one, other)]
    return one.identity() == other.identity() and entries[0] == entries[1]


def _copy(old: Connection, new: Connection, name: str) -> dict[str, int]:
    if content := _contents(new):
        found = ", ".join(f"{count} rows in {table}" for table, count in content.items())
        raise UsageError(f"state {name}: is not empty ({found}); name an empty database")
    new.execute(sa.delete(_setting))
    counts = {}
    for table in _tables(new):
        source = sa.table(table.name, *(sa.column(column.name, column.type) for column in table.c))
        query = sa.select(source).order_by(*(source.c[column.name] for column in table.primary_key))
        counts[table.name] = 0
        for rows in old.execute(query, execution_options={"yield_per": ROWS}).mappings().partitions():
            new.execute(sa.insert(table), [dict(row) for row in rows])
            counts[table.name] += len(rows)
        _continue_ids(new, table)
    new.execute(sa.delete(_setting).where(_setting.c.name == MOVED))
    return counts


def _continue_ids(connection: Connection, table: sa.Table) -> None:
    """Lets PostgreSQL number further rows after the copied ones, as SQLite does by itself."""
    column = table.primary_key.columns[0]
    if connection.dialect.name == "postgresql" and column.server_default is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
        newest = sa.select(sa.func.max(column)).scalar_subquery()
        connection.execute(sa.select(sa.func.setval(sequence, newest)).where(newest.is_not(None)))


def _contents(connection: Connection) -> dict[str, int]:
    """The number of rows of each table that has any, without the id of the state."""
    counts: dict[str, int] = {}
    for table in _tables(connection):
        query: Any = sa.select(sa.func.count()).select_from(table)
        if table.name == "setting":
            query = query.where(table.c.name != IDENTITY)
        counts[table.name] = connection.scalar(query) or 0
    return {name: count for name, count in counts.items() if count}


def _tables(connection: Connection) -> list[sa.Table]:
    """The tables of a state, those first that others refer to."""
    found = sa.MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != VERSION]
