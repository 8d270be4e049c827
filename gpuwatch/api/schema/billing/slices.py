"""Models of the slices routes."""

from __future__ import annotations

from typing import Any

from gpuwatch.api.schema.common import Money, Quantity, Shape, Time


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
