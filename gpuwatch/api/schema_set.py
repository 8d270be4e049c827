"""Shapes of what people set, as they send and see it: rates, teams, periods, channels, actions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuwatch.api.schema import Money, Quantity, Severity, Shape, Span, Strict, Time


class ActionBody(Strict):
    reason: str = Field(min_length=1, max_length=500, examples=["checkpoint migration until Friday"])
    until: Time | None = None


class Rate(Strict):
    gpu_model: str = Field(max_length=200, examples=["NVIDIA H100 80GB HBM3"])
    pricing: Literal["on_demand", "reserved", "spot", "owned"]
    usd_per_gpu_hour: Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["2.49"])]
    valid_from: Time
    valid_to: Time | None = None
    cluster: str | None = Field(None, max_length=200)
    pool: str | None = Field(None, max_length=200)
    mig_profile: str | None = Field(None, max_length=200)
    currency: str = Field("USD", pattern=r"^[A-Z]{3}$")


class Rates(Strict):
    items: list[Rate]
    version: int
    next: str | None


class RatesBody(Strict):
    items: list[Rate] = Field(max_length=100_000)


class TeamRule(Strict):
    match_kind: str = Field(max_length=200, examples=["namespace"])
    match: str = Field(min_length=1, max_length=200, examples=["vision-*"])
    team: str = Field(min_length=1, max_length=200, examples=["vision"])


class TeamRules(Strict):
    items: list[TeamRule]
    version: int
    next: str | None


class TeamsBody(Strict):
    items: list[TeamRule] = Field(max_length=100_000)


class Replaced(Strict):
    changed: bool
    version: int
    rows: int


class FrozenRow(Strict):
    team: str | None
    cluster: str | None
    gpu_model: str | None
    mig_profile: str | None
    kind: str
    currency: str | None
    gpu_seconds: Quantity
    cost: Money | None


class Period(Strict):
    period: str
    window: Span
    closed_at: Time
    closed_by: str
    digest: str
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None
    rows: list[FrozenRow]
    corrections: list[FrozenRow]


class Periods(Strict):
    items: list[Period]
    next: str | None


class PeriodBody(Strict):
    period: str = Field(max_length=16, examples=["2026-W47"])
    force: bool = Field(default=False, description="Also where the books do not cover every day of it.")


class Channel(Shape):
    name: str
    kind: str
    severity_min: Severity
    enabled: bool


class ChannelItems(Shape):
    items: list[Channel]
    next: str | None


class ChannelBody(Shape):
    """What a channel may hold, per kind, is on the page about alerts; wrong fields are named."""

    name: str = Field(min_length=1, max_length=64)


class ChannelsBody(Strict):
    items: list[ChannelBody] = Field(max_length=100)


class Sent(Shape):
    ok: bool
