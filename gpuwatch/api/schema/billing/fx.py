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
    currency: Currency | None = Field(
        None, description="Reporting currency; null: each price stays in its own currency."
    )
    max_age_days: int = Field(35, ge=1, le=3660, description="Maximum age of a rate, in days.")


class ExchangeRates(FxBody):
    version: int
    next: str | None
