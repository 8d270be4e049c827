"""The evidence of a finding or a job over time, in few enough points to draw."""

from __future__ import annotations

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
)  # fmt: skip
DIGITS = 6
"""Digits that matter: the store's means are 32-bit."""

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
    return _series(
        store,
        row["cluster"],
        row["job_id"],
        row["started_us"],
        row["last_seen_us"],
        row["device_ids"],
        None,
        thresholds(row["detector"], row["rule_version"]),
    )


def of_job(store: Store, cluster: str, job_id: str, teams: Collection[str] | None = None) -> dict[str, Any] | None:
    """What all devices of a job did over its life; None if the job is unknown. `teams`: only runs of these."""
    listed = None if teams is None else list(teams)
    rows = store.rows("jobs/span", cluster=cluster, job_id=job_id, teams=listed)
    if not rows:
        return None
    return _series(store, cluster, job_id, rows[0]["start_us"], rows[0]["end_us"], None, listed, {})


def step_us(length_us: int) -> int:
    """The finest step that draws `length_us` in POINTS_MAX points, with one to spare at either end."""
    least = -(-length_us // (POINTS_MAX - 2))
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
    job_id: str,
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
