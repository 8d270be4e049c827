"""Models of the jobs routes."""

from __future__ import annotations

from typing import Any, Literal

from gpuwatch.api.schema.common import Bucket, Money, Quantity, Shape, Time


class Series(Shape):
    step_s: float | None
    points: list[dict[str, Any]]
    thresholds: dict[str, float | None]


class Job(Shape):
    id: str
    cluster: str
    name: str | None
    team: str
    user: str | None
    account: str | None
    queue: str | None
    namespace: str | None
    scheduler: str | None
    state: str | None
    submitted_at: Time | None
    started_at: Time | None
    ended_at: Time | None
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
