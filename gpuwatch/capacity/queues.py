"""Queues with what waits and runs in them, from the schedulers' last records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median

from gpuwatch.capacity.heard import heard
from gpuwatch.capacity.waits import WAITING, WHY
from gpuwatch.capacity.workloads import (
    RECENT_US,
    Row,
    load_workloads,
    reason_code,
    seconds_between,
    time_of,
    why_code,
)
from gpuwatch.core.clock import SECOND_US
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology.node_fit import json_object

QUEUES_MAX = 50_000
DEPTH_MAX = 32
"""Queues above a queue."""
NAMED = frozenset({"user", "group"})
"""Kinds of rows about people, which only those people's teams may see."""
COUNTS_OTHERS = ("used", "borrowed", "pending", "running")
_PARENTS = {
    "local_queue": ("cluster_queue",),
    "cluster_queue": ("cohort",),
    "cohort": ("cohort",),
    "queue": ("queue", "partition"),
}

Key = tuple[str, str, str, str | None, str]
"""(cluster, scheduler, kind, namespace, name) of a queue."""


def queues(
    store: Store,
    state: State,
    at_us: int,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    bound: bool = False,
) -> list[Row]:
    """Queues as JSON has them, with what waits in each and below it, by cluster, scheduler, kind and name.

    Devices are counted by MIG profile, "" for whole GPUs; an unknown count is None, never 0. With `teams` only
    queues that workloads of these teams name, or that admitted them; waits are those of these workloads, and what may
    name others is left out. With `bound` what counts others is None: use, and numbers of workloads.
    """
    rows = store.rows("capacity/queue", cluster=cluster, at_us=at_us, limit=QUEUES_MAX)
    flavors: dict[Key, list[Row]] = defaultdict(list)
    shown = []
    for row in rows:
        if row["flavor"] is None or row["kind"] == "resource_flavor":
            shown.append(row)
        else:
            flavors[_key(row)].append(row)
    mine = [w for w in load_workloads(store, state, at_us, cluster, None) if teams is None or w["team"] in teams]
    inside, named = _placed(mine, {_key(row): row for row in shown})
    if teams is not None:
        shown = [row for row in shown if _key(row) in named and row["kind"] not in NAMED]
    ends = heard(store, at_us, cluster)
    found = [
        _queue(row, flavors[_key(row)], inside.get(_key(row), []), ends.get(row["cluster"], at_us), teams is not None)
        for row in shown
    ]
    return [_uncounted(item) for item in found] if bound else found


def _placed(workloads: Iterable[Row], index: Mapping[Key, Row]) -> tuple[dict[Key, list[Row]], set[Key]]:
    """The workloads in and below each queue, and the queues that workloads name or that admitted them."""
    inside: dict[Key, list[Row]] = defaultdict(list)
    named: set[Key] = set()
    for workload in workloads:
        path = _path(workload, index)
        named |= {*path[:1], *(key for key in path if key[4] == workload["cluster_queue"])}
        for key in path:
            inside[key].append(workload)
    return inside, named


def _path(workload: Row, index: Mapping[Key, Row]) -> list[Key]:
    """The queue that a workload names and those above it, the nearest first."""
    cluster, at = workload["cluster"], None
    for scheduler, namespace, name, above in workload["places"]:
        starts: list[Key] = []
        if name is not None:
            starts += [(cluster, scheduler, "local_queue", namespace, name), (cluster, scheduler, "queue", None, name)]
        if above is not None:
            starts.append((cluster, scheduler, "cluster_queue", None, above))
        at = at or next((key for key in starts if key in index), None)
    path: list[Key] = []
    while at is not None and at not in path and len(path) < DEPTH_MAX:
        path.append(at)
        parent = index[at]["parent"]
        kinds = _PARENTS.get(at[2], ()) if parent is not None else ()
        ups: list[Key] = [(cluster, at[1], kind, None, str(parent)) for kind in kinds]
        at = next((key for key in ups if key in index), None)
    return path


