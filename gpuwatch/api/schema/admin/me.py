"""Models of the me routes."""

from __future__ import annotations

from gpuwatch.api.schema.common import Scope, Strict


class Me(Strict):
    scope: Scope
    teams: list[str] | None
    name: str
    tokens: bool
    version: str
