"""Jobs whose GPUs stop together at regular intervals, as for checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.advisor import periodic
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, lasting, register
from gpuwatch.store.database import Store

DEVICES_MAX = 8
"""Devices read per job: a gang stops together or not at all."""
DEVICES_AT_ONCE = 4096
"""Devices whose minutes of two days are in memory at a time: about half a gigabyte."""
MATRIX_MAX = 2_000_000  # minutes of all windows that are searched together: 16 MB
HOUR_MINUTES = HOUR_US // MINUTE_US
DAY_MINUTES = DAY_US // MINUTE_US

Column = NDArray[Any]


class Minutes(NamedTuple):
    """Minutes of jobs, sorted by job and minute: job, minute since 1970, mean and smallest gap of its devices, device count."""

    number: Column
    minute: Column
    gap: Column
    least_gap: Column
    devices: Column


class Windows(NamedTuple):
    """Windows of a day at most that end with an hour: job, most devices read at once, end, first row and the one after its last."""

    number: Column
    devices: Column
    end: Column
    first: Column
    last: Column


_HOUR = pa.schema(
    [
        ("number", pa.int64()),
        ("hour_us", pa.int64()),
        ("period_minutes", pa.float64()),
        ("duty_ratio", pa.float64()),
        ("autocorrelation", pa.float64()),
        ("pauses", pa.float64()),
        ("confidence", pa.float64()),
    ]
)
_MINUTE = pa.schema([("number", pa.int64()), ("hour_us", pa.int64()), ("minute", pa.int64())])
_NONE = (_HOUR.empty_table(), _MINUTE.empty_table())


def _often(e: Evidence) -> str:
    return f"every {lasting(e['period_minutes'], 'minutes')}, {100 * e['duty_ratio']:.0f} % of the time"


def _summary(e: Evidence) -> str:
    who = "One device stops" if e["devices"] == 1 else f"{count(e['devices'], 'device')} stop together"
    return f"{who} {_often(e)}: as for checkpoints."


def _remedy(e: Evidence) -> str:
    shorter = max(e["period_minutes"] * 0.01, 0.1)
    return (
        "Save asynchronously, or to storage that is fast enough: a pause of "
        f"{count(shorter * 60, 'second')} would cost 1 %. A model with Adam in mixed precision has about 16 bytes a parameter."
    )


def _severity(e: Evidence, hours: float) -> str:
    return "high" if e["duty_ratio"] >= 0.10 else "medium"


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes checkpoint_hour and checkpoint_minute: jobs that stop at regular times, by what the day before each hour shows.

    checkpoint_earlier has the pauses before the first hour in which a job was found to stop so: they made it known.
    """
    store.run("detectors/support/checkpoint_candidate", devices_max=DEVICES_MAX, **scope.sql_parameters())
    if scope.until_us - scope.since_us < DAY_US:
        store.run("detectors/support/checkpoint_pausing", **scope.sql_parameters())
    parts = -(-store.sql("select count(distinct device_id) from checkpoint_held")[0][0] // DEVICES_AT_ONCE)
    known = {n for (n,) in store.sql("select number from checkpoint_known where hour_us < $s", s=scope.since_us)}
    found, earlier = [_NONE], [_NONE[1]]
    for windows, minutes in _days(store, scope, parts):
        found.append(_found(windows, minutes, scope.parameters))
        first = _first(windows, found[-1][0], known)
        known.update(first.number.tolist())
        earlier.append(_found(first, minutes, scope.parameters, before=True)[1])
    hours, pauses = (pa.concat_tables([pair[place] for pair in found]) for place in (0, 1))
    with (
        store.view("checkpoint_hour_row", hours),
        store.view("checkpoint_minute_row", pauses),
        store.view("checkpoint_earlier_row", pa.concat_tables(earlier)),
    ):
        store.run("detectors/support/checkpoint_keep")


def _first(windows: Windows, hours: pa.Table, known: Collection[int]) -> Windows:
    """Of the jobs that were not known to stop at regular times, the first window that shows it."""
    found = dict[int, int]()
    for number, hour_us in zip(hours["number"].to_pylist(), hours["hour_us"].to_pylist(), strict=True):
        if number not in known:
            found[number] = min(found.get(number, hour_us), hour_us)
    ends = {number: hour_us // MINUTE_US + HOUR_MINUTES for number, hour_us in found.items()}
    pairs = zip(windows.number.tolist(), windows.end.tolist(), strict=True)
    chosen = np.array([ends.get(number) == end for number, end in pairs], bool)
    return Windows(*(column[chosen] for column in windows))


def _days(store: Store, scope: EvaluationScope, parts: int) -> Iterator[tuple[Windows, Minutes]]:
    """The windows of each evaluated day and their minutes; each minute is read once."""
    for part in range(parts):
        kept = None
        read_from_us = scope.since_us - DAY_US
        for since_us in range(scope.since_us, scope.until_us, DAY_US):
            until_us = min(since_us + DAY_US, scope.until_us)
            span = {"read_from_us": read_from_us, "read_until_us": until_us, "part": part, "parts": parts}
            minutes = _after(
                kept,
                store.table("detectors/support/checkpoint_minute", cluster=scope.cluster, **span),
                since_us - DAY_US,
            )
            yield _windows(minutes, since_us // MINUTE_US), minutes
            kept, read_from_us = minutes, until_us


def _after(kept: Minutes | None, table: pa.Table, from_us: int) -> Minutes:
    """What was read, sorted, with those minutes of its jobs that were read before and are needed still."""
    minutes = Minutes(*(table[name].to_numpy() for name in Minutes._fields))
    if kept is not None:
        needed = np.isin(kept.number, minutes.number) & (kept.minute >= from_us // MINUTE_US)
        minutes = Minutes(*(np.concatenate((old[needed], new)) for old, new in zip(kept, minutes, strict=True)))
    order = np.argsort(_place(minutes)(minutes.number, minutes.minute))
    return Minutes(*(column[order] for column in minutes))


def _place(minutes: Minutes) -> Callable[[Column, Column], Column]:
    """Numbers that sort as (job, minute) do, for minutes no more than a day before those there are."""
    least, most = (int(minutes.minute.min()), int(minutes.minute.max())) if len(minutes.minute) else (0, 0)
    return lambda number, minute: number * (most - least + 2 * DAY_MINUTES) + (minute - least)


def _windows(minutes: Minutes, since: int) -> Windows:
    """The window of each hour from the minute `since` on in which a job has a minute: the day that ends with the hour."""
    if not len(minutes.number):
        return Windows(*(minutes.number,) * 5)
    hour = minutes.minute // HOUR_MINUTES
    new_job = np.append(True, np.diff(minutes.number) != 0)
    devices = np.maximum.reduceat(minutes.devices, np.flatnonzero(new_job))[np.cumsum(new_job) - 1]
    last = np.flatnonzero(np.append(new_job[1:] | (np.diff(hour) != 0), True))
    last = last[minutes.minute[last] >= since]
    number, end = minutes.number[last], (hour[last] + 1) * HOUR_MINUTES
    place = _place(minutes)
    first = np.searchsorted(place(minutes.number, minutes.minute), place(number, end - DAY_MINUTES))
    return Windows(number, devices[last], end, first, last + 1)


def _found(windows: Windows, minutes: Minutes, p: Mapping[str, Any], before: bool = False) -> tuple[pa.Table, pa.Table]:
    """Rows of checkpoint_hour and checkpoint_minute: windows that have a pattern, and their pauses in their last hour, or `before` it."""
    enough = windows.last - windows.first >= p["pauses_min"] * p["period_least_us"] // MINUTE_US
    windows = Windows(*(column[enough] for column in windows))
    span = minutes.minute[windows.last - 1] - minutes.minute[windows.first] + 1
    order = np.argsort(span, kind="stable")
    hours, pauses, start = [_NONE[0]], [_NONE[1]], 0
    while start < len(order):
        # Windows of about one length, as many as fit: the longest of them is the width of all.
        fit = np.arange(1, len(order) - start + 1) * span[order[start:]] <= MATRIX_MAX
        some = order[start : start + max(int(fit.sum()), 1)]
        start += len(some)
        hour, pause = _searched(Windows(*(column[some] for column in windows)), span[some], minutes, p, before)
        hours.append(hour)
        pauses.append(pause)
    return pa.concat_tables(hours), pa.concat_tables(pauses)


def _searched(
    w: Windows, span: Column, minutes: Minutes, p: Mapping[str, Any], before: bool
) -> tuple[pa.Table, pa.Table]:
    """The same of windows that are searched together."""
    begin, alone = minutes.minute[w.first], w.devices == 1
    pattern = periodic.find(
        _matrix(minutes.gap, w, span, minutes),
        span,
        np.where(alone, p["pauses_alone_min"], p["pauses_min"]),
        np.where(alone, p["pauses_alone_many"], p["pauses_many"]),
        period_min=int(p["period_least_us"] // MINUTE_US),
        period_max=int(p["period_most_us"] // MINUTE_US),
        score_min=p["autocorrelation_min"],
        score_few_min=p["autocorrelation_few_min"],
        height_min=p["height_min"],
        baseline_max=p["baseline_max"],
        on_time_min=p["on_time_min"],
        depth_min=p["depth_min"],
        irregular_ratio=p["irregular_ratio"],
        chance_max=p["chance_max"],
    )
    row = pattern.row
    mine = Windows(*(column[row] for column in w))
    gap, least = (
        np.where(pattern.minutes, _matrix(column, mine, span, minutes), 0.0).sum(axis=1)
        for column in (minutes.gap, minutes.least_gap)
    )
    # Once the next pause would have come the pattern has ended.
    overdue = begin[row] + pattern.last < minutes.minute[mine.last - 1] - p["overdue_ratio"] * pattern.period
    duty = (pattern.excess >= p["duty_ratio_min"]) & (pattern.excess <= p["duty_ratio_max"])
    keep = np.flatnonzero(~overdue & duty & (least >= p["together_min"] * gap))
    number, end = mine.number[keep], mine.end[keep]
    place, offset = np.nonzero(pattern.minutes[keep])
    minute = begin[row][keep][place] + offset
    within = (minute >= end[place] - HOUR_MINUTES) != before
    hour_us = (end - HOUR_MINUTES) * MINUTE_US
    return (
        pa.table(
            [
                number,
                hour_us,
                pattern.period[keep].astype(float),
                pattern.excess[keep],
                pattern.score[keep],
                pattern.pauses[keep].astype(float),
                np.where(pattern.score[keep] >= 0.7, 0.9, 0.75),
            ],
            schema=_HOUR,
        ),
        pa.table([number[place][within], hour_us[place][within], minute[within]], schema=_MINUTE),
    )


def _matrix(values: Column, w: Windows, span: Column, minutes: Minutes) -> Column:
    """Values of each window by the minute since its first; NaN where there is none."""
    rows, width = w.last - w.first, int(span.max(initial=1))
    matrix = np.full(len(rows) * width, np.nan)
    begins = np.arange(len(rows)) * width - minutes.minute[w.first]
    at = np.arange(rows.sum()) + np.repeat(w.first - np.cumsum(rows) + rows, rows)
    matrix[minutes.minute[at] + np.repeat(begins, rows)] = values[at]
    return matrix.reshape(len(rows), width)


CHECKPOINT_STALL = register(
    Rule(
        id="checkpoint-stall",
        title="GPUs wait for checkpoints",
        why="While a job writes its state to storage, all its GPUs are idle and paid for.",
        bucket="gap",
        layer="fabric",
        effort=DAYS,
        needs=("runs",),
        thresholds=(
            Threshold("period_least_us", 5 * MINUTE_US, "checkpoints come every 5 minutes to 6 hours"),
            Threshold("period_most_us", 6 * HOUR_US, "checkpoints come every 5 minutes to 6 hours"),
            Threshold("duty_ratio_min", 0.05, "pauses take 5 % of the time; 10 % is high"),
            Threshold("duty_ratio_max", 0.25, "a job that is idle for a quarter of the time waits for something else"),
            Threshold("autocorrelation_min", 0.6, "a period looks like the one before"),
            Threshold("autocorrelation_few_min", 0.7, "stricter for few pauses: some come on time by chance"),
            Threshold("pauses_min", 4, "three periods and the pause that began them"),
            Threshold(
                "pauses_alone_min", 6, "a job with one GPU has no others that stop with it, so more pauses are needed"
            ),
            Threshold("pauses_many", 8, "from this many pauses on, autocorrelation_min applies"),
            Threshold("pauses_alone_many", 10, "the same for a job with one GPU"),
            Threshold("on_time_min", 0.75, "three quarters of the pauses come on time"),
            Threshold("irregular_ratio", 0.3, "irregular steps differ from the period by up to 30 % of it"),
            Threshold("chance_max", 0.01, "irregular steps look this regular in one of a hundred cases"),
            Threshold("overdue_ratio", 1.5, "a pause that is half a period late: they have ended"),
            Threshold("height_min", 0.15, "a pause fills 15 % of a minute more than usual: 10 seconds"),
            Threshold("depth_min", 0.8, "within a pause of three minutes or more nothing runs"),
            Threshold("baseline_max", 0.3, "between pauses the GPUs work"),
            Threshold("together_min", 0.6, "the busiest GPU of the gang pauses 60 % as much as all on average"),
            Threshold("free_ratio", 0.01, "1 % of the time is not claimed: what a good checkpoint costs"),
            Threshold("gap_us_min", 30 * SECOND_US, "an hour with a smaller gap is not evaluated"),
            Threshold("still_us", 10 * MINUTE_US, "true within the last 10 known minutes counts as ongoing"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
        ),
        headline=lambda e: f"{{stops|stopped}} {count(e['devices'], 'GPU')} {_often(e)}, as for checkpoints",
        summary=_summary,
        remedy=_remedy,
        severity=_severity,
        look_back_us=DAY_US,
        measures={
            "devices": "max",
            "period_minutes": "last",
            "duty_ratio": "mean",
            "autocorrelation": "last",
            "pauses": "max",
        },
        prepare=prepare,
    )
)