def _queue(row: Row, flavors: Sequence[Row], inside: Sequence[Row], at_us: int, bound: bool) -> Row:
    detail = json_object(row["detail"])
    item = {
        "cluster": row["cluster"],
        "scheduler": row["scheduler"],
        "kind": row["kind"],
        "name": row["name"],
        "namespace": row["namespace"],
        "parent": row["parent"],
        "state": row["state"],
        "priority": row["priority"],
        "weight": row["weight"],
        **_amounts(row),
        "pending": row["pending_count"],
        "running": row["running_count"],
        "waiting": _waiting(inside, at_us),
        "admission_wait_seconds": _admissions(inside, at_us),
        "evictions_day": sum(1 for w in inside if (w["evicted_us"] or 0) > at_us - RECENT_US),
        "flavors": [{"flavor": part["flavor"], **_amounts(part)} for part in flavors],
        "observed_at": time_of(row["observed_us"]),
    }
    # Selectors and rules of a queue name namespaces of others.
    return item | ({} if bound else {"preemption": json_object(row["preemption"]), "detail": detail})


def _uncounted(item: Row) -> Row:
    """A queue without the numbers to which others contribute."""
    unknown = {name: None for name in COUNTS_OTHERS if name in item}
    return item | unknown | ({"flavors": [_uncounted(part) for part in item["flavors"]]} if "flavors" in item else {})


def _amounts(row: Row) -> Row:
    return {name: _devices(row[name]) for name in ("quota", "quota_max", "lend_max", "used", "borrowed")}


def _waiting(inside: Iterable[Row], at_us: int) -> Row:
    """What waits: how many, with how many devices by profile, since when, and why."""
    waiting = [w for w in inside if w["state"] in WAITING]
    submitted = [w["submit_us"] for w in waiting if w["submit_us"] is not None]
    return {
        "workloads": len(waiting),
        "unknown": sum(1 for w in waiting if w["device_count"] is None),
        "devices": _devices_of(waiting),
        "longest_seconds": seconds_between(min(submitted), at_us) if submitted else None,
        "reasons": dict(sorted(Counter(reason_code(w) or "unknown" for w in waiting).items())),
        "why": _most_frequent(waiting),
    }


def _most_frequent(waiting: Iterable[Row]) -> str | None:
    """The most frequent reason in words; None if no workload has one that has words."""
    words = Counter(why for w in waiting if (why := WHY.get(why_code(w))) is not None)
    return min(words, key=lambda why: (-words[why], why)) if words else None


def _devices_of(waiting: Iterable[Row]) -> dict[str, int]:
    """How many devices they want together, by profile."""
    devices: Counter[str] = Counter()
    for workload in waiting:
        counts = workload["detail"].get("devices")
        if isinstance(counts, dict):
            devices.update({k: v for k, v in counts.items() if isinstance(v, int)})
        elif workload["device_count"] is not None:
            devices[workload["profile"] or ""] += workload["device_count"]
    return {name: count for name, count in sorted(devices.items()) if count}


def _admissions(inside: Iterable[Row], at_us: int) -> Row | None:
    """How long those waited that were let in within the last day."""
    waits = [
        (w["admitted_us"] - w["submit_us"]) / SECOND_US
        for w in inside
        if w["admitted_us"] is not None and w["submit_us"] is not None
        and at_us - RECENT_US <= w["admitted_us"] <= at_us and w["admitted_us"] >= w["submit_us"]
    ]  # fmt: skip
    return {"count": len(waits), "median": round(median(waits), 3), "longest": round(max(waits), 3)} if waits else None


def _key(row: Row) -> Key:
    return row["cluster"], row["scheduler"], row["kind"], row["namespace"], row["name"]


def _devices(text: str | None) -> dict[str, int] | None:
    """Counts by profile; None if none is known."""
    return {k: v for k, v in json_object(text).items() if isinstance(v, int)} if text else None
