"""What coming days cost, by every explanation of the days so far, each weighed by how well it would have forecast them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import erf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from gpuwatch.billing.cost_series import WEEK, Places, Series

Z = 1.2816
"""Standard deviations of a normal distribution that cover 80 % of the cases."""
PART_OUTSIDE = 0.1
"""Probability of a sum below the interval, and of one above it."""
INDEPENDENT, LASTING, WANDERING = 0.3, 0.3, 0.4
"""Probabilities, before the days are looked at, of errors that are independent, that fade, and of a level that wanders."""
ERRORS = ((0.4, 1.0), (0.7, 1.0), (0.7, 0.5), (0.9, 1.0), (0.9, 0.5))
"""The part of an error that is left a day later, and the part of the errors that fades so; the rest is independent."""
STEPS = (0.004, 0.02, 0.1, 0.6, 1e6)
"""Variances of the steps of a wandering level, in variances of the error of a day."""
TREND, TREND_DAYS_MIN = 0.4, 21
"""Probability of a trend, and the fewest known days for one."""
TREND_VARIANCE = 12.0
"""Of the change by a trend over the whole history, in variances of a day: as much as one day in that history shows."""
GROWTH_MAX = 0.05
"""Growth or decline of a day that is still a trend."""
GROWN_MAX = 3.0
"""Logarithm of how much larger or smaller a trend makes a day than the newest one."""
SHIFT, SHIFT_VARIANCE = 0.5, 25.0
"""Probability of a change of level that was noticed, and the variance of its size in variances of a day."""
PATTERN, PATTERN_VARIANCE = 0.8, 3.0
"""The same for a weekly pattern that a short history does not show."""
MOVING = 1.15
"""A level that moves on is less sure than one explanation says, whose steps and trend are taken as known: wider by this factor."""
FLOOR = 0.5
"""Errors of a weekday are taken as those of an average day times its factor, but not less than this."""
LEAST = 1e-3
"""Explanations less probable than this are left out."""
EXACT = 1e-12
"""Squared error of days that follow an explanation exactly, in squares of their costs."""

Kernels = NDArray[np.float64]
"""Covariances of days, a matrix for each explanation."""


@dataclass(frozen=True)
class History:
    """Known days at their places, with their costs and the factors of their weekdays; `shifts`: places where the level changed.

    `levels` are those of each day in parts of the present one. `estimated`: number of weekday factors that the costs gave.
    """

    at: Places
    costs: Series
    factors: Series
    levels: Series
    shifts: Sequence[int]
    estimated: float


@dataclass(frozen=True)
class Outlook:
    """The expected cost of each coming day, and the interval of their sum. `shifted`: probability that the level changed."""

    days: Series
    low: float
    high: float
    shifted: float


@dataclass(frozen=True)
class _Explanation:
    """A day costs `mean` times the level; its error has the scale `scale`; `more` is its covariance beyond that of errors."""

    probability: float
    scale: Series
    mean: Series
    more: Kernels | float = 0.0
    shifted: bool = False
    moving: bool = False


def outlook(history: History, ahead: Places, factors: Series, parts: Series) -> Outlook:
    """Of the days at the places `ahead` with the factors of their weekdays, each counted for its part."""
    known, places = len(history.at), np.concatenate([history.at, ahead])
    base, priors, moving = _kernels(places, known, history.estimated == 0)
    free = max(known - 1 - history.estimated, 2.0)
    likely, fitted = [], []
    for one in _explanations(history, ahead, factors):
        x, y = one.mean / one.scale, history.costs / one.scale[:known]
        kernels = base + _variance(base, known)[:, None, None] * one.more
        likely.append(log(one.probability) + priors + _likelihood(kernels[:, :known, :known], x[:known], y, one.scale))
        fitted.append((one, kernels, x, y))
    best = max(float(each.max()) for each in likely)
    total = sum(float(np.exp(each - best).sum()) for each in likely)
    days, means, deviations, weights, shifted = [], [], [], [], 0.0
    for each, (one, kernels, x, y) in zip(likely, fitted, strict=True):
        weight = np.exp(each - best) / total
        shifted += float(weight.sum()) * one.shifted
        keep = weight > LEAST
        if keep.any():
            day, variance = _coming(kernels[keep], x, y, one.scale[known:], parts, free)
            days.append(day)
            means.append(np.maximum(day @ parts, 0.0))
            deviations.append(np.sqrt(variance) * np.where(moving[keep] | one.moving, MOVING, 1.0))
            weights.append(weight[keep])
    part = np.concatenate(weights) / sum(float(weight.sum()) for weight in weights)
    # At the ends of an 80 % interval, Student's distribution is a normal one that is wider by this factor.
    wider = 1 + (Z**2 + 1) / (4 * free)
    low, high = _interval(np.concatenate(means), np.concatenate(deviations) * wider, part)
    return Outlook(np.maximum(part @ np.concatenate(days), 0.0), low, high, shifted)


def _kernels(places: Places, known: int, pattern: bool) -> tuple[Kernels, Series, NDArray[np.bool_]]:
    """How the errors of days go together, the logarithm of each one's probability, and whether the level wanders."""
    at = places.astype(float)
    apart, alone = np.abs(at[:, None] - at), np.eye(len(at))
    wander = np.minimum(at[:, None], at) - at[0]
    kernels, parts = [alone], [INDEPENDENT]
    for memory, fading in ERRORS:
        kernels.append(fading * memory**apart + (1 - fading) * alone)
        parts.append(LASTING / len(ERRORS))
    for step in STEPS:
        kernels.append((alone + step * wander) / (1 + step))
        parts.append(WANDERING / len(STEPS))
    found, logs = np.array(kernels), np.log(parts)
    moving = np.arange(len(parts)) > len(ERRORS)
    if not pattern:
        return found, logs, moving
    weekday, weekend = places % WEEK, places % WEEK >= WEEK - 2
    alike = ((weekday[:, None] == weekday) * 1.0 + (weekend[:, None] == weekend)) / 2
    weekly = found + PATTERN_VARIANCE * _variance(found, known)[:, None, None] * alike
    logs = np.concatenate([logs + log(1 - PATTERN), logs + log(PATTERN)])
    return np.concatenate([found, weekly]), logs, np.concatenate([moving, moving])


