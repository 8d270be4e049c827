"""Models of the ledger routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Money, Quantity, Ratio, Shape, Span


class LedgerRow(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None
    avoidable_gpu_seconds: Quantity = Field(
        json_schema_extra={
            "description": "Its part that is waste: what findings claim of `below_roof`, all of `hoarded`."
        }
    )
    inferred: bool | None = Field(
        default=None,
        json_schema_extra={
            "description": "With `by=team`: whether some or all time of the row has its team only by its account or namespace."
        },
    )
    partly_inferred: bool | None = Field(
        default=None,
        json_schema_extra={"description": "With `by=team`: whether only some does, and a rule decides the rest."},
    )


class Amount(Shape):
    gpu_seconds: Quantity
    cost: Money | None


class KnownAmount(Shape):
    gpu_seconds: Quantity | None
    cost: Money | None


class Funnel(Shape):
    total: Amount
    reporting: Amount
    allocated: Amount
    active: KnownAmount
    effective: KnownAmount


class Measure(KnownAmount):
    """None: nothing of it was measured. `ratio`: its share of all time; None if less than half was measured."""

    ratio: Ratio | None


class Unknown(Shape):
    not_measured: Measure
    out_of_service: Measure


class Measures(Shape):
    working: Measure
    avoidable: Measure
    free: Measure
    unknown: Unknown
    roofline_efficiency: Ratio | None
    measured_ratio: Ratio | None


class GroupMeasures(Measures):
    """With the value of each dimension."""


class Ledger(Measures):
    items: list[LedgerRow]
    capacity_gpu_seconds: Quantity
    window: Span
    funnel: Funnel
    currency: str | None
    groups: list[GroupMeasures]
    next: str | None


class Charge(Shape):
    gpu_seconds: Quantity
    cost: Money | None
    cost_exact: str | None
    currency: str | None
    kind: Literal["allocated", "platform", "shared", "correction"]
    charge: str | None = Field(
        examples=["c1.alsx"],
        json_schema_extra={
            "description": "The id of the row; null by day, week, month, node, gpu, name, label:<key> or cost_center."
        },
    )
    inferred: bool | None = Field(
        default=None,
        json_schema_extra={
            "description": "With `by=team`: whether some or all time of the row has its team only by its account or namespace."
        },
    )
    partly_inferred: bool | None = Field(
        default=None,
        json_schema_extra={"description": "With `by=team`: whether only some does, and a rule decides the rest."},
    )


class ChargeTotal(Shape):
    gpu_seconds: Quantity
    cost: Money | None


class Chargeback(Shape):
    items: list[Charge]
    window: Span
    total: ChargeTotal
    next: str | None
