"""Models of the spot routes."""

from __future__ import annotations

from gpuwatch.api.schema.common import Money, Strict, Time


class SpotPrice(Strict):
    instance_type: str
    zone: str
    product: str
    at: Time
    price: Money
    currency: str
    gpu_model: str
    gpus: int
    cluster: str | None
    pool: str | None
    assume_spot: bool


class SpotPrices(Strict):
    items: list[SpotPrice]
    version: int
    next: str | None
