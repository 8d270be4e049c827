"""Models of the reclaim routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import Money, Quantity, Ratio, Strict, Time


class Contended(Strict):
    gpu_hours: Quantity = Field(
        description="The part of the idle time in which requests waited that these devices could have served."
    )
    cost: Money | None
    currency: str | None
    requests: int = Field(description="Waiting requests that these devices could have served.")
    requested_devices_max: int


class Reclaim(Strict):
    key: str
    cluster: str
    job: str
    name: str | None
    scheduler: str | None
    team: str
    user: str | None
    nodes: list[str]
    devices: int
    idle_devices: int
    idle_since: Time
    idle_minutes: float
    step: str
    step_at: Time | None
    next_step: str | None
    next_at: Time | None
    held_by: str | None = Field(description="snoozed, exempt or acked: no step is proposed until it ends.")
    held_until: Time | None
    action: str = Field(description="end: all of its devices are idle; shrink: some work, and it must not be ended.")
    preset: str
    confidence: Ratio
    wasted_gpu_hours: Quantity
    wasted_cost: Money | None
    currency: str | None
    contention: Contended | None
    command: str | None = Field(description="The command that follows the recommendation; gpuwatch never runs it.")


class Reclaims(Strict):
    items: list[Reclaim]
    at: Time
    jobs: int | None = Field(description="Jobs that hold idle devices, at this step. Null where no GPU is measured.")
    not_measured: str | None = Field(description="Why idle devices are not known; null where they are.")
    next: str | None
