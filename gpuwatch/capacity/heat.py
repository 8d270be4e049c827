"""GPUs over time: use, memory, power, temperature and health by the hour, and what is known of one GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.store.database import Store

MEASURES = (
    "gr_engine_ratio", "sm_active_ratio", "fb_used_gib", "power_watts", "gpu_temp_celsius", "health",
)  # fmt: skip
"""What a cell may show. `health`: 0 good, 1 an XID or a pending row remap, 2 an uncorrected memory error."""
HELD = "held_ratio"
STEPS_MAX = 200
STEPS_US = (*(hours * HOUR_US for hours in (1, 2, 3, 6, 12)), DAY_US)
WINDOW_US_MAX = STEPS_MAX * DAY_US
OWNERS_MAX, FINDINGS_MAX = 200, 50
DIGITS = 4

Row = dict[str, Any]
Place = tuple[str, str, int, str]
"""Cluster, node, index and UUID: GPUs are listed in this order."""


def gpus(
    store: Store,
    window: Window,
    *,
    cluster: str | None = None,
    pool: str | None = None,
    gpu: str | None = None,
    q: str | None = None,
    after: Place | None = None,
    limit: int,
) -> list[Row]:
    """GPUs with their facts and the faults that they reported in the window, those after `after`."""
    place = after or (None, None, None, None)
    rows = store.rows(
        "capacity/gpu_facts",
        cluster=cluster,
        pool=pool,
        gpu=gpu,
        q=(q or "").strip().lower() or None,
        start_us=window.start_us,
        end_us=window.end_us,
        limit=limit,
        **dict(zip(("after_cluster", "after_node", "after_index", "after_gpu"), place, strict=True)),
    )
    return [_facts(row) for row in rows]


def place_of(fact: Row) -> Place:
    """Where a GPU is in the order of `gpus`."""
    index = fact["gpu_index"]
    return fact["cluster"], fact["node"] or "", -1 if index is None else index, fact["gpu"]


def heat(store: Store, window: Window, facts: Sequence[Row], measures: Sequence[str]) -> Row:
    """For each GPU of `facts`, in their order, its values by step. None: no reading; `held_ratio` tells free from unmeasured.

    `estimated`: for each GPU, whether which GPU of its node a job held is estimated in a step.
    """
    step_us = step_of(window)
    start_us, end_us = window.start_us // HOUR_US * HOUR_US, -(-window.end_us // HOUR_US) * HOUR_US
    times = list(range(start_us, end_us, step_us))
    names = (*measures, HELD)
    by_cluster: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        by_cluster[fact["cluster"]].append(fact["gpu"])
    cells: dict[tuple[str, str], dict[str, list[float | None]]] = {}
    guessed: set[tuple[str, str]] = set()
    for cluster, listed in by_cluster.items():
        table = store.table(
            "capacity/heat", cluster=cluster, gpus=listed, start_us=start_us, end_us=end_us, step_us=step_us
        )
        columns = {name: table.column(name).to_pylist() for name in ("gpu", "at_us", "estimated", *names)}
        guessed |= {(cluster, gpu) for gpu, one in zip(columns["gpu"], columns["estimated"], strict=True) if one}
        for row, (gpu, at_us) in enumerate(zip(columns["gpu"], columns["at_us"], strict=True)):
            cell = cells.setdefault((cluster, gpu), {name: [None] * len(times) for name in names})
            for name in names:
                value = columns[name][row]
                cell[name][(at_us - start_us) // step_us] = None if value is None else round(float(value), DIGITS)
    empty = {name: [None] * len(times) for name in names}
    return {
        "step_s": step_us // SECOND_US,
        "times": [rfc3339(at_us) for at_us in times],
        "values": [cells.get((fact["cluster"], fact["gpu"]), empty) for fact in facts],
        "estimated": [(fact["cluster"], fact["gpu"]) in guessed for fact in facts],
    }


def step_of(window: Window) -> int:
    """The finest step of whole hours that covers the window in at most STEPS_MAX steps."""
    least = -(-(window.end_us - window.start_us) // STEPS_MAX)
    return next((step for step in STEPS_US if step >= least), -(-least // DAY_US) * DAY_US)


def history(store: Store, cluster: str, gpu: str, window: Window) -> Row:
    """Who held a GPU in the window, and the keys of the findings about it, from any time."""
    known = {"cluster": cluster, "gpu": gpu}
    owners = store.rows("capacity/gpu_owner", **known, start_us=window.start_us, end_us=window.end_us, limit=OWNERS_MAX)
    keys = [row["key"] for row in store.rows("capacity/gpu_finding", **known, limit=FINDINGS_MAX)]
    return {"owners": [_owner(row) for row in owners], "findings": keys}


def _owner(row: Mapping[str, Any]) -> Row:
    return {
        "started_at": rfc3339(row["start_us"]),
        "ended_at": rfc3339(row["end_us"]),
        "slice": None if row["gi"] < 0 else f"GI-{row['gi']}",
        "profile": row["profile"],
        "job": row["job_id"],
        "name": row["name"],
        "user": row["user_name"],
        "team": row["team"],
    }


def _facts(row: Mapping[str, Any]) -> Row:
    times = {name: None if row[f"{name}_us"] is None else rfc3339(row[f"{name}_us"]) for name in ("first", "last")}
    rest = {name: value for name, value in row.items() if name not in ("first_us", "last_us")}
    return {**rest, "first_at": times["first"], "last_at": times["last"]}
