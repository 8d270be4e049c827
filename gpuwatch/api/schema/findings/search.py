"""Models of the search route."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Shape


class Match(Shape):
    kind: Literal["team", "user", "job", "node", "gpu", "finding"]
    id: str
    cluster: str | None
    name: str | None
    waits: bool = Field(description="Whether it is a job that waits now.")


class Matches(Shape):
    items: list[Match]
