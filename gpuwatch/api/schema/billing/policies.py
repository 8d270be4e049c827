"""Models of the policies routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Money, Shape, Span, Strict, Time


class PolicyVersion(Strict):
    version: int
    at: Time
    by: str
    source: str
    digest: str


class Policy(Shape):
    """The page about policies lists every field of a document; errors name every wrong field."""

    name: str = Field(examples=["2026"])
    valid_from: str = Field(examples=["2026-11-01"])


class Policies(Strict):
    items: list[Policy]
    version: int
    in_force: str
    history: list[PolicyVersion]


class PoliciesBody(Strict):
    policies: list[Policy] = Field(max_length=1000)


class PolicyDifference(Strict):
    team: str | None
    now: Money
    then: Money
    difference: Money
    currency: str


class WhatIf(Strict):
    items: list[PolicyDifference]
    window: Span
    closed: list[str] = Field(description="Closed periods in the window: their bills stay, and get corrections.")
