"""What people set and must not be lost once said. The only importer of sqlalchemy."""

from gpuwatch.state.core import FILE, SCHEMA, AuditEntry, State

__all__ = ["FILE", "SCHEMA", "AuditEntry", "State"]
