"""Models of the fleet routes."""

from __future__ import annotations

from gpuwatch.api.schema.common import Shape, Time


class Gpus(Shape):
    total: float | None
    reporting: float | None
    allocated: float | None
    active: float | None
    effective: float | None
    effective_known: float


class FleetRow(Shape):
    cluster: str
    pool: str | None
    gpu_model: str | None
    gpus: Gpus
    slices: Gpus


class FleetTotal(Shape):
    gpus: Gpus
    slices: Gpus


class Fleet(Shape):
    at: Time
    as_of: Time | None
    items: list[FleetRow]
    total: FleetTotal
