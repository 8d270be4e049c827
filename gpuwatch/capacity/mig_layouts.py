"""MIG layouts: what is partitioned how, what the last week asked for, and better layouts of unallocated GPUs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gpuwatch.capacity.free_state import Cluster
from gpuwatch.capacity.waiting_requests import waits
from gpuwatch.core.clock import DAY_US, HOUR_US, rfc3339
from gpuwatch.hardware.mig_packing import own_name
from gpuwatch.hardware.mig_plan import repartition
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import model_key
from gpuwatch.store.database import Store

WEEK_US = 7 * DAY_US

Row = dict[str, Any]


def layouts(store: Store, cluster: Cluster) -> list[Row]:
    """Other layouts of unallocated GPUs, by pool and model, tested against the demand of the week before."""
    until_us = cluster.as_of_us // HOUR_US * HOUR_US
    now, busy = current_layouts(store, cluster)
    if not now:
        return []
    demand, _ = week_demand(store, cluster.name, until_us - WEEK_US, until_us)
    found = []
    for (pool, model), gpus in sorted(now.items(), key=lambda one: (one[0][0] or "", one[0][1])):
        key = model_key(model) or ""
        known = {gpu: tuple(sorted(own(key, profile) for profile in layout)) for gpu, layout in gpus.items()}
        hours = [{own(key, name): us for name, us in hour.items()} for hour in demand[pool, model].values()]
        layout = repartition(key, known, [gpu for gpu in sorted(known) if gpu not in busy], hours, HOUR_US)
        found.append(
            {
                "cluster": cluster.name,
                "pool": pool,
                "gpu_model": model,
                "since": rfc3339(until_us - WEEK_US),
                "until": rfc3339(until_us),
                "changes": [{"gpu": gpu, "layout": list(old), "better": list(new)} for gpu, old, new in layout.changes],
                "served_ratio": ratio(layout.served_before, layout.wanted),
                "served_ratio_after": ratio(layout.served_after, layout.wanted),
            }
        )
    return found


def current_layouts(
    store: Store, cluster: Cluster
) -> tuple[dict[tuple[str | None, str], dict[str, list[str]]], set[str]]:
    """The profiles on each GPU by pool and model, and the GPUs of which a slice is allocated."""
    layouts: dict[tuple[str | None, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    busy: set[str] = set()
    for row in store.rows("capacity/mig_now", cluster=cluster.name, at_us=cluster.as_of_us):
        if row["model"] and row["profile"] and model_key(row["model"]):
            layouts[row["pool"], row["model"]][row["gpu"]].append(row["profile"])
            if row["busy"]:
                busy.add(row["gpu"])
    return layouts, busy


def week_demand(
    store: Store, cluster: str, from_us: int, until_us: int
) -> tuple[dict[tuple[str | None, str | None], dict[int, dict[str, int]]], dict[str | None, set[str]]]:
    """(pool, model) -> hour -> profile -> microseconds of instances that were held or waited for; and by pool the jobs that
    waited for an instance of it or of another pool or model: they count for none.
    """
    found: dict[Any, dict[int, dict[str, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    shared: dict[str | None, set[str]] = defaultdict(set)
    for row in store.rows("capacity/mig_week", cluster=cluster, from_us=from_us, until_us=until_us):
        if row["profile"]:
            found[row["pool"], row["model"]][row["hour_us"]][row["profile"]] += row["held_us"]
    for wait in waits(store, cluster, from_us, until_us):
        if wait.profile is None:
            continue
        # Where a request may use several pools or models, it is unknown which it would have got: it counts for none.
        if wait.models is None or len(wait.models) > 1 or len(wait.pools) > 1:
            for pool in wait.pools:
                shared[pool].add(wait.job_id)
        else:
            for hour_us in range(wait.start_us // HOUR_US * HOUR_US, wait.end_us, HOUR_US):
                part = min(wait.end_us, hour_us + HOUR_US) - max(wait.start_us, hour_us)
                found[wait.pools[0], wait.models[0]][hour_us][wait.profile] += part * wait.members
    return found, shared


def own(key: str, profile: str) -> str:
    return own_name(GEOMETRIES[key], profile) or profile


def ratio(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None
