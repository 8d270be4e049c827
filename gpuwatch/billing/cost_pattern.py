"""The pattern of a team's daily costs, by which coming days are forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import sqrt

import numpy as np

from gpuwatch.billing.cost_change import Shift, levelled, trend_of
from gpuwatch.billing.cost_errors import Model, Z, reach_of, reach_of_few, span_error
from gpuwatch.billing.cost_series import WEEK, Series, level_of, line_of, weekday_factors

CALIBRATED_MIN = 21
"""With fewer days, past forecasts are too few to measure their errors."""
WINDOWS = (14, 28, 56, 112)
"""Days whose mean may be the level."""
BETTER = 0.9
"""A shorter window must have been better than the longer one by this factor."""


@dataclass(frozen=True)
class Pattern:
    """What coming days cost, and how far their sum may be from that.

    `factors` are by weekday, Monday first, with a mean of 1. `scaled` is the history at the level since `shift`, NaN for
    unknown days. Of the two models one is flat and one has a trend.
    """

    first: date
    factors: Series
    scaled: Series
    shift: Shift | None
    models: tuple[Model, ...]

    @classmethod
    def of(cls, known: Sequence[tuple[date, float]]) -> Pattern:
        """The pattern of known days in order. Days between them that are missing are unknown, not free."""
        first, last = known[0][0], known[-1][0]
        costs = np.full((last - first).days + 1, np.nan)
        for day, cost in known:
            costs[(day - first).days] = cost
        weekdays = (np.arange(len(costs)) + first.weekday()) % WEEK
        factors = weekday_factors(costs, weekdays)
        _, scaled, _ = levelled(costs, factors[weekdays])
        factors = weekday_factors(scaled, weekdays)
        weights = factors[weekdays]
        shift, scaled, since = levelled(costs, weights)
        flat_days = level_window(scaled, weights, len(costs) - since if shift is not None else len(costs))
        trend_days, odds = trend_of(scaled[since:], weights[since:])
        models = [Model(1 - odds, level_of(scaled[-flat_days:], weights[-flat_days:]), 0.0, flat_days, False)]
        if odds:
            level, slope = line_of(scaled[-trend_days:], weights[-trend_days:])
            models.append(Model(odds, max(level, 0.0), slope, trend_days, True))
        return cls(first, factors, scaled, shift, tuple(models))

    def cost(self, day: date) -> float:
        """What a coming day is expected to cost."""
        return float(sum(model.part * self._cost(model, day) for model in self.models))

    def shift_date(self) -> date | None:
        """The first day of the present level."""
        return None if self.shift is None else self.first + timedelta(self.shift.at)

    def reach(self, shares: Sequence[tuple[date, float]]) -> float:
        """The distance from the forecast within which the sum of these parts of days lies in four of five cases."""
        length = sum(share for _, share in shares)
        weights = self.factors[(np.arange(len(self.scaled)) + self.first.weekday()) % WEEK]
        few = int(np.isfinite(self.scaled).sum()) < CALIBRATED_MIN
        square, middle = 0.0, sum(share * self.cost(day) for day, share in shares)
        for model in self.models:
            own = reach_of_few(self.scaled, weights, length) if few else reach_of(self.scaled, weights, model, length)
            apart = Z * (sum(share * self._cost(model, day) for day, share in shares) - middle)
            square += model.part * (own**2 + apart**2)
        return sqrt(square)

    def _cost(self, model: Model, day: date) -> float:
        ahead = (day - self.first).days - len(self.scaled) + 1
        return float(max(model.level + model.slope * ahead, 0.0) * self.factors[day.weekday()])


def level_window(costs: Series, weights: Series, longest: int) -> int:
    """The number of newest days whose mean forecast a week best: longer ones unless a shorter one was clearly better."""
    choices = sorted({min(window, longest) for window in WINDOWS}, reverse=True)
    best, least = choices[0], span_error(costs, weights, choices[0], False)
    for window in choices[1:]:
        error = span_error(costs, weights, window, False)
        if error < BETTER * least:
            best, least = window, error
    return best
