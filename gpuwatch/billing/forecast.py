"""What a period will have cost by its end: means by weekday of the days before, with an interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from math import sqrt
from statistics import fmean

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

    Each day to come costs the mean of its weekday. Days are taken to err independently and alike; the error of a mean is
    common to all days that it stands for. The interval is never below what is spent already.
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
    """The first of these days, in their order, at whose end their sum is above `limit`; None: they do not add up to it."""
    total = Decimal(0)
    for day, amount in days:
        total += amount
        if total > limit:
            return day
    return None


def run_out(spent: Decimal, limit: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date]) -> date | None:
    """The day to come on which `limit` is passed; None: not within `rest`, or too little is known. Today if it is passed."""
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
    """Means by weekday, Monday first; of how many days each is, 0: of all of them, of which there are `days`; and how far
    from its mean a day lies in four of five cases.
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
        # Each mean leaves one day less to tell how days differ.
        free = len(known) - len([count for count in counts if count]) - (0 in counts)
        squares = sum((float(amount) - means[day.weekday()]) ** 2 for day, amount in known)
        # The quantile of Student's distribution, to the first order in 1 / free.
        return cls(means, counts, len(known), (_Z + (_Z**3 + _Z) / (4 * free)) * sqrt(squares / free))


def _common(habit: _Habit, rest: Sequence[date], shares: Sequence[float]) -> float:
    """What errors of means add to a variance of 1 a day: those of weekdays err apart, one of all days errs for all."""
    sums: dict[int | None, float] = defaultdict(float)
    for day, share in zip(rest, shares, strict=True):
        sums[day.weekday() if habit.counts[day.weekday()] else None] += share
    return sum(total**2 / (habit.days if weekday is None else habit.counts[weekday]) for weekday, total in sums.items())


def _money(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(CENT)
