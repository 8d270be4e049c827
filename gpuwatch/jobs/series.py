"""The evidence of a finding or a job over time, in few enough points to draw."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, rfc3339
from gpuwatch.store.database import Store

POINTS_MAX = 500
WINDOW_US = 5 * MINUTE_US
"""What the store keeps means of (device_window): the finest step."""
STEPS_US = (
    WINDOW_US,
    *(minutes * MINUTE_US for minutes in (10, 15, 30)),
    *(hours * HOUR_US for hours in (1, 2, 3, 6, 12)),
    DAY_US,
)
COLUMNS = (
    "gr_engine_ratio", "sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "dram_active_ratio",
    "fp_active_ratio", "gpu_util_ratio", "fb_used_bytes", "power_watts", "link_ratio", "pcie_bytes_per_s",
    "sm_clock_mhz", "gpu_temp_celsius",
)  # fmt: skip
DIGITS = 6
"""Digits that matter: the store's means are 32-bit."""

MEMBERS_MAX, MEMBER_POINTS_MAX = 32, 160
"""Devices that are drawn each for itself, and the points of each."""
HOURLY = ("samples", "fb_used_bytes", "gpu_temp_celsius", "pcie_lanes")
HOURLY_RULES = ("degraded-gpu", "memory-leak")
"""Their findings last while nobody holds the GPU."""
HOURS_BEFORE, HOURS_MAX = 12, 31 * 24
"""Hours drawn before a finding about GPUs that nobody held, and in all."""
BY_MEASURE = "by measure"
MEASURES = {"tensor": "tensor_active_ratio", "sm": "sm_active_ratio", "gr": "gr_engine_ratio"}
"""The column of a straggler's measure."""
MEMBERS = {
    "idle-hoarding": "gr_engine_ratio",
    "gang-partial": "gr_engine_ratio",
    "false-utilization": "sm_active_ratio",
    "small-batch": "sm_active_ratio",
    "mig-training": "gr_engine_ratio",
    "partial-island": "gr_engine_ratio",
    "topology-blind-placement": "link_ratio",
    "straggler": BY_MEASURE,
}
"""By rule the column in which the members of a job are compared."""
DRAWN = {"busy_ratio_min": "gr_engine_ratio", "network_bytes_per_s_min": "pcie_bytes_per_s"}
"""Thresholds that are lines through a column of another name."""
PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "false-utilization": {
        "tensor_active_max": ("roof_max", "tensor_roof"),
        "dram_active_max": ("memory_bound_min", "dram_roof"),
        "fp_active_max": ("roof_max",),
    }
}
"""By rule the lines that it draws at a part of a roof: the product of these thresholds."""


def of_finding(store: Store, key: str, teams: Collection[str] | None = None) -> dict[str, Any] | None:
    """What the devices of a finding did while it lasted, with the thresholds it was evaluated with.

    None if the finding is unknown or another team's.
    """
    rows = store.rows("jobs/series_finding", key=key, teams=None if teams is None else list(teams))
    if not rows:
        return None
    row = rows[0]
    listed = None if row["job_id"] is not None or teams is None else list(teams)
    whole = _series(
        store,
        row["cluster"],
        row["job_id"],
        row["started_us"],
        row["last_seen_us"],
        row["device_ids"],
        listed,
        thresholds(row["detector"], row["rule_version"]),
    )
    alone = row["job_id"] is None and row["device_ids"] and teams is None
    if alone and (not whole["columns"] or row["detector"] in HOURLY_RULES):
        whole = _hourly(store, row)
    return {**whole, "members": _members(store, row, listed)}


