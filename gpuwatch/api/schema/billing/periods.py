"""Models of the periods routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Shape, Span, Strict, Time


class FrozenRow(Strict):
    team: str | None
    cluster: str | None
    gpu_model: str | None
    mig_profile: str | None
    kind: str
    cause: str | None = Field(None, description="For amounts without a device.")
    currency: str | None
    gpu_seconds: Quantity
    cost: Money | None


class Closing(Strict):
    number: int
    closed_at: Time
    closed_by: str
    digest: str | None = Field(description="null for team-scoped tokens: it covers the rows of every team.")
    forced: bool
    forced_why: str | None
    reopened_at: Time | None
    reopened_by: str | None
    reason: str | None


class Signature(Strict):
    number: int
    digest: str | None = Field(description="null for team-scoped tokens: it covers the rows of every team.")
    signer: str
    note: str | None = Field(description="Hidden from team-scoped tokens.")
    signed_at: Time


class Period(Strict):
    period: str
    state: Literal["closed", "reopened"]
    number: int = Field(description="Number of the closing: 1, and one more each time the period is closed again.")
    window: Span
    closed_at: Time
    closed_by: str
    digest: str | None = Field(description="null for team-scoped tokens: it covers the rows of every team.")
    forced: bool = Field(description="Closed despite days without data or time without a price.")
    forced_why: str | None = Field(description="What was missing then.")
    versions: dict[str, int] = Field(description="Versions of the cards used for its prices.")
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None
    rows: list[FrozenRow]
    corrections: list[FrozenRow]
    signatures: list[Signature]
    closings: list[Closing]


class Periods(Strict):
    items: list[Period]
    next: str | None


class PeriodRow(Shape):
    currency: str | None
    gpu_seconds: Quantity
    cost_exact: Money | None


class PeriodRows(Strict):
    period: Period
    items: list[PeriodRow]
    next: str | None


class PeriodBody(Strict):
    period: str = Field(max_length=16, examples=["2026-W47"])
    force: bool = Field(default=False, description="Close even if days have no data or time has no price.")


class ReopenBody(Strict):
    reason: str = Field(min_length=1, max_length=500, examples=["wrong rates of pool b"])


class SignBody(Strict):
    name: str | None = Field(None, min_length=1, max_length=200, description="Default: the name of the token.")
    note: str = Field("", max_length=500)
