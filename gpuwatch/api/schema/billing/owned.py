"""Models of the owned routes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwatch.api.schema.common import AmountText, Currency, Money, RatioText, Strict, Time


class OwnedHardware(Strict):
    name: str = Field(min_length=1, max_length=200)
    gpu_model: str = Field(min_length=1, max_length=200)
    gpus: int = Field(ge=1, le=10_000_000, description="The number of GPUs that the amounts cover.")
    capex: AmountText
    years: AmountText
    kw: Annotated[str, Field(pattern=r"^(\d{1,26}(\.\d{1,12})?|measured)$", examples=["10.2", "measured"])]
    price_per_kwh: AmountText
    valid_from: Time
    valid_to: Time | None = None
    adders: RatioText = "0"
    residual: RatioText = "0"
    pue: AmountText = "1"
    availability: RatioText = "1"
    host_kw: AmountText = "0"
    ops_per_year: AmountText = "0"
    space_per_year: AmountText = "0"
    support_per_year: AmountText = "0"
    currency: Currency = "USD"
    cluster: str | None = Field(None, max_length=200)
    pool: str | None = Field(None, max_length=200)
    kw_source: str | None = Field(None, max_length=1000, description="Where a measured power comes from.")


class OwnedBody(Strict):
    items: list[OwnedHardware] = Field(max_length=100_000)


class OwnedPriced(OwnedHardware):
    usd_per_gpu_hour: Money
    formula: str = Field(description="The calculation, with every number.")


class OwnedCard(Strict):
    items: list[OwnedPriced]
    version: int
    next: str | None
