"""The pattern of a team's daily costs, by which coming days are forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from gpuwatch.billing.cost_change import Shift, changes, stopped
from gpuwatch.billing.cost_outlook import History, Outlook, outlook
from gpuwatch.billing.cost_series import WEEK, Series, level_of, weekday_factors

FREE = 0.02
"""A weekday with a smaller factor costs nothing."""


@dataclass(frozen=True)
class Pattern:
    """What coming days cost. `factors` are by weekday, Monday first, with a mean of 1; `shift` is the last change of level.

    `history` is None where the present level is 0.
    """

    first: date
    factors: Series
    shift: Shift | None
    history: History | None

    @classmethod
    def of(cls, known: Sequence[tuple[date, float]]) -> Pattern:
        """The pattern of known days in order. Days between them that are missing are unknown, not free."""
        first, last = known[0][0], known[-1][0]
        costs = np.full((last - first).days + 1, np.nan)
        for day, cost in known:
            costs[(day - first).days] = cost
        weekdays = (np.arange(len(costs)) + first.weekday()) % WEEK
        end = stopped(costs)
        active = costs[:end]
        factors, _ = weekday_factors(active, weekdays[: len(active)])
        _, levels = changes(active, factors[weekdays[: len(active)]])
        factors, sure = weekday_factors(active / levels, weekdays[: len(active)])
        weights = factors[weekdays]
        shifts, levels = changes(active, weights[: len(active)])
        if end is not None:
            since = shifts[-1].at if shifts else 0
            return cls(first, factors, Shift(end, level_of(costs[since:end], weights[since:end]), 0.0), None)
        use = np.flatnonzero(np.isfinite(costs / levels) & (weights > FREE))
        shift = shifts[-1] if shifts else None
        if not costs[use].any():
            return cls(first, factors, shift, None)
        inside = [one.at for one in shifts if one.at > use[0]]
        return cls(
            first, factors, shift, History(use, costs[use], weights[use], levels[use], inside, sure * (WEEK - 1))
        )

    def outlook(self, shares: Sequence[tuple[date, float]]) -> Outlook:
        """The expected costs of these coming days, and the interval of the sum of their parts."""
        if self.history is None:
            return Outlook(np.zeros(len(shares)), 0.0, 0.0, 1.0)
        factors = self.factors[[day.weekday() for day, _ in shares]]
        places = np.array([(day - self.first).days for day, _ in shares])
        parts = np.array([part for _, part in shares]) * (factors > FREE)
        return outlook(self.history, places, factors, parts)

    def date_of(self, shift: Shift) -> date:
        """The first day of a level."""
        return self.first + timedelta(shift.at)
