"""Forecasts the cost of a period at its end from means by weekday, with an interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from math import sqrt
from statistics import fmean

DAYS_MIN = 7
"""Minimum history for a forecast, in whole days."""
HISTORY_DAYS = 56
"""Newest days that a forecast uses."""
WEEKDAYS_MIN = 2
"""A weekday with fewer days of history uses the mean of all days."""
LEVEL = "80 %"
_Z = 1.2816
"""Standard deviations of a normal distribution that cover 80 % of the cases."""
CENT = Decimal("0.01")


@dataclass(frozen=True)
class Forecast:
    """The expected amount at the end of a period, and the interval that contains it in four of five cases (LEVEL)."""

    amount: Decimal
    low: Decimal
    high: Decimal


def forecast_cost(
    spent: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date], part: float
) -> Forecast | None:
    """Forecast from the amount `spent` so far, the costs of past whole `days`, and the remaining days `rest`.

    Only `part` (0..1) of the first remaining day is left. None with fewer than DAYS_MIN days of history.
    Each remaining day costs the mean of its weekday. Errors of days are taken as independent and identically distributed;
    the error of a mean is shared by all days that use it. The interval never starts below the amount already spent.
    """
    known = sorted(days)[-HISTORY_DAYS:]
    if len(known) < DAYS_MIN:
        return None
    habit = _Habit.of(known)
    shares = [part if place == 0 else 1.0 for place in range(len(rest))]
    coming = sum(share * habit.means[day.weekday()] for share, day in zip(shares, rest, strict=True))
    error = habit.reach * sqrt(sum(share * share for share in shares) + _common(habit, rest, shares))
    middle = spent + _money(coming)
    return Forecast(middle, max(spent, middle - _money(error)), middle + _money(error))


def passed_on(limit: Decimal, days: Sequence[tuple[date, Decimal]]) -> date | None:
    """The first day at whose end the running sum exceeds `limit`; None if it never does."""
    total = Decimal(0)
    for day, amount in days:
        total += amount
        if total > limit:
            return day
    return None


def run_out(spent: Decimal, limit: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date]) -> date | None:
    """The remaining day on which `limit` is exceeded: today if it already is; None if not within `rest` or without enough history."""
    known = sorted(days)[-HISTORY_DAYS:]
    if spent > limit:
        return rest[0] if rest else None
    if len(known) < DAYS_MIN:
        return None
    means = _Habit.of(known).means
    total = float(spent)
    for day in rest:
        total += means[day.weekday()]
        if total > float(limit):
            return day
    return None


def dates(start: date, end: date) -> list[date]:
    """The days [start, end)."""
    return [start + timedelta(days=n) for n in range((end - start).days)]


@dataclass(frozen=True)
class _Habit:
    """Means by weekday, Monday first, with the number of days behind each (0: the mean of all `days` days), and the
    distance from its mean within which a day lies in four of five cases.
    """

    means: list[float]
    counts: list[int]
    days: int
    reach: float

    @classmethod
    def of(cls, known: Sequence[tuple[date, Decimal]]) -> _Habit:
        every = fmean(float(amount) for _, amount in known)
        means, counts = [], []
        for weekday in range(7):
            own = [float(amount) for day, amount in known if day.weekday() == weekday]
            enough = len(own) >= WEEKDAYS_MIN
            means.append(fmean(own) if enough else every)
            counts.append(len(own) if enough else 0)
        # Each estimated mean costs one degree of freedom.
        free = len(known) - len([count for count in counts if count]) - (0 in counts)
        squares = sum((float(amount) - means[day.weekday()]) ** 2 for day, amount in known)
        # The quantile of Student's distribution, to the first order in 1 / free.
        return cls(means, counts, len(known), (_Z + (_Z**3 + _Z) / (4 * free)) * sqrt(squares / free))


def _common(habit: _Habit, rest: Sequence[date], shares: Sequence[float]) -> float:
    """What errors of means add to a variance of 1 per day: weekday means err independently, the overall mean errs for all."""
    sums: dict[int | None, float] = defaultdict(float)
    for day, share in zip(rest, shares, strict=True):
        sums[day.weekday() if habit.counts[day.weekday()] else None] += share
    return sum(total**2 / (habit.days if weekday is None else habit.counts[weekday]) for weekday, total in sums.items())


def _money(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(CENT)
