"""Changes of the level of daily costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from gpuwatch.billing.cost_series import WEEK, Series, independent_days, level_of, line_of

BEFORE_MIN, AFTER_MIN = 7, 5
"""Known days that a level needs before and after its change."""
PENALTY = 5.0
"""A change or a trend must improve the likelihood by this many times the logarithm of the number of independent days."""
STEP_PENALTY = 1.5
"""The same for a step against a straight line through the days around it."""
NEAR = 28
"""Days before and after a change within which it must be a step and no slope."""
OUTLIER = 3.0
"""A day above this many times the median of its week does not count in full."""
CHANGES_MAX = 6
FACTOR_MIN = 1.25
"""A smaller change of level is part of the ordinary variation."""
PAUSES = 2
"""Days without cost at the end are a stop if they are this many times as many as in any pause before."""


@dataclass(frozen=True)
class Shift:
    """Since `at` (a place in the series) a day costs `after` on average, `before` until then."""

    at: int
    before: float
    after: float


def changes(costs: Series, weights: Series) -> tuple[list[Shift], Series]:
    """The changes of level, oldest first, and the level of each day in parts of the last one; NaN before a level of 0."""
    start, found, levels = 0, list[Shift](), np.ones(len(costs))
    while len(found) < CHANGES_MAX:
        scaled = costs / levels
        place = _split(_capped(scaled[start:], weights[start:]), weights[start:])
        if place is None:
            break
        at = start + place
        at += int(np.isfinite(costs[at:]).argmax())
        before, after = level_of(scaled[start:at], weights[start:at]), level_of(scaled[at:], weights[at:])
        found.append(Shift(at, before, after))
        levels[:at] = levels[:at] * (before / after) if before > 0 else np.nan
        start = at
    return found, levels


def stopped(costs: Series) -> int | None:
    """The first of the days without cost at the end, if they are a stop and no pause as before."""
    known = np.flatnonzero(np.isfinite(costs))
    paid = np.flatnonzero(costs[known] > 0)
    if not len(paid):
        return None
    pauses, last = np.diff(paid) - 1, len(known) - 1 - int(paid[-1])
    if len(paid) < BEFORE_MIN or last < max(AFTER_MIN, PAUSES * int(pauses.max(initial=0))):
        return None
    return int(known[int(paid[-1]) + 1])


def _capped(costs: Series, weights: Series) -> Series:
    """Without single days that stand far out of their week: they are no change of level."""
    if len(costs) < WEEK:
        return costs
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.pad(np.where(weights > 0, costs / weights, np.nan), WEEK // 2, constant_values=np.nan)
    views = np.lib.stride_tricks.sliding_window_view(levels, WEEK)
    ordered = np.sort(views, axis=1)
    count = np.isfinite(views).sum(axis=1)
    middle = np.where(count > 0, ordered[np.arange(len(ordered)), np.maximum(count - 1, 0) // 2], np.nan)
    return np.where(middle > 0, np.minimum(costs, OUTLIER * middle * weights), costs)


def _split(costs: Series, weights: Series) -> int | None:
    """Where the level changes most, if that explains the days better than one level and than a trend."""
    known = np.isfinite(costs)
    y, w = np.where(known, costs, 0.0), np.where(known, weights, 0.0)
    days, square, product, norm = (np.cumsum(part) for part in (known, y * y, y * w, w * w))
    total = len(costs)
    places = np.flatnonzero((days >= BEFORE_MIN) & (days[-1] - days >= AFTER_MIN))
    places = places[(norm[places] > 0) & (norm[-1] - norm[places] > 0)]
    if not len(places) or square[-1] <= 0:
        return None
    one = square[-1] - product[-1] ** 2 / norm[-1]
    left = square[places] - product[places] ** 2 / norm[places]
    right = (square[-1] - square[places]) - (product[-1] - product[places]) ** 2 / (norm[-1] - norm[places])
    both = left + right
    best = int(both.argmin())
    at, two = int(places[best]) + 1, float(both[best])
    before, after = level_of(costs[:at], weights[:at]), level_of(costs[at:], weights[at:])
    if after <= 0 or max(before, after) < FACTOR_MIN * min(before, after):
        return None
    levels = np.where(np.arange(total) < at, before, after)
    errors = np.where(known, costs - levels * weights, np.nan)
    floor = 1e-9 * float(square[-1])
    if not _better(float(one), two, errors, PENALTY, floor):
        return None
    near = slice(max(at - NEAR, 0), at + NEAR)
    straight, errors = _straight(costs[near], weights[near]), errors[near]
    return at if _better(straight, float(np.nansum(errors**2)), errors, STEP_PENALTY, floor) else None


def _straight(costs: Series, weights: Series) -> float:
    """Squared errors of the straight line through these days."""
    end, slope = line_of(costs, weights)
    line = (end + slope * (np.arange(len(costs)) - len(costs) + 1)) * weights
    return float(np.nansum((costs - line) ** 2))


def _better(before: float, after: float, errors: Series, cost: float, floor: float) -> bool:
    """Whether a model with one more parameter explains enough: squared errors `before` and `after`."""
    days = int(np.isfinite(errors).sum())
    gain = log(max(before, floor) / max(after, floor))
    many = independent_days(days, errors)
    return many * gain > cost * log(max(many, 3.0))
