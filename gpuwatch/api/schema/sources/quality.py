"""Models of the quality routes."""

from __future__ import annotations

from typing import Any, Literal

from gpuwatch.api.schema.common import Shape, Time


class Rejected(Shape):
    reason: str
    count: int
    example: str | None


class Source(Shape):
    source: str
    kind: str
    cluster: str | None
    state: Literal["ok", "late", "failing", "never"]
    last_seen: Time | None
    lag_s: float | None
    samples: int | None
    rejected: int
    rejects: list[Rejected]
    missing_fields: list[str]
    error: str | None
    fix: str | None


class Quality(Shape):
    items: list[Source]
    checks: list[dict[str, Any]]
    unattributed_ratio: float | None
    unobserved_ratio: float | None
