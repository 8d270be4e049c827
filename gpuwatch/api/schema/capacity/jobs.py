"""Models of the jobs routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpuwatch.api.schema.common import Bucket, Money, Quantity, Shape, Time


class Member(Shape):
    device: str
    node: str | None
    is_subject: bool = Field(description="The finding is about this device; the others are of the same job.")
    values: list[float | None]


class Members(Shape):
    """One column of each device of a finding's job, to show which differ."""

    column: str
    step_s: int
    times: list[Time]
    items: list[Member]


class Series(Shape):
    step_s: float | None
    points: list[dict[str, Any]]
    thresholds: dict[str, float | None]
    members: Members | None = Field(None, description="Of a finding, where its rule compares devices.")


class Job(Shape):
    id: str
    cluster: str
    name: str | None
    team: str
    inferred: bool
    """Whether its account or namespace names the team, because no ownership rule decides."""
    user: str | None
    account: str | None
    queue: str | None
    namespace: str | None
    scheduler: str | None
    state: str | None
    submitted_at: Time | None
    started_at: Time | None
    ended_at: Time | None
    suspended_seconds: float | None
    """How long Slurm had stopped its runs, which kept their GPUs; null where no record says that it did."""
    gpus: float | None
    gpu_seconds: Quantity | None
    device_seconds: Quantity | None
    cost: Money | None
    currency: str | None
    effective_ratio: float | None
    buckets: dict[str, Quantity]
    findings: list[Any]
    workload_class: str | None
    placement_grade: str | None


class Jobs(Shape):
    items: list[Job]
    next: str | None


class WaterfallStep(Shape):
    bucket: Bucket
    gpu_seconds: Quantity
    cost: Money | None


class Crossed(Shape):
    nvlink_domains: int | None
    pcie_switches: int | None
    sockets: int | None
    nodes: int | None
    leaves: int | None


class BestPlacement(Shape):
    kind: str
    name: str | None
    gb_per_s: float | None
    free_gpus: int
    crossed: Crossed


class Placement(Shape):
    grade: Literal["A", "B", "C", "D", "F"] | None
    why: str
    at: Time
    gpus: int
    gpu_model: str | None
    kind: str | None
    name: str | None
    worst_level: str | None
    gb_per_s: float | None
    mean_gb_per_s: float | None
    levels: list[dict[str, Any]]
    crossed: Crossed | None
    best: BestPlacement | None
    slowdown: dict[str, float | str | None] | None
    traffic: dict[str, Any] | None
    missing: list[dict[str, str]]


class JobDetail(Job):
    placement: Placement | None
    runs: list[dict[str, Any]]
    devices: list[Any]
    waterfall: list[WaterfallStep]
    series: Any
    findings: list[Any]