def _hourly(store: Store, row: Mapping[str, Any]) -> dict[str, Any]:
    """What GPUs that nobody held read, by the hour, from some hours before the finding."""
    start_us = (row["started_us"] // HOUR_US - HOURS_BEFORE) * HOUR_US
    end_us = min(-(-row["last_seen_us"] // HOUR_US) * HOUR_US, start_us + HOURS_MAX * HOUR_US)
    found = store.rows(
        "jobs/series_hour", cluster=row["cluster"], device_ids=row["device_ids"], start_us=start_us, end_us=end_us
    )
    by_hour = {one["hour_us"]: one for one in found}
    read = [name for name in HOURLY if any(one[name] is not None for one in found)]
    points = []
    for at_us in range(start_us, end_us, HOUR_US):
        one = by_hour.get(at_us, {})
        points.append({"at": rfc3339(at_us), **{name: one.get(name) for name in read}})
    return {"step_s": HOUR_US // SECOND_US, "columns": read, "points": points, "thresholds": {}}


def _members(store: Store, row: Mapping[str, Any], teams: list[str] | None) -> dict[str, Any] | None:
    """One column of each device of the finding and of its job: what shows that a member differs from the others."""
    column = MEMBERS.get(row["detector"])
    if column == BY_MEASURE:
        column = MEASURES.get(str(json.loads(row["evidence"] or "{}").get("measure")))
    if column is None:
        return None
    first_us, last_us = row["started_us"], max(row["last_seen_us"], row["started_us"] + 1)
    step = step_us(last_us - first_us, MEMBER_POINTS_MAX)
    start_us, end_us = first_us // step * step, -(-last_us // step) * step
    found = store.rows(
        "jobs/series_member",
        cluster=row["cluster"],
        job_id=row["job_id"],
        device_ids=row["device_ids"],
        start_us=start_us,
        end_us=end_us,
        step_us=step,
        column=column,
        teams=teams,
        members_max=MEMBERS_MAX,
    )
    times = range(start_us, end_us, step)
    items: dict[int, dict[str, Any]] = {}
    for one in found:
        known = {"device": one["device"], "node": one["node"], "is_subject": one["is_subject"]}
        item = items.setdefault(one["device_id"], {**known, "values": [None] * len(times)})
        if one["value"] is not None:
            item["values"][(one["at_us"] - start_us) // step] = float(f"{one['value']:.{DIGITS}g}")
    if not items:
        return None
    return {
        "column": column,
        "step_s": step // SECOND_US,
        "times": [rfc3339(at_us) for at_us in times],
        "items": list(items.values()),
    }


def of_job(store: Store, cluster: str, job_id: str, teams: Collection[str] | None = None) -> dict[str, Any] | None:
    """What all devices of a job did over its life; None if the job is unknown. `teams`: only runs of these."""
    listed = None if teams is None else list(teams)
    rows = store.rows("jobs/span", cluster=cluster, job_id=job_id, teams=listed)
    if not rows:
        return None
    return _series(store, cluster, job_id, rows[0]["start_us"], rows[0]["end_us"], None, listed, {})


def step_us(length_us: int, points: int = POINTS_MAX) -> int:
    """The finest step that draws `length_us` in that many points, with one to spare at either end."""
    least = -(-length_us // (points - 2))
    return next((step for step in STEPS_US if step >= least), -(-least // DAY_US) * DAY_US)


def thresholds(detector: str, version: str) -> dict[str, float]:
    """The thresholds of a finding that are lines through a column: `sm_active_max` is one through `sm_active_ratio`."""
    pairs = (part.partition("=") for part in version.split(",") if "=" in part)
    values = {name: float(value) for name, _, value in pairs}
    lines = {name: value for name, value in values.items() if name in DRAWN or _column(name) is not None}
    for line, names in PARTS.get(detector, {}).items():
        if all(name in values for name in names):
            lines[line] = round(prod(values[name] for name in names), DIGITS)
    return lines


def _column(threshold: str) -> str | None:
    """The column of `<column>_max`, `<column>_min` or either without `_ratio`."""
    stem = threshold.removesuffix("_min").removesuffix("_max")
    return next((name for name in (stem, f"{stem}_ratio") if stem != threshold and name in COLUMNS), None)


def _series(
    store: Store,
    cluster: str,
    job_id: str | None,
    first_us: int,
    last_us: int,
    device_ids: list[int] | None,
    teams: list[str] | None,
    lines: dict[str, float],
) -> dict[str, Any]:
    """Points from the step that holds `first_us` to the one that holds `last_us`; a column without readings is left out."""
    step = step_us(max(last_us - first_us, 1))
    start_us = first_us // step * step
    end_us = -(-max(last_us, first_us + 1) // step) * step
    rows = store.rows(
        "jobs/series",
        cluster=cluster,
        job_id=job_id,
        start_us=start_us,
        end_us=end_us,
        step_us=step,
        device_ids=device_ids,
        teams=teams,
    )
    read = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    return {
        "step_s": step // SECOND_US,
        "columns": read,
        "points": [_point(row, read) for row in rows],
        "thresholds": lines,
    }


def _point(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """One step: its means, None where there are none, and which part of the held time was sampled."""
    held_us = row["held_us"]
    coverage = None if not held_us else round(min((row["covered_us"] or 0) / held_us, 1.0), DIGITS)
    return {
        "at": rfc3339(row["at_us"]),
        **{name: None if row[name] is None else float(f"{row[name]:.{DIGITS}g}") for name in columns},
        "coverage": coverage,
        "devices": row["devices"] or 0,
    }
