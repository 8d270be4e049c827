"""Models of the commitments routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Ratio, Span, Strict


class Commitment(Strict):
    commitment_id: str
    gpu_model: str
    quantity: int | None = Field(description="GPUs committed to; null: all GPUs of the fleet in its scope.")
    committed_gpu_seconds: Quantity
    used_gpu_seconds: Quantity = Field(description="Held by jobs.")
    idle_gpu_seconds: Quantity = Field(description="In the fleet, but not held.")
    absent_gpu_seconds: Quantity = Field(description="Committed beyond the size of the fleet.")
    unused_gpu_seconds: Quantity
    utilisation: Ratio | None
    committed_cost: Money
    used_cost: Money
    unused_cost: Money
    currency: str


class Commitments(Strict):
    items: list[Commitment]
    window: Span
    counted: Span | None = Field(description="The part of the window that the ledger covers.")
    next: str | None
