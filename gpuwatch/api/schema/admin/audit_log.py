"""Models of the audit log routes."""

from __future__ import annotations

from typing import Any

from gpuwatch.api.schema.common import Strict, Time


class Difference(Strict):
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    added_count: int
    removed_count: int


class AuditEntry(Strict):
    id: int
    at: Time
    actor: str
    what: str
    before: Any | None
    after: Any | None
    difference: Difference | None


class Audit(Strict):
    items: list[AuditEntry]
    next: str | None
