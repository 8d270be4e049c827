"""Models of the fx routes."""

from __future__ import annotations

from pydantic import Field

from gpuwatch.api.schema.common import AmountText, Currency, Strict, Time


class Exchange(Strict):
    from_: Currency = Field(alias="from")
    to: Currency
    rate: AmountText
    valid_from: Time


class FxBody(Strict):
    items: list[Exchange] = Field(max_length=100_000)
    currency: Currency | None = Field(None, description="What is reported in; null: each price in its own.")
    max_age_days: int = Field(35, ge=1, le=3660, description="For how many days a rate is taken at most.")


class ExchangeRates(FxBody):
    version: int
    next: str | None
