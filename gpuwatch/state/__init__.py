"""The state database: everything that people configure, kept separate from the measured data."""

from gpuwatch.state.core import SCHEMA, AuditEntry, State
from gpuwatch.state.sqlite_file import FILE

__all__ = ["FILE", "SCHEMA", "AuditEntry", "State"]
