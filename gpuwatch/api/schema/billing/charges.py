"""Models of the charges routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Money, Quantity, Ratio, Shape, Span, Strict, Time

Kind = Literal["allocated", "platform", "shared", "correction"]


class Converted(Strict):
    base_price: str
    base_currency: str
    fx_rate: str
    fx_from: Time


class LineRate(Shape):
    price: str
    currency: str
    pricing: str | None
    rate: str | None
    card: str | None
    card_version: int | None
    converted: Converted | None


class LinePolicy(Shape):
    name: str
    version: int | None


class Dealt(Strict):
    amount: str
    weight: str | None
    weights: str | None


class Line(Shape):
    """A `segment` of a device, or an amount without device time: `what` determines its further fields."""

    what: str = Field(examples=["segment"])
    text: str
    gpu_seconds: Quantity
    cost_exact: Money | None
    device: str | None = None
    gpu: str | None = None
    gpu_index: int | None = None
    gi: int | None = None
    node: str | None = None
    start: Time | None = None
    end: Time | None = None
    share: str | None = None
    bucket: Bucket | None = None
    bucket_hours: dict[str, Quantity] | None = None
    coverage: Ratio | None = None
    formula: str | None = None
    rate: LineRate | None = None
    policy: LinePolicy | None = None
    dealt: Dealt | None = None


class PriceSum(Strict):
    gpu_model: str | None
    mig_profile: str | None
    share: str
    price: str | None
    currency: str | None
    pricing: str | None
    devices: int
    lines: int
    device_seconds: Quantity
    gpu_seconds: Quantity
    cost_exact: Money | None


class ClosedIn(Strict):
    period: str
    number: int
    digest: str | None


class PolicyOf(Strict):
    name: str
    valid_from: Time
    valid_to: Time | None
    basis: dict[str, str]
    version: int | None


class UnderPart(Strict):
    kind: Kind
    cause: str | None
    gpu_seconds: Quantity
    now: Money
    cost: Money
    difference: Money


class Under(Strict):
    policies: list[str]
    now: Money
    cost: Money
    difference: Money
    currency: str
    parts: list[UnderPart]


class Explained(Strict):
    charge: str
    kind: Kind
    group: dict[str, str | None]
    cause: str | None
    currency: str | None
    window: Span
    cluster: str | None
    pool: str | None
    closed: ClosedIn | None
    gpu_seconds: Quantity
    gpu_seconds_exact: Quantity
    cost: Money | None
    cost_exact: Money | None
    error: str | None
    summary: str
    sums: list[PriceSum]
    policies: list[PolicyOf]
    lines: int
    items: list[Line]
    next: str | None
    under: Under | None
