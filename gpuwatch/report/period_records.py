"""Records about periods: a closing, a budget with its forecast, a past week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Closed:
    """A closing of the week itself: its charges are frozen. `whole`: by job too, not only by team."""

    at_us: int
    by: str
    digest: str | None
    """None where the reader may not learn of other teams."""
    signed: tuple[str, ...]
    whole: bool
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the cards that it was priced with; {} where that was not noted."""
    forced: str | None = None
    """What was missing when the closing was forced; None if it was not."""
