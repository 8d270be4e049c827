"""Shapes of exchange rates, owned hardware, spot prices and commitments, as they are sent and shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpuwatch.api.schema.answers import Money, Quantity, Ratio, Span, Strict, Time
from gpuwatch.api.schema.requests import Rate

Amount = Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?$", examples=["60000"])]
RatioText = Annotated[str, Field(pattern=r"^\d{1,26}(\.\d{1,12})?\s*%?$", examples=["0.2", "20%"])]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["EUR"])]


class RateInForce(Rate):
    card: str = Field(description="rates, owned or spot: where it stands.")


class RatesInForce(Strict):
    items: list[RateInForce]
    version: int
    next: str | None


class Exchange(Strict):
    from_: Currency = Field(alias="from")
    to: Currency
    rate: Amount
    valid_from: Time


class FxBody(Strict):
    items: list[Exchange] = Field(max_length=100_000)
    currency: Currency | None = Field(None, description="What is reported in; null: each price in its own.")
    max_age_days: int = Field(35, ge=1, le=3660, description="For how many days a rate is taken at most.")


class ExchangeRates(FxBody):
    version: int
    next: str | None


class OwnedHardware(Strict):
    name: str = Field(min_length=1, max_length=200)
    gpu_model: str = Field(min_length=1, max_length=200)
    gpus: int = Field(ge=1, le=10_000_000, description="All that the amounts are of.")
    capex: Amount
    years: Amount
    kw: Annotated[str, Field(pattern=r"^(\d{1,26}(\.\d{1,12})?|measured)$", examples=["10.2", "measured"])]
    price_per_kwh: Amount
    valid_from: Time
    valid_to: Time | None = None
    adders: RatioText = "0"
    residual: RatioText = "0"
    pue: Amount = "1"
    availability: RatioText = "1"
    host_kw: Amount = "0"
    ops_per_year: Amount = "0"
    space_per_year: Amount = "0"
    support_per_year: Amount = "0"
    currency: Currency = "USD"
    cluster: str | None = Field(None, max_length=200)
    pool: str | None = Field(None, max_length=200)
    kw_source: str | None = Field(None, max_length=1000, description="Where a measured power comes from.")


class OwnedBody(Strict):
    items: list[OwnedHardware] = Field(max_length=100_000)


class OwnedPriced(OwnedHardware):
    usd_per_gpu_hour: Money
    formula: str = Field(description="How that comes about, with every number.")


class OwnedCard(Strict):
    items: list[OwnedPriced]
    version: int
    next: str | None


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


class SpotPrices(Strict):
    items: list[SpotPrice]
    version: int
    next: str | None


class Commitment(Strict):
    commitment_id: str
    gpu_model: str
    quantity: int | None = Field(description="GPUs committed to; null: whatever the fleet has of its scope.")
    committed_gpu_seconds: Quantity
    used_gpu_seconds: Quantity = Field(description="Held by somebody.")
    idle_gpu_seconds: Quantity = Field(description="In the fleet, and not held.")
    absent_gpu_seconds: Quantity = Field(description="Beyond what the fleet has.")
    unused_gpu_seconds: Quantity
    utilisation: Ratio | None
    committed_cost: Money
    used_cost: Money
    unused_cost: Money
    currency: str


class Commitments(Strict):
    items: list[Commitment]
    window: Span
    counted: Span | None = Field(description="The part of the window in which the books know the fleet.")
    next: str | None
