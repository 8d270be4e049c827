"""Gaps that return: the period of a job's pauses by autocorrelation, minute by minute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Marks = NDArray[np.bool_]
SMOOTH = np.array([0.25, 0.5, 0.25])
"""Pauses come a minute early or late: a job counts steps, not minutes."""
FUNDAMENTAL = 0.85
"""The shortest lag that is nearly as good as the best one is the period; its multiples are as good."""
SPACING = 0.25
"""A pause is on time within this part of the period."""


@dataclass(frozen=True)
class Pattern:
    """Pauses that return: minutes from one to the next, how alike a period is to the one before (-1..1), how many pauses,
    and which minutes are in one. `last` is the last of these minutes, `excess` the part of all time they take.
    """

    period: int
    score: float
    pauses: int
    excess: float
    minutes: Marks
    last: int


def find(
    gap: Series,
    *,
    period_min: int,
    period_max: int,
    score_min: float,
    pauses_min: int,
    height_min: float,
    baseline_max: float,
    on_time_min: float,
    depth_min: float,
) -> Pattern | None:
    """The pattern of pauses in `gap`, the part of each minute in which nothing ran (NaN: not known); None without one.

    Pauses are minutes at least `height_min` above the median, which is at most `baseline_max`: work goes on between them.
    In those of three minutes and more nothing runs: `depth_min` of the minutes between their first and last one.
    The period is a local peak of the autocorrelation at `score_min` or above between `period_min` and `period_max`
    minutes, and `on_time_min` of the pauses follow each other by it.
    """
    known = np.isfinite(gap)
    if known.sum() < max(pauses_min * period_min, 2):
        return None
    baseline = float(np.median(gap[known]))
    excess = np.where(known, np.maximum(gap - baseline, 0.0), 0.0)
    marks = known & (gap >= baseline + height_min)
    if baseline > baseline_max or not marks.any():
        return None
    starts = _starts(marks)
    if len(starts) < pauses_min:
        return None
    inner = marks & np.append(False, marks[:-1]) & np.append(marks[1:], False)
    if inner.any() and float(np.median(gap[inner])) < depth_min:
        return None
    period, score = _period(np.where(marks, excess, 0.0), period_min, min(period_max, len(gap) // 2))
    if period is None or score < score_min:
        return None
    apart = np.diff(starts)
    cycles = np.maximum(np.rint(apart / period), 1)
    if np.mean((np.abs(apart - cycles * period) <= SPACING * period) & (cycles <= 2)) < on_time_min:
        return None
    last = int(np.flatnonzero(marks)[-1])
    return Pattern(period, score, len(starts), float(excess[marks].sum() / known.sum()), marks, last)


def _starts(marks: Marks) -> NDArray[Any]:
    """The first minute of each pause; one minute of work within it does not end it."""
    at = np.flatnonzero(marks)
    return at[np.concatenate(([True], np.diff(at) > 2))]


def _period(signal: Series, least: int, most: int) -> tuple[int | None, float]:
    """The lag at which the signal is most like itself, and how much: its autocorrelation there, by what overlaps."""
    smooth = np.convolve(signal, SMOOTH, mode="same")
    centred = smooth - smooth.mean()
    n = len(centred)
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size)) ** 2
    raw = np.fft.irfft(power, size)[:n]
    if raw[0] <= 0 or most < least:
        return None, 0.0
    r = raw / raw[0] * n / np.arange(n, 0, -1)
    lags = np.arange(least, most + 1)
    inner = r[lags]
    before = r[lags - 1]
    after = np.append(r, -1.0)[lags + 1]
    peaks = (inner >= before) & (inner >= after)
    best = float(inner[peaks].max()) if peaks.any() else 0.0
    if best <= 0:
        return None, 0.0
    first = lags[peaks & (inner >= FUNDAMENTAL * best)][0]
    return int(first), min(float(r[first]), 1.0)
