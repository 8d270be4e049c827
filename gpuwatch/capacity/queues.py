"""Queues and the workloads that wait and run in them, from the schedulers' last records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.waits import GATED, REQUEST, TURN, WHY, in_words, reason_in, requests, unscheduled
from gpuwatch.core.clock import DAY_US, SECOND_US, rfc3339
from gpuwatch.policy.ownership import UNALLOCATED, resolve_many
from gpuwatch.policy.repository import load_team_rules
from gpuwatch.state import State
from gpuwatch.store.database import Store

QUEUES_MAX = 50_000
WORKLOADS_MAX = 100_000
"""Rows that one answer looks at: those that wait first."""
DEPTH_MAX = 32
"""Queues above a queue."""
RECENT_US = DAY_US
"""Waits and evictions of a queue are those of the last day."""
WAITING = frozenset({"pending", "inadmissible", "evicted"})
UNPLACED = WAITING | {"reserved", "admitted"}
"""States in which pods may wait for nodes."""
OVER = frozenset({"finished", "failed", "deleted"})
NAMED = frozenset({"user", "group"})
"""Kinds of rows about people, which only those people's teams may see."""
_PARENTS = {
    "local_queue": ("cluster_queue",),
    "cluster_queue": ("cohort",),
    "cohort": ("cohort",),
    "queue": ("queue", "partition"),
}
_OWNER = pa.schema(
    [("labels", pa.string()), ("queue", pa.string()), ("namespace", pa.string()), ("user_name", pa.string())]
)

Row = dict[str, Any]
Key = tuple[str, str, str, str | None, str]
"""(cluster, scheduler, kind, namespace, name) of a queue."""


def workloads(
    store: Store,
    state: State,
    at_us: int,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    queue: str | None = None,
    states: Collection[str] | None = None,
) -> list[Row]:
    """Gangs, queued workloads and applications as JSON has them: the longest waiting first, then those that run.

    Also waiting jobs without a queue. If a queue gives no reason, the scheduler's last message about the pods is used.

    Without `states` those that have not ended; `queue` is a local queue, a queue or a cluster queue. `gpus` counts
    devices of `profile`, None if unknown. With `teams` only workloads of these teams.
    """
    found = _workloads(store, state, at_us, cluster, states)
    jobs = ((row["cluster"], row["job_id"]) for row in found if row["job_id"] is not None)
    refused = unscheduled(store, at_us, cluster, jobs)
    wanted = None if teams is None else set(teams)
    items = [
        _workload(row, at_us, refused.get((row["cluster"], row["job_id"])))
        for row in found
        if (wanted is None or row["team"] in wanted)
        and (row["state"] in states if states else row["state"] not in OVER)
        and (queue is None or queue in (row["queue"], row["cluster_queue"]))
    ]
    return sorted(items, key=_order)


def queues(
    store: Store, state: State, at_us: int, teams: Collection[str] | None = None, *, cluster: str | None = None
) -> list[Row]:
    """Queues as JSON has them, with what waits in each and below it, by cluster, scheduler, kind and name.

    Devices are counted by MIG profile, "" for whole GPUs; an unknown count is None, never 0. With `teams` only
    queues that workloads of these teams name, or that admitted them; waits are those of these workloads, and what may
    name others is left out.
    """
    rows = store.rows("capacity/queue", cluster=cluster, at_us=at_us, limit=QUEUES_MAX)
    found = _workloads(store, state, at_us, cluster, None)
    wanted = None if teams is None else set(teams)
    mine = [row for row in found if wanted is None or row["team"] in wanted]
    index = {_key(row): row for row in rows if row["flavor"] is None or row["kind"] == "resource_flavor"}
    flavors: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        if row["flavor"] is not None and row["kind"] != "resource_flavor":
            flavors[_key(row)].append(row)
    inside: dict[Key, list[Row]] = defaultdict(list)
    named: set[Key] = set()
    for workload in mine:
        path = _path(workload, index)
        named |= set(path[:1]) | {key for key in path if key[4] == workload["cluster_queue"]}
        for key in path:
            inside[key].append(workload)
    return [
        _queue(row, flavors[_key(row)], inside.get(_key(row), []), at_us, wanted is not None)
        for row in rows
        if (row["flavor"] is None or row["kind"] == "resource_flavor")
        and (wanted is None or (_key(row) in named and row["kind"] not in NAMED))
    ]


