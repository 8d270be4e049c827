"""Daily costs as a series: weekdays, levels, lines, and how long an error stays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Places = NDArray[np.int64]

WEEK = 7
MEDIAN_VARIANCE, NORMAL_DISTANCE = 1.571, 1.4826
"""Of a normal distribution: the variance of a median over that of a mean, and a standard deviation over the median distance."""
PAUSED_MIN = 0.2
"""A weekday that is free more often, and not always, is no weekday without cost: the team pauses on any day."""
MEMORY_MAX = 0.9
"""Errors that stay longer cannot be told from a wandering level in so few days."""


def weekday_factors(costs: Series, weekdays: Places) -> tuple[Series, float]:
    """The cost of each weekday as a part of the mean of its week, and how sure these are (0..1): moved towards 1 by that."""
    factors = np.ones(WEEK)
    weeks = len(costs) - WEEK + 1
    if weeks < WEEK + 1:
        return _of_short(costs, weekdays), 0.0
    views = np.lib.stride_tricks.sliding_window_view(costs, WEEK)
    full = np.isfinite(views).sum(axis=1) == WEEK
    means = np.where(full, views.mean(axis=1), np.nan)
    middle = np.clip(np.arange(len(costs)) - WEEK // 2, 0, weeks - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(means[middle] > 0, costs / means[middle], np.nan)
    groups = [ratios[(weekdays == day) & np.isfinite(ratios)] for day in range(WEEK)]
    if min(len(group) for group in groups) < 2:
        return factors, 0.0
    # The median of days without cost among others would be 0, or too much.
    paused = any(PAUSED_MIN < float((group == 0).mean()) < 1 for group in groups)
    factors = np.array([group.mean() if paused else np.median(group) for group in groups])
    whole = float(factors.mean())
    if whole <= 0:
        return np.ones(WEEK), 0.0
    factors /= whole
    between = float(factors.var(ddof=1))
    within = float(np.mean([group.var(ddof=1) / len(group) if paused else _median_variance(group) for group in groups]))
    sure = max(0.0, 1 - within / between) if between > 0 else 0.0
    return np.asarray(1 + sure * (factors - 1)), sure


def _median_variance(values: Series) -> float:
    """The variance of the median of these values, from their median distance to it: single days do not count."""
    distance = float(np.median(np.abs(values - np.median(values))))
    return MEDIAN_VARIANCE * (NORMAL_DISTANCE * distance) ** 2 / len(values)


def _of_short(costs: Series, weekdays: Places) -> Series:
    """The factors of less than two weeks: they only show whether weekends are the days without cost."""
    known = np.isfinite(costs)
    weekend = known & (weekdays >= WEEK - 2)
    if len(set(weekdays[weekend])) < 2 or ((costs > 0)[known] == weekend[known]).any():
        return np.ones(WEEK)
    return np.array([WEEK / 5] * 5 + [0.0, 0.0])


def level_of(costs: Series, weights: Series) -> float:
    """The mean of a day with weight 1."""
    known = np.isfinite(costs)
    total = float(weights[known].sum())
    return float(costs[known].sum()) / total if total > 0 else 0.0


def line_of(costs: Series, weights: Series) -> tuple[float, float]:
    """The straight line through days of weight 1: its value on the last day, and its slope."""
    known = np.isfinite(costs)
    at = np.arange(len(costs))[known] - len(costs) + 1
    design = np.stack([weights[known], weights[known] * at], axis=1)
    (level, slope), *_ = np.linalg.lstsq(design, costs[known], rcond=None)
    return float(level), float(slope)


def memory_of(errors: Series) -> float:
    """How much of an error is still there on the next day (0..MEMORY_MAX), without the bias of short histories."""
    one, two = errors[:-1], errors[1:]
    both = np.isfinite(one) & np.isfinite(two)
    square = float((one[both] ** 2).sum())
    if both.sum() < WEEK or square <= 0:
        return 0.0
    found, many = float((one[both] * two[both]).sum()) / square, float(both.sum())
    return min(max((found * many + 1) / (many - 3), 0.0), MEMORY_MAX)


def independent_days(days: int, errors: Series) -> float:
    """How many independent days would say as much as these."""
    memory = memory_of(errors)
    return max(days * (1 - memory) / (1 + memory), 2.0)
