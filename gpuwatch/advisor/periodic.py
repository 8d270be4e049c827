"""Gaps that return: the period of a job's pauses by autocorrelation, minute by minute, for many jobs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Marks = NDArray[np.bool_]
Counts = NDArray[np.int64]
SMOOTH = (0.25, 0.5, 0.25)
"""Pauses come a minute early or late: a job counts steps, not minutes."""
FUNDAMENTAL = 0.85
"""The shortest lag that is nearly as good as the best one is the period; its multiples are as good."""
SPACING = 0.15
"""A pause is on time within this part of the period, or within a minute."""
CLOSE_SPACING = 0.1
"""The same where the pauses are few."""
STEADY = 0.85
"""This part of many steps on time is a period without autocorrelation: each may come early or late by itself."""
STEADY_PAUSES = 6
"""So many pauses at least show a period by their times alone: fewer come on time by chance."""


@dataclass(frozen=True)
class Patterns:
    """Pauses that return, a row a window that has them.

    `row` is its place among those asked; then minutes from one pause to the next, how alike a period is to the one before
    (-1..1), how many pauses there are, the part of all known time they take, which minutes are in one, and the last of these.
    """

    row: Counts
    period: Counts
    score: Series
    pauses: Counts
    excess: Series
    minutes: Marks
    last: Counts


def find(
    gap: Series,
    length: Counts,
    pauses_min: Counts,
    pauses_many: Counts,
    *,
    period_min: int,
    period_max: int,
    score_min: float,
    score_few_min: float,
    height_min: float,
    baseline_max: float,
    on_time_min: float,
    depth_min: float,
    irregular_ratio: float,
    chance_max: float,
) -> Patterns:
    """The patterns of pauses in the rows of `gap`, the part of each minute in which nothing ran (NaN: not known).

    A row is a window of `length` minutes, NaN after them. Pauses are minutes at least `height_min` above the median, which
    is at most `baseline_max`: work goes on between them. There are `pauses_min` of them or more. In those of three minutes
    and more nothing runs: `depth_min` of the minutes between their first and last one. The period is a local peak of the
    autocorrelation at `score_min` or above (of fewer than `pauses_many` pauses `score_few_min`: few come on time by chance)
    between `period_min` and `period_max` minutes, and `on_time_min` of the pauses follow each other by it. Steps that differ from
    it by up to `irregular_ratio` of it would look this regular with a probability of `chance_max` at most.
    """
    known = np.isfinite(gap).sum(axis=1)
    row = np.flatnonzero(known >= np.maximum(pauses_min * period_min, 2))
    gap, known = gap[row], known[row]
    baseline = _medians(gap, known)
    marks = gap >= (baseline + height_min)[:, None]
    starts = _starts(marks)
    pauses = starts.sum(axis=1)
    keep = (baseline <= baseline_max) & (pauses >= pauses_min[row])
    row, gap, known, baseline, marks, starts, pauses = _only(keep, row, gap, known, baseline, marks, starts, pauses)
    inner = marks.copy()
    inner[:, 1:] &= marks[:, :-1]
    inner[:, :-1] &= marks[:, 1:]
    inner[:, [0, -1]] = False
    count = inner.sum(axis=1)
    keep = (count == 0) | (_medians(np.where(inner, gap, np.nan), count) >= depth_min)
    row, gap, known, baseline, marks, starts, pauses = _only(keep, row, gap, known, baseline, marks, starts, pauses)
    excess = np.where(marks, gap - baseline[:, None], 0.0)
    period, score = _periods(excess, length[row], period_min, period_max)
    few = pauses < pauses_many[row]
    alike = (period > 0) & (score >= np.where(few, score_few_min, score_min))
    spacing = np.where(few, CLOSE_SPACING, SPACING)
    alike &= _on_time(starts, period, spacing) >= np.where(few, 1.0, on_time_min)
    step = _median_steps(starts)
    steady = _on_time(starts, step, spacing) >= np.where(few, 1.0, STEADY)
    steady &= (step >= period_min) & (step <= period_max) & (pauses >= STEADY_PAUSES)
    period = np.where(alike, period, step)
    keep = (alike | steady) & (_chance(starts, period, on_time_min, irregular_ratio) <= chance_max)
    row, known, marks, pauses, excess, period, score = _only(keep, row, known, marks, pauses, excess, period, score)
    last = marks.shape[1] - 1 - marks[:, ::-1].argmax(axis=1)
    return Patterns(row, period, score, pauses, excess.sum(axis=1) / known, marks, last)


def _only(keep: Marks, *columns: NDArray[Any]) -> list[NDArray[Any]]:
    return [column[keep] for column in columns]


def _medians(values: Series, count: Counts) -> Series:
    """The median of each row's `count` values that are not NaN; NaN of none."""
    if not values.size:
        return np.full(len(values), np.nan)
    ordered = np.sort(values, axis=1)
    rows = np.arange(len(values))
    lower: Series = ordered[rows, np.maximum(count - 1, 0) // 2]
    upper: Series = ordered[rows, np.minimum(count // 2, values.shape[1] - 1)]
    return (lower + upper) / 2


def _starts(marks: Marks) -> Marks:
    """The first minute of each pause; one minute of work within it does not end it."""
    starts = marks.copy()
    starts[:, 1:] &= ~marks[:, :-1]
    starts[:, 2:] &= ~marks[:, :-2]
    return starts


def _periods(signal: Series, length: Counts, least: int, most: int) -> tuple[Counts, Series]:
    """The lag at which each row is most like itself, and how much: its autocorrelation there, by what overlaps; 0 of none."""
    rows, width = signal.shape
    period, score = np.zeros(rows, np.int64), np.zeros(rows)
    lags = np.arange(least, min(most, width // 2) + 1)
    if not rows or not len(lags):
        return period, score
    smooth = SMOOTH[1] * signal
    smooth[:, 1:] += SMOOTH[0] * signal[:, :-1]
    smooth[:, :-1] += SMOOTH[2] * signal[:, 1:]
    inside = np.arange(width) < length[:, None]
    smooth = np.where(inside, smooth, 0.0)
    centred = np.where(inside, smooth - (smooth.sum(axis=1) / length)[:, None], 0.0)
    size = 1 << (2 * width - 1).bit_length()
    raw = np.fft.irfft(np.abs(np.fft.rfft(centred, size)) ** 2, size)[:, : lags[-1] + 2]
    varies = raw[:, 0] > 0
    raw, length = raw[varies], length[varies]
    overlap = np.maximum(length[:, None] - np.arange(raw.shape[1]), 1)
    r = raw / raw[:, :1] * length[:, None] / overlap
    inner = r[:, least : lags[-1] + 1]
    peaks = (inner >= r[:, least - 1 : lags[-1]]) & (inner >= r[:, least + 1 : lags[-1] + 2])
    peaks &= lags <= (length // 2)[:, None]
    best = np.where(peaks, inner, 0.0).max(axis=1)
    first = (peaks & (inner >= FUNDAMENTAL * best[:, None])).argmax(axis=1)
    found = best > 0
    period[varies] = np.where(found, lags[first], 0)
    score[varies] = np.where(found, np.minimum(inner[np.arange(len(inner)), first], 1.0), 0.0)
    return period, score


def _median_steps(starts: Marks) -> Counts:
    """The median of each row's minutes from pause to pause; 0 of a row with fewer than two pauses."""
    row, minute = np.nonzero(starts)
    same = row[1:] == row[:-1]
    row, apart = row[1:][same], np.diff(minute)[same]
    order = np.lexsort((apart, row))
    steps = np.bincount(row, minlength=len(starts))
    middle = np.cumsum(steps) - steps + steps // 2
    median = np.zeros(len(starts), np.int64)
    median[steps > 0] = apart[order][middle[steps > 0]]
    return median


def _on_time(starts: Marks, period: Counts, spacing: Series) -> Series:
    """The part of each row's steps from pause to pause that are one period, or two, long."""
    row, off, cycles = _deviations(starts, period)
    good = (off <= np.maximum(spacing[row] * np.maximum(period[row], 1), 1)) & (cycles <= 2)
    steps = np.bincount(row, minlength=len(period))
    return np.bincount(row, good, minlength=len(period)) / np.maximum(steps, 1)


def _deviations(starts: Marks, period: Counts) -> tuple[Counts, Counts, Series]:
    """Of each step from pause to pause: its row, by how many minutes it is off, and the number of periods that it is long."""
    row, minute = np.nonzero(starts)
    same = row[1:] == row[:-1]
    row, apart = row[1:][same], np.diff(minute)[same]
    mine = np.maximum(period[row], 1)
    cycles = np.maximum(np.rint(apart / mine), 1)
    return row, np.abs(apart - cycles * mine).astype(np.int64), cycles


def _chance(starts: Marks, period: Counts, on_time_min: float, irregular_ratio: float) -> Series:
    """An upper bound on the probability that irregular steps are as close to the period as each row's steps are.

    An irregular step is off by any number of minutes up to `irregular_ratio` of the period, each equally likely. For every k
    from `on_time_min` of the n steps to all of them, Chernoff's bound limits the probability that k irregular steps of n are as
    close as the k closest here. One step is not counted, since the period is fitted to the steps. The result is the smallest of
    these bounds times their number.
    """
    row, off, cycles = _deviations(starts, period)
    off = np.where(cycles <= 2, off, np.maximum(period[row], off))
    order = np.lexsort((off, row))
    row, off = row[order], off[order]
    steps = np.bincount(row, minlength=len(period))
    closest = np.arange(len(row)) - (np.cumsum(steps) - steps)[row] + 1
    tried = (closest >= on_time_min * steps[row]) & (steps[row] > 1)
    row, off, closest, n = row[tried], off[tried], closest[tried], steps[row][tried]
    by_chance = np.minimum((2 * off + 1) / (2 * irregular_ratio * period[row] + 1), 1.0)
    share = np.maximum((closest - 1) / (n - 1), by_chance)
    rest = np.where(share < 1, (1 - share) / np.where(share < 1, 1 - by_chance, 1), 1)
    bound = np.exp(-(n - 1) * (share * np.log(share / by_chance) + (1 - share) * np.log(rest)))
    smallest = np.ones(len(period))
    np.minimum.at(smallest, row, bound)
    return smallest * np.maximum(np.bincount(row, minlength=len(period)), 1)