def _workloads(
    store: Store, state: State, at_us: int, cluster: str | None, states: Collection[str] | None
) -> list[Row]:
    """The last record of each with its team; two objects of one gang are merged."""
    rows = store.rows(
        "capacity/workload",
        cluster=cluster,
        at_us=at_us,
        since_us=at_us - RECENT_US,
        states=None if states is None else list(states),
        limit=WORKLOADS_MAX,
    )
    for row in rows:
        row["detail"] = _object(row["detail"])
    rows += requests(store, at_us, cluster)
    owners = pa.Table.from_pylist([{name: row[name] for name in _OWNER.names} for row in rows], schema=_OWNER)
    decided = resolve_many(load_team_rules(state), owners)["team"].to_pylist()
    for row, team in zip(rows, decided, strict=True):
        row["team"] = row["team"] or team or UNALLOCATED
    return _merged(rows)


def _merged(rows: Sequence[Row]) -> list[Row]:
    """One row a gang, where several objects speak of it: a Kueue Workload, the job that it holds back, the PodGroup of
    Volcano. The nearest to the queue speaks first; what it leaves open is filled from the others.
    """
    for row in rows:
        row["places"] = [(row["scheduler"], row["namespace"], row["queue"], row["cluster_queue"])]
    whole = {(r["cluster"], r["scheduler"], r["namespace"], r["name"]): r for r in rows if r["kind"] == "Workload"}
    first: dict[tuple[str, str, bool], Row] = {}
    kept = []
    groups = {(r["cluster"], r["namespace"]) for r in whole.values() if r["job_id"] is None and r["state"] in WAITING}
    for row in sorted(rows, key=_rank):
        if row["reason"] == GATED and (row["cluster"], row["namespace"]) in groups:
            continue  # a pod that Kueue holds back waits as its group
        if row["kind"] == "PendingWorkload":
            target = whole.get((row["cluster"], row["scheduler"], row["namespace"], row["name"]))
            if target is None:
                kept.append(row)
            elif target["state"] in WAITING:
                target["detail"] = row["detail"] | target["detail"]
            continue
        if row["job_id"] is None:
            kept.append(row)
            continue
        # A run that is over and the next one of its name are two.
        target = first.setdefault((row["cluster"], row["job_id"], row["state"] in OVER), row)
        if target is row or (target["scheduler"], target["kind"]) == (row["scheduler"], row["kind"]):
            kept.append(row)
        else:
            _fill(target, row)
    return kept


def _rank(row: Row) -> int:
    """Kueue's word first, then that of Volcano's Jobs and of other controllers, then of groups of pods."""
    if row["scheduler"] == "kueue":
        return 0
    return {"PodGroup": 4, "Workload": 5, "Application": 3, REQUEST: 6}.get(
        row["kind"], 1 if row["scheduler"] == "volcano" else 2
    )


def _fill(target: Row, row: Row) -> None:
    """Adds another object's data to a gang; for a waiting one also the reason, which controllers do not know."""
    if row["kind"] == REQUEST:
        # Only its waiting pods: they do not know the size of the gang.
        if target["state"] in WAITING:
            target["reason"] = target["reason"] or row["reason"]
        return
    target["places"] += row["places"]
    if target["scheduler"] != "kueue" and row["kind"] == "PodGroup" and target["state"] in WAITING and row["reason"]:
        target["reason"], target["message"] = row["reason"], row["message"]
    for name, value in row.items():
        if target[name] is None:
            target[name] = value
    target["detail"] = row["detail"] | target["detail"]
    if target["team"] == UNALLOCATED:
        target["team"] = row["team"]


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


def _workload(row: Row, at_us: int, refused: Row | None) -> Row:
    detail = row["detail"]
    if refused is not None and (
        row["state"] not in UNPLACED or row["start_us"] is not None or refused["last_us"] < (row["submit_us"] or 0)
    ):
        refused = None
    waits = row["state"] in WAITING
    begun = row["admitted_us"] if row["admitted_us"] is not None else row["reserved_us"] or row["start_us"]
    until = at_us if waits else begun
    return {
        "cluster": row["cluster"],
        "scheduler": row["scheduler"],
        "kind": row["kind"],
        "uid": row["uid"],
        "name": row["name"],
        "namespace": row["namespace"],
        "job": row["job_id"],
        "team": row["team"],
        "user": row["user_name"],
        "queue": row["queue"],
        "cluster_queue": row["cluster_queue"],
        "priority_class": row["priority_class"],
        "priority": row["priority"],
        "state": row["state"],
        "reason": row["reason"],
        "why": _why(row, refused),
        "message": row["message"] or (refused["message"] if refused else None),
        "unscheduled": {"pods": refused["pods"], "at": _time(refused["last_us"])} if refused else None,
        "pods": row["pod_count"],
        "pods_min": row["min_count"],
        "gpus": row["device_count"],
        "profile": row["profile"],
        "gpu_type": row["gpu_type"],
        "devices": detail.get("devices"),
        "submitted_at": _time(row["submit_us"]),
        "quota_reserved_at": _time(row["reserved_us"]),
        "admitted_at": _time(row["admitted_us"]),
        "started_at": _time(row["start_us"]),
        "evicted_at": _time(row["evicted_us"]),
        "ended_at": _time(row["end_us"]),
        "wait_seconds": _seconds(row["submit_us"], until),
        "evictions": row["evictions"],
        "preemptions": row["preemptions"],
        "position": detail.get("position_in_cluster_queue"),
        "placement": _list(row["placement"]),
        "detail": detail,
        "observed_at": _time(row["observed_us"]),
    }