def _explanations(history: History, ahead: Places, factors: Series) -> Iterator[_Explanation]:
    """With and without the changes of level that were noticed; each without a trend, and with steady growth and a line about it."""
    places = np.concatenate([history.at, ahead])
    weekday = np.concatenate([history.factors, factors])
    own, known = np.maximum(weekday, FLOOR), len(history.at)
    since = (places - places[known - 1]).astype(float)
    present = np.concatenate([history.levels, np.ones(len(ahead))])
    trend = TREND if known >= TREND_DAYS_MIN else 0.0
    choices = [(SHIFT / known ** len(history.shifts), present, True)] if history.shifts else []
    choices.append((1 - SHIFT if history.shifts else 1.0, np.ones(len(places)), False))
    for probability, level, shifted in choices:
        scale, share = own * level, weekday / own
        steps: Kernels | float = 0.0
        for at in history.shifts if shifted else ():
            before = (places < at) * share
            steps = steps + SHIFT_VARIANCE * np.outer(before, before)
        yield _Explanation(probability * (1 - trend), scale, weekday * level, steps, shifted)
        if trend:
            rate = _growth(since[:known], history.costs / scale[:known], share[:known])
            grown = np.exp(np.clip(rate * since, -GROWN_MAX, GROWN_MAX))
            # Larger days vary more: their variance grows with their cost.
            root = np.sqrt(grown)
            line = np.outer(since * share * root, since * share * root) * TREND_VARIANCE / (since[0] - 1) ** 2
            yield _Explanation(probability * trend, scale * root, weekday * level * grown, steps + line, shifted, True)


