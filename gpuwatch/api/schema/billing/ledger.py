"""Models of the ledger routes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Money, Quantity, Shape, Span


class LedgerRow(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None
    currency: str | None


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


class Ledger(Shape):
    items: list[LedgerRow]
    capacity_gpu_seconds: Quantity
    window: Span
    funnel: Funnel
    currency: str | None
    next: str | None


class Charge(Shape):
    gpu_seconds: Quantity
    cost: Money | None
    cost_exact: str | None
    currency: str | None
    kind: Literal["allocated", "platform", "shared", "correction"]
    charge: str = Field(examples=["c1.alsx"], json_schema_extra={"description": "The id of the row."})


class ChargeTotal(Shape):
    gpu_seconds: Quantity
    cost: Money | None


class Chargeback(Shape):
    items: list[Charge]
    window: Span
    total: ChargeTotal
    next: str | None
