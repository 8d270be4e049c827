"""Forecasts the cost of a period at its end, with an interval, from the pattern of the days before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuwatch.billing.cost_pattern import Pattern

DAYS_MIN = 7
"""Minimum history for a forecast, in known days."""
HISTORY_DAYS = 112
"""Newest days that a forecast uses."""
LEVEL = "80 %"
CENT = Decimal("0.01")


@dataclass(frozen=True)
class LevelChange:
    """Since the day `since` an average day costs `after`, `before` until then."""

    since: date
    before: Decimal
    after: Decimal

    def sentence(self, currency: str) -> str:
        """`Since 2026-11-03 an average day costs 240.00 USD, before that 120.00 USD.`"""
        if not self.after:
            return (
                f"Nothing has been spent since {self.since.isoformat()}, before that {self.before:f} {currency} on an "
                "average day. The forecast does not include that spending starts again."
            )
        return (
            f"Since {self.since.isoformat()} an average day costs {self.after:f} {currency}, "
            f"before that {self.before:f} {currency}."
        )


@dataclass(frozen=True)
class Forecast:
    """The expected amount at the end of a period, and the interval that contains it in four of five cases (LEVEL).

    `change` is the last change of level in the history; None without one. `days`: what each remaining day is expected to cost.
    """

    amount: Decimal
    low: Decimal
    high: Decimal
    change: LevelChange | None = None
    days: tuple[tuple[date, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As JSON; `level_change` is None without a change."""
        change = self.change
        level_change = change and {
            "since": change.since.isoformat(),
            "before": f"{change.before:f}",
            "after": f"{change.after:f}",
        }
        amounts = {name: f"{getattr(self, name):f}" for name in ("amount", "low", "high")}
        return amounts | {"level": LEVEL, "level_change": level_change}


def forecast_cost(
    spent: Decimal, days: Sequence[tuple[date, Decimal]], rest: Sequence[date], part: float
) -> Forecast | None:
    """Forecast from the amount `spent` so far, the costs of past whole `days`, and the remaining days `rest`.

    Only `part` (0..1) of the first remaining day is left. Days that are missing in `days` are unknown. None with fewer than
    DAYS_MIN known days. The interval never starts below the amount already spent.
    """
    pattern = _pattern(days)
    if pattern is None:
        return None
    if not rest:
        return Forecast(spent, spent, spent, _change(pattern, 1.0))
    shares = [(day, part if place == 0 else 1.0) for place, day in enumerate(rest)]
    coming = pattern.outlook(shares)
    expected = [share * float(cost) for (_, share), cost in zip(shares, coming.days, strict=True)]
    middle, low, high = (spent + max(_money(amount), Decimal(0)) for amount in (sum(expected), coming.low, coming.high))
    change, by_day = _change(pattern, coming.shifted), tuple(zip(rest, expected, strict=True))
    return Forecast(middle, min(low, middle), max(high, middle), change, by_day)


def passed_on(limit: Decimal, days: Sequence[tuple[date, Decimal]]) -> date | None:
    """The first day at whose end the running sum exceeds `limit`; None if it never does."""
    total = Decimal(0)
    for day, amount in days:
        total += amount
        if total > limit:
            return day
    return None


def run_out(spent: Decimal, limit: Decimal, coming: Sequence[tuple[date, float]]) -> date | None:
    """The first of the coming days at whose end more than `limit` is spent; None if none of them is."""
    total = float(spent)
    for day, cost in coming:
        total += cost
        if total > float(limit):
            return day
    return None


def dates(start: date, end: date) -> list[date]:
    """The days [start, end)."""
    return [start + timedelta(days=n) for n in range((end - start).days)]


def _pattern(days: Sequence[tuple[date, Decimal]]) -> Pattern | None:
    from gpuwatch.billing.cost_pattern import Pattern

    known = sorted(days)
    known = [one for one in known if one[0] > known[-1][0] - timedelta(HISTORY_DAYS)]
    return Pattern.of([(day, float(cost)) for day, cost in known]) if len(known) >= DAYS_MIN else None


def _change(pattern: Pattern, probability: float) -> LevelChange | None:
    """The last change of level, if it is more likely than a level that wanders, and of a cent at least."""
    shift = pattern.shift
    if shift is None or probability < 0.5:
        return None
    before, after = _money(shift.before), _money(shift.after)
    return None if before == after else LevelChange(pattern.date_of(shift), before, after)


def _money(amount: float) -> Decimal:
    return Decimal(repr(float(amount))).quantize(CENT)
