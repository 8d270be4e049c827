"""Models of the holders route."""

from __future__ import annotations

from gpuwatch.api.schema.common import Shape, Span


class Holder(Shape):
    team: str


class Holders(Shape):
    items: list[Holder]
    window: Span
