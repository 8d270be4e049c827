"""What a report knows of periods: a budget with its forecast, and a past week."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal


@dataclass(frozen=True)
class Budget:
    """The budget of a period: amount, spent, and a forecast for its end if there is one."""

    period: str
    amount: Decimal
    spent: Decimal | None
    currency: str
    forecast: Decimal | None = None
    forecast_low: Decimal | None = None
    forecast_high: Decimal | None = None
    level_change: str | None = None
    """The last change of the cost of an average day, as a sentence."""
    runs_out: date | None = None
    """The day on which the amount was or will be exceeded."""
    goes_on: bool = False
    """Whether the period had not ended where the data ends."""


@dataclass(frozen=True)
class Past:
    """An ISO week of the trend; None is unknown. `hours` of it are in the ledger."""

    week: str
    hours: int
    cost: Decimal | None
    avoidable: Decimal | None
    currency: str | None
