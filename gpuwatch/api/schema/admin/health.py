"""Models of the health routes."""

from __future__ import annotations

from typing import Any, Literal

from gpuwatch.api.schema.common import Strict, Time


class Live(Strict):
    status: Literal["ok"]


class Analyzer(Strict):
    ok: bool
    reason: str | None
    running: bool
    lag_s: float | None


class MirroredCell(Strict):
    cell: str
    published: Time


class Mirror(Strict):
    as_of: Time | None
    age_s: float | None
    cells: list[MirroredCell] | None = None


class Ready(Strict):
    status: Literal["ready", "degraded", "unready"]
    reasons: list[str]
    analyzer: Analyzer
    sources: dict[str, Any]
    mirror: Mirror | None = None