def _why(row: Row, refused: Row | None) -> str | None:
    """Why it waits: the queue's reason, or the scheduler's if the queue gives none or has admitted it."""
    if row["state"] in OVER:
        return None
    word = _word(row)
    if row["state"] in WAITING and word in ("", TURN):
        word = reason_in(_message(row)) or word
    reason = WHY.get(word) if row["state"] in WAITING or refused is None else None
    return reason if refused is None or (reason and word != TURN) else in_words(refused["message"])


def _word(row: Row) -> str:
    """Why it waits: Kueue's quota reason, also after an eviction."""
    waits = row["detail"].get("waits")
    word = waits.get("reason") if isinstance(waits, dict) and row["state"] in WAITING else None
    return str(word if word and word != TURN else row["reason"] or "")


def _message(row: Row) -> str:
    """Its queue's message about quota, or else its own message."""
    waits = row["detail"].get("waits")
    message = waits.get("message") if isinstance(waits, dict) else None
    return str(message or row["message"] or "")


def _queue(row: Row, flavors: Sequence[Row], inside: Sequence[Row], at_us: int, bound: bool) -> Row:
    detail = _object(row["detail"])
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
        "observed_at": _time(row["observed_us"]),
    }
    # Selectors and rules of a queue name namespaces of others.
    return item | ({} if bound else {"preemption": _object(row["preemption"]), "detail": detail})


def _amounts(row: Row) -> Row:
    return {name: _devices(row[name]) for name in ("quota", "quota_max", "lend_max", "used", "borrowed")}


def _waiting(inside: Iterable[Row], at_us: int) -> Row:
    """What waits: how many, with how many devices by profile, since when, and why."""
    waiting = [w for w in inside if w["state"] in WAITING]
    devices: Counter[str] = Counter()
    for workload in waiting:
        counts = workload["detail"].get("devices")
        if isinstance(counts, dict):
            devices.update({k: v for k, v in counts.items() if isinstance(v, int)})
        elif workload["device_count"] is not None:
            devices[workload["profile"] or ""] += workload["device_count"]
    submitted = [w["submit_us"] for w in waiting if w["submit_us"] is not None]
    return {
        "workloads": len(waiting),
        "unknown": sum(1 for w in waiting if w["device_count"] is None),
        "devices": {name: count for name, count in sorted(devices.items()) if count},
        "longest_seconds": _seconds(min(submitted), at_us) if submitted else None,
        "reasons": dict(sorted(Counter(_word(w) or "unknown" for w in waiting).items())),
    }


def _admissions(inside: Iterable[Row], at_us: int) -> Row | None:
    """How long those waited that were let in within the last day."""
    waits = [
        (w["admitted_us"] - w["submit_us"]) / SECOND_US
        for w in inside
        if w["admitted_us"] is not None and w["submit_us"] is not None
        and at_us - RECENT_US <= w["admitted_us"] <= at_us and w["admitted_us"] >= w["submit_us"]
    ]  # fmt: skip
    return {"count": len(waits), "median": round(median(waits), 3), "longest": round(max(waits), 3)} if waits else None


def _order(item: Row) -> tuple[bool, float, str, str, str]:
    wait = item["wait_seconds"]
    return (
        item["state"] not in WAITING,
        -(wait if wait is not None else -1.0),
        item["cluster"],
        item["kind"],
        item["uid"],
    )


def _key(row: Row) -> Key:
    return row["cluster"], row["scheduler"], row["kind"], row["namespace"], row["name"]


def _object(text: str | None) -> Row:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _list(text: str | None) -> list[Any] | None:
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _devices(text: str | None) -> dict[str, int] | None:
    """Counts by profile; None if none is known."""
    return {k: v for k, v in _object(text).items() if isinstance(v, int)} if text else None


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else rfc3339(at_us)


def _seconds(start_us: int | None, end_us: int | None) -> float | None:
    """Seconds from one instant to another, never less than none: clocks of two machines may differ."""
    return None if start_us is None or end_us is None else max(0.0, (end_us - start_us) / SECOND_US)
