"""Models of the slices routes."""

from __future__ import annotations

from typing import Any

from gpuwatch.api.schema.common import Money, Quantity, Shape, Span, Time


class SliceRow(Shape):
    slice: str
    gpu: str | None
    gi: int | None
    cluster: str
    node: str | None
    profile: str | None
    gpu_model: str | None
    team: str | None
    user: str | None
    job: str | None
    start: Time
    end: Time
    share: str
    share_method: str | None
    split: str | None
    gpu_seconds: Quantity
    device_seconds: Quantity
    cost: Money | None
    currency: str | None
    idle_seconds: Quantity | None
    utilisation: dict[str, float | None]
    placement: dict[str, Any] | None


class SliceGpu(Shape):
    gpu: str
    node: str | None
    cluster: str
    gpu_model: str | None
    remainder_share: str | None
    slices: list[str]


class Slices(Shape):
    items: list[SliceRow]
    gpus: list[SliceGpu]
    next: str | None


class SliceSum(Shape):
    slice: str
    gi: int | None
    cluster: str
    profile: str | None
    currency: str | None
    current: bool
    share: str
    share_method: str | None
    split: str | None
    owner: str | None
    job: str | None
    owners: int
    held_seconds: Quantity
    free_seconds: Quantity
    idle_seconds: Quantity | None
    cost: Money | None
    free_cost: Money | None
    utilisation: dict[str, float | None]
    placement: dict[str, Any] | None


class MigGpu(Shape):
    gpu: str | None
    node: str | None
    cluster: str
    gpu_model: str | None
    remainder_share: str | None
    slices: list[SliceSum]


class MigTotal(Shape):
    gpus: int
    slices: int
    held_slices: int
    measured_slices: int
    held_seconds: Quantity
    known_seconds: Quantity
    idle_seconds: Quantity
    free_seconds: Quantity
    cost: Money | None
    free_cost: Money | None
    currency: str | None
    remainder_gpus: str | None
    owners: list[str]
    share_methods: list[str]
    splits: list[str]


class MigGpus(Shape):
    items: list[MigGpu]
    total: MigTotal
    window: Span
    next: str | None
