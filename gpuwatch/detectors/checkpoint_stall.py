"""Jobs whose GPUs stop together at regular times, as for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from gpuwatch import periodic
from gpuwatch.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US
from gpuwatch.detectors.rule import Asked, Evidence, Rule, Threshold, count, register
from gpuwatch.store import Store

DEVICES_MAX = 8
"""Devices of a job whose minutes are read: a gang stops together or not at all."""
HOUR_MINUTES = HOUR_US // MINUTE_US

_HOUR = pa.schema(
    [
        ("chain", pa.string()),
        ("hour_us", pa.int64()),
        ("period_minutes", pa.float64()),
        ("duty_ratio", pa.float64()),
        ("autocorrelation", pa.float64()),
        ("pauses", pa.float64()),
        ("confidence", pa.float64()),
    ]
)
_MINUTE = pa.schema([("chain", pa.string()), ("hour_us", pa.int64()), ("minute", pa.int64())])


def _summary(e: Evidence) -> str:
    who = "One device stops" if e["devices"] == 1 else f"{count(e['devices'], 'device')} stop together"
    return (
        f"{who} every {count(e['period_minutes'], 'minute')}, "
        f"{100 * e['duty_ratio']:.0f} % of the time: as for checkpoints."
    )


def _remedy(e: Evidence) -> str:
    shorter = max(e["period_minutes"] * 0.01, 0.1)
    return (
        "Save asynchronously, or to storage that is fast enough: a pause of "
        f"{count(shorter * 60, 'second')} would cost 1 %. A model with Adam in mixed precision has about 16 bytes a parameter."
    )


def _severity(e: Evidence, hours: float) -> str:
    return "high" if e["duty_ratio"] >= 0.10 else "medium"


def prepare(store: Store, asked: Asked) -> None:
    """Makes checkpoint_hour and checkpoint_minute: jobs that stop at regular times, by what the day before each hour shows.

    A day of hours at a time is read, with the look-back before it.
    """
    hours: list[dict[str, Any]] = []
    minutes: list[dict[str, Any]] = []
    for since_us in range(asked.since_us, asked.until_us, DAY_US):
        until_us = min(since_us + DAY_US, asked.until_us)
        span = asked.named() | {"since_us": since_us, "until_us": until_us, "from_us": since_us - DAY_US}
        store.run("checkpoint/candidate", **span)
        if not store.sql("select count(*) from checkpoint_candidate")[0][0]:
            continue
        read = {"read_from_us": since_us - DAY_US, "read_until_us": until_us, "devices_max": DEVICES_MAX}
        table = store.table("checkpoint/minute", **span, **read)
        for chain, columns in _chains(table):
            for hour_us in range(since_us, until_us, HOUR_US):
                _judge_hour(chain, hour_us, columns, asked.parameters, hours, minutes)
    with (
        store.view("checkpoint_hour_row", pa.Table.from_pylist(hours, schema=_HOUR)),
        store.view("checkpoint_minute_row", pa.Table.from_pylist(minutes, schema=_MINUTE)),
    ):
        store.run("checkpoint/keep")


def _chains(table: pa.Table) -> Iterator[tuple[str, list[Any]]]:
    """Each chain of a table that is sorted by chain and minute: its minutes, gaps, least gaps and devices."""
    names = table["chain"].to_numpy(zero_copy_only=False)
    columns = [table[name].to_numpy() for name in ("minute", "gap", "least_gap", "devices")]
    edges: list[int] = np.flatnonzero(np.append(True, names[1:] != names[:-1])).tolist() if len(names) else []
    for first, last in zip(edges, [*edges[1:], len(names)], strict=True):
        yield str(names[first]), [column[first:last] for column in columns]


def _judge_hour(
    chain: str,
    hour_us: int,
    columns: list[Any],
    p: Mapping[str, Any],
    hours: list[dict[str, Any]],
    minutes: list[dict[str, Any]],
) -> None:
    """Adds the hour to `hours`, and its minutes of pauses to `minutes`, where the day that ends with it has a pattern."""
    at, gap, least, devices = columns
    end = (hour_us + HOUR_US) // MINUTE_US
    first, last = np.searchsorted(at, [end - DAY_US // MINUTE_US, end])
    if last - first < p["pauses_min"] * p["period_least_us"] // MINUTE_US or at[last - 1] < end - HOUR_MINUTES:
        return
    begin = int(at[first])
    alone = int(devices[first:last].max()) == 1
    series = np.full(int(at[last - 1]) - begin + 1, np.nan)
    series[at[first:last] - begin] = gap[first:last]
    pattern = periodic.find(
        series,
        period_min=int(p["period_least_us"] // MINUTE_US),
        period_max=int(p["period_most_us"] // MINUTE_US),
        score_min=p["autocorrelation_min"],
        pauses_min=int(p["pauses_alone_min"] if alone else p["pauses_min"]),
        height_min=p["height_min"],
        baseline_max=p["baseline_max"],
        on_time_min=p["on_time_min"],
        depth_min=p["depth_min"],
    )
    # The next pause would have come: the pattern has ended.
    if pattern is None or begin + pattern.last < at[last - 1] - p["overdue_ratio"] * pattern.period:
        return
    paused = pattern.minutes[at[first:last] - begin]
    together = float(least[first:last][paused].sum() / gap[first:last][paused].sum())
    if not p["duty_ratio_min"] <= pattern.excess <= p["duty_ratio_max"] or together < p["together_min"]:
        return
    hours.append(
        {
            "chain": chain,
            "hour_us": hour_us,
            "period_minutes": float(pattern.period),
            "duty_ratio": pattern.excess,
            "autocorrelation": pattern.score,
            "pauses": float(pattern.pauses),
            "confidence": 0.9 if pattern.score >= 0.7 else 0.75,
        }
    )
    within = np.flatnonzero(pattern.minutes) + begin
    mine = within[(within >= end - HOUR_MINUTES) & (within < end)]
    minutes += [{"chain": chain, "hour_us": hour_us, "minute": int(minute)} for minute in mine]


CHECKPOINT_STALL = register(
    Rule(
        id="checkpoint-stall",
        title="GPUs wait for checkpoints",
        why="While a job writes its state to storage all its GPUs stand still, and are paid.",
        bucket="gap",
        thresholds=(
            Threshold("period_least_us", 5 * MINUTE_US, "checkpoints come every 5 minutes to 6 hours"),
            Threshold("period_most_us", 6 * HOUR_US, "checkpoints come every 5 minutes to 6 hours"),
            Threshold("duty_ratio_min", 0.05, "pauses take 5 % of the time; 10 % is high"),
            Threshold("duty_ratio_max", 0.25, "what stands still for a quarter of the time waits for something else"),
            Threshold("autocorrelation_min", 0.6, "a period looks like the one before"),
            Threshold("pauses_min", 4, "three periods and the pause that began them"),
            Threshold("pauses_alone_min", 6, "a job of one GPU has no others that stop with it: it takes more to tell"),
            Threshold("on_time_min", 0.75, "three quarters of the pauses come on time, within a quarter of the period"),
            Threshold("overdue_ratio", 1.5, "a pause that is half a period late: they have ended"),
            Threshold("height_min", 0.15, "a pause fills 15 % of a minute more than usual: 10 seconds"),
            Threshold("depth_min", 0.8, "within a pause of three minutes or more nothing runs"),
            Threshold("baseline_max", 0.3, "between pauses the GPUs work"),
            Threshold("together_min", 0.6, "the busiest GPU of the gang pauses 60 % as much as all on average"),
            Threshold("free_ratio", 0.01, "1 % of the time is not claimed: what a good checkpoint costs"),
            Threshold("gap_us_min", 30 * SECOND_US, "an hour with less is not looked at"),
            Threshold("still_us", 10 * MINUTE_US, "true of the last 10 minutes of what is known is true still"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
        ),
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
