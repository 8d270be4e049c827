"""The state database: everything that people configure, kept separate from the measured data."""

from gpuwatch.state.core import FILE, SCHEMA, AuditEntry, State

__all__ = ["FILE", "SCHEMA", "AuditEntry", "State"]
