"""The state database: everything that people configure, kept separate from the measured data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwatch.state.core import SCHEMA, AuditEntry, State
    from gpuwatch.state.sqlite_file import FILE

__all__ = ["FILE", "SCHEMA", "AuditEntry", "State"]


def __getattr__(name: str) -> Any:
    """Imports what is named, so that a command that asks a server does not load SQLAlchemy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("gpuwatch.state.sqlite_file" if name == "FILE" else "gpuwatch.state.core"), name)
