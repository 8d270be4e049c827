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
        return (
            f"Since {self.since.isoformat()} an average day costs {self.after:f} {currency}, "
            f"before that {self.before:f} {currency}."
        )


@dataclass(frozen=True)
class Forecast:
    """The expected amount at the end of a period, and the interval that contains it in four of five cases (LEVEL).

    `change` is the last change of level in the history; None without one.
    """

    amount: Decimal
    low: Decimal
    high: Decimal
    change: LevelChange | None = None

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
    shares = [(day, part if place == 0 else 1.0) for place, day in enumerate(rest)]
    middle = spent + _money(sum(share * pattern.cost(day) for day, share in shares))
    reach = _money(pattern.reach(shares)) if shares else Decimal(0)
    return Forecast(middle, max(spent, middle - reach), middle + reach, _change(pattern))


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
    if spent > limit:
        return rest[0] if rest else None
    pattern = _pattern(days)
    if pattern is None:
        return None
    total = float(spent)
    for day in rest:
        total += pattern.cost(day)
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


def _change(pattern: Pattern) -> LevelChange | None:
    shift, since = pattern.shift, pattern.shift_date()
    if shift is None or since is None:
        return None
    return LevelChange(since, _money(shift.before), _money(shift.after))


def _money(amount: float) -> Decimal:
    return Decimal(repr(float(amount))).quantize(CENT)