def _growth(since: Series, costs: Series, share: Series) -> float:
    """The rate of growth a day that explains the costs best, where their variance grows with their level."""
    level, rate = log(max(float(costs.mean()), 1e-9)), 0.0
    for _ in range(8):
        middle = share * np.exp(np.clip(level + rate * since, -30, 30))
        off, off_later = float((costs - middle).sum()), float(((costs - middle) * since).sum())
        h0, h1, h2 = (float((middle * since**power).sum()) for power in range(3))
        whole = h0 * h2 - h1**2
        if whole <= EXACT * h0 * h2:
            break
        level += min(max((h2 * off - h1 * off_later) / whole, -1.0), 1.0)
        rate += min(max((h0 * off_later - h1 * off) / whole, -GROWTH_MAX), GROWTH_MAX)
    return min(max(rate, -GROWTH_MAX), GROWTH_MAX)


def _variance(kernels: Kernels, known: int) -> Series:
    """The mean variance of a known day."""
    return np.asarray(np.diagonal(kernels, axis1=1, axis2=2)[:, :known].mean(axis=1))


def _likelihood(kernels: Kernels, x: Series, y: Series, scale: Series) -> Series:
    """The logarithm of the likelihood of the costs, whatever the level and the size of the errors are."""
    known = len(y)
    sides = np.stack([x, y], axis=1)
    # The bottom rows of the factor of [[K, s], [s', big]] are s in units of independent errors.
    bordered = np.zeros((len(kernels), known + 2, known + 2))
    bordered[:, :known, :known] = kernels
    bordered[:, known:, :known] = sides.T
    bordered[:, range(known, known + 2), range(known, known + 2)] = 1e12 * (1 + (sides**2).sum())
    factor = np.linalg.cholesky(bordered)
    a, b = factor[:, known, :known], factor[:, known + 1, :known]
    square = (a * a).sum(axis=1)
    errors = b - ((a * b).sum(axis=1) / square)[:, None] * a
    squares = (errors**2).sum(axis=1) + EXACT * float((y**2).sum())
    volume = np.log(np.diagonal(factor, axis1=1, axis2=2)[:, :known]).sum(axis=1)
    return np.asarray(
        -volume - np.log(square) / 2 - (known - 1) / 2 * np.log(squares) - float(np.log(scale[:known]).sum())
    )


def _coming(kernels: Kernels, x: Series, y: Series, scale: Series, parts: Series, free: float) -> tuple[Series, Series]:
    """By explanation: the expected cost of each coming day, and the variance of the sum of their parts."""
    known, weights = len(y), parts * scale
    across = kernels[:, :known, known:]
    sides = np.concatenate(
        [np.broadcast_to(np.stack([x[:known], y], axis=1), (len(kernels), known, 2)), across @ weights[:, None]], axis=2
    )
    solved = np.linalg.solve(kernels[:, :known, :known], sides)
    x_, y_, sum_ = solved[:, :, 0], solved[:, :, 1], solved[:, :, 2]
    square = x_ @ x[:known]
    level = (x_ @ y) / square
    left = y_ - level[:, None] * x_
    squares = left @ y + EXACT * float((y**2).sum())
    days = (level[:, None] * x[known:] + np.einsum("ijk,ij->ik", across, left)) * scale
    own = np.einsum("j,ijk,k->i", weights, kernels[:, known:, known:], weights)
    explained = np.einsum("ij,ij->i", sides[:, :, 2], sum_)
    unsure = float(weights @ x[known:]) - sum_ @ x[:known]
    return days, np.maximum(squares, 0.0) / free * (np.maximum(own - explained, 0.0) + unsure**2 / square)


def _interval(means: Series, deviations: Series, parts: Series) -> tuple[float, float]:
    """The sums that a mixture of normal distributions exceeds, and undercuts, in one of ten cases."""
    deviations = np.maximum(deviations, 1e-9)
    each = list(zip(means.tolist(), deviations.tolist(), parts.tolist(), strict=True))
    ends = []
    for part in (PART_OUTSIDE, 1 - PART_OUTSIDE):
        low, high = float((means - 9 * deviations).min()), float((means + 9 * deviations).max())
        for _ in range(40):
            middle = (low + high) / 2
            below = sum(share * (1 + erf((middle - mean) / deviation / sqrt(2))) / 2 for mean, deviation, share in each)
            low, high = (middle, high) if below < part else (low, middle)
        ends.append((low + high) / 2)
    return ends[0], ends[1]
