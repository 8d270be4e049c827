"""What a period will have cost by its end: means by weekday of the days before, with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from math import sqrt
from statistics import fmean, stdev

DAYS_MIN = 7
"""Whole days without which nothing is foretold."""
HISTORY_DAYS = 56
"""Days that are looked at, the newest."""
WEEKDAYS_MIN = 2
"""A weekday with fewer of its days counts as any day."""
LEVEL = "80 %"
_Z = 1.2816
"""Of a normal distribution: four in five cases lie within as many standard deviations."""
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Forecast:
    """The amount at the end of a period, and the interval in which it lies in four of five cases (LEVEL)."""

    amount: Decimal
    low: Decimal
    high: Decimal


def foretell(
    spent: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date], part: float
) -> Forecast | None:
    """`spent` so far, what whole `days` before cost, and the days still to come, of which the first has only `part` (0..1)
    of itself left. None: fewer than DAYS_MIN days are known.

    Each day to come costs the mean of its weekday. Days are taken to err independently, so the interval grows with the
    root of their number; the error of the means is counted as common to all. It is never below what is spent already.
    """
    known = sorted(days)[-HISTORY_DAYS:]
    if len(known) < DAYS_MIN:
        return None
    means, errors = _weekdays(known)
    shares = [part if place == 0 else 1.0 for place in range(len(rest))]
    coming = sum(share * means[day.weekday()] for share, day in zip(shares, rest, strict=True))
    spread = stdev(errors) if len(errors) > 1 else 0.0
    alone = sum(share * share for share in shares)
    common = sum(shares) ** 2 / len(known)
    error = _Z * spread * sqrt(alone + common)
    middle = spent + _money(coming)
    return Forecast(middle, max(spent, middle - _money(error)), middle + _money(error))


def run_out(spent: Decimal, limit: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date]) -> date | None:
    """The day to come on which `limit` is passed; None: not within `rest`, or too little is known. Today if it is passed."""
    known = sorted(days)[-HISTORY_DAYS:]
    if spent > limit:
        return rest[0] if rest else None
    if len(known) < DAYS_MIN:
        return None
    means, _ = _weekdays(known)
    total = float(spent)
    for day in rest:
        total += means[day.weekday()]
        if total > float(limit):
            return day
    return None


def dates(start: date, end: date) -> list[date]:
    """The days [start, end)."""
    return [start + timedelta(days=n) for n in range((end - start).days)]


def _weekdays(known: Sequence[tuple[date, Decimal]]) -> tuple[list[float], list[float]]:
    """Means by weekday, Monday first, and how far each known day was from its own."""
    every = fmean(float(amount) for _, amount in known)
    means = []
    for weekday in range(7):
        own = [float(amount) for day, amount in known if day.weekday() == weekday]
        means.append(fmean(own) if len(own) >= WEEKDAYS_MIN else every)
    return means, [float(amount) - means[day.weekday()] for day, amount in known]


def _money(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(CENT)
