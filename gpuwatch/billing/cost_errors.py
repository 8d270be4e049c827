"""How far past forecasts of daily costs were off, and how far the next one may be."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from gpuwatch.billing.cost_series import WEEK, Places, Series, independent_days, level_of, memory_of, off_line

Z = 1.2816
"""Standard deviations of a normal distribution that cover 80 % of the cases."""
SPANS = (0.25, 0.5, 0.75, 1.0)
"""Lengths of past forecasts, in parts of the length asked for."""
RISE_MAX = 0.5
"""Errors of sums grow at most by this power of the length more than the memory of the days explains."""
FREE_MIN = 2.0
"""Errors that are counted as independent at least: fewer say nothing about their scatter."""


@dataclass(frozen=True)
class Model:
    """A level and its slope a day, from the newest `window` days; `part`: the probability of this model."""

    part: float
    level: float
    slope: float
    window: int
    trend: bool


def reach_of(costs: Series, weights: Series, model: Model, length: float) -> float:
    """The distance from a forecast of `length` days that four of five such sums stay within.

    From the errors of forecasts that the same model would have made on each past day. Long spans, of which there are few
    that do not overlap, lean on shorter ones: by how errors grow with the span, and by the memory of the days.
    """
    window, trend, known = model.window, model.trend, int(np.isfinite(costs).sum())
    errors = off_line(costs, weights, window) if trend else costs - level_of(costs, weights) * weights
    memory, many = memory_of(errors), independent_days(known, errors)
    most = max(1, min(round(length), len(costs) // 2))
    logs, spans, sure = [], [], []
    for span in sorted({max(1, round(most * part)) for part in SPANS}):
        levels, errors = past_errors(costs, weights, window, trend, span)
        if not len(errors):
            continue
        if trend and model.level > 0:
            errors = errors * np.clip(model.level / np.maximum(levels, model.level / 3), 1 / 3, 3)
        deviation = sqrt(float(np.mean(errors**2)))
        logs.append(log(max(deviation, 1e-9) / _shape(span, window, trend, memory)))
        spans.append(log(span))
        sure.append(len(errors) / most * (span / most))
    if not logs:
        return reach_of_few(costs, weights, length)
    middle, at = float(np.average(logs, weights=sure)), float(np.average(spans, weights=sure))
    scatter = float(np.average((np.array(spans) - at) ** 2, weights=sure))
    rise = float(np.average((np.array(spans) - at) * np.array(logs), weights=sure)) / scatter if scatter else 0.0
    grown = min(max(rise, 0.0), RISE_MAX) * max(log(length) - at, 0.0)
    deviation = exp(middle + grown) * _shape(length, window, trend, memory)
    free = max(many / most, FREE_MIN)
    return (Z + (Z**3 + Z) / (4 * free)) * deviation


def reach_of_few(costs: Series, weights: Series, length: float) -> float:
    """From the scatter of the known days, which are taken as independent."""
    known = np.isfinite(costs)
    errors = costs[known] - level_of(costs, weights) * weights[known]
    free = max(int(known.sum()) - (1 if np.allclose(weights, 1) else WEEK), 1)
    deviation = sqrt(float((errors**2).sum()) / free)
    return (Z + (Z**3 + Z) / (4 * free)) * deviation * sqrt(length + length**2 / int(known.sum()))


def span_error(costs: Series, weights: Series, window: int, trend: bool) -> float:
    """How far forecasts of two weeks were off, on average."""
    _, errors = past_errors(costs, weights, window, trend, 2 * WEEK)
    return sqrt(float(np.mean(errors**2))) if len(errors) else float("inf")


def past_errors(costs: Series, weights: Series, window: int, trend: bool, length: int) -> tuple[Series, Series]:
    """The level at each past day from which the next `length` days were forecast, and the error of their sum."""
    known = np.isfinite(costs)
    y, w, at = np.where(known, costs, 0.0), np.where(known, weights, 0.0), np.arange(len(costs), dtype=float)
    ends = np.arange(min(window, max(WEEK, len(costs) // 4)), len(costs) - length + 1)
    starts, last = np.maximum(ends - window, 0), ends - 1.0
    comes, coming = _sums(y, ends, ends + length), _sums(w, ends, ends + length)
    use = (_sums(w, starts, ends) > 0) & (_sums(known, ends, ends + length) > length / 2)
    use &= _sums(known, starts, ends) >= WEEK / 2
    if not trend:
        with np.errstate(divide="ignore", invalid="ignore"):
            level = _sums(y, starts, ends) / _sums(w, starts, ends)
        return level[use], (comes - level * coming)[use]
    # The line through days of weight w by its normal equations, with time counted from the last day.
    w0, w1, w2 = (_sums(w * w * at**power, starts, ends) for power in (0, 1, 2))
    w1, w2 = w1 - last * w0, w2 - 2 * last * w1 + last**2 * w0  # both from the unshifted sums
    y0, y1 = _sums(w * y, starts, ends), _sums(w * y * at, starts, ends)
    y1 = y1 - last * y0
    whole = w0 * w2 - w1**2
    use &= whole > 1e-9 * w0 * w2
    whole = np.where(use, whole, 1.0)
    level, slope = (w2 * y0 - w1 * y1) / whole, (w0 * y1 - w1 * y0) / whole
    steps = _sums(w * at, ends, ends + length) - last * coming
    return level[use], (comes - level * coming - slope * steps)[use]


def _sums(values: Series, starts: Places, ends: Places) -> Series:
    """Sums of the spans [start, end)."""
    sums = np.concatenate([np.zeros(1), np.cumsum(values)])
    return np.asarray(sums[ends] - sums[starts])


def _shape(length: float, window: int, trend: bool, memory: float) -> float:
    """How the error of a sum grows with its length: the errors of its days, and that of the level."""
    own = _sum_variance(length, memory)
    mean = length**2 * _sum_variance(window, memory) / window**2
    if trend:
        mean *= 1 + 12 * (window / 2 + length / 2) ** 2 / window**2
    return sqrt(own + mean)


def _sum_variance(length: float, memory: float) -> float:
    """The variance of the sum of days whose errors have this memory, in variances of a day."""
    if memory == 0:
        return float(length)
    far = memory * (1 - memory**length) / (1 - memory)
    return float(max(length + 2 * memory / (1 - memory) * (length - far / memory), length**2 * 1e-3))
