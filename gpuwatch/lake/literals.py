"""Values as literals of SQL and of connection strings."""

from __future__ import annotations


def text(value: str) -> str:
    """A literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def quoted(value: str) -> str:
    """A value in libpq's connection string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
