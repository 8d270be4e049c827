"""Workloads that wait and run, from the schedulers' last records: one row a gang."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.heard import heard, heard_view
from gpuwatch.capacity.waits import (
    GATED,
    POD_REASONS,
    REQUEST,
    TURN,
    WAITING,
    WHY,
    in_words,
    reason_in,
    requests,
    still_refused,
    unscheduled,
    wait_beside,
)
from gpuwatch.core.clock import DAY_US, SECOND_US, rfc3339
from gpuwatch.policy.inferred import resolve_many
from gpuwatch.policy.ownership import UNALLOCATED
from gpuwatch.policy.repository import load_ownership
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology.node_fit import json_object

WORKLOADS_MAX = 100_000
"""Rows that one answer looks at: those that wait first."""
RECENT_US = DAY_US
"""Waits and evictions of a queue are those of the last day."""
OVER = frozenset({"finished", "failed", "deleted"})
_OWNER = pa.schema(
    [
        ("cluster", pa.string()),
        ("labels", pa.string()),
        ("queue", pa.string()),
        ("namespace", pa.string()),
        ("account", pa.string()),
        ("user_name", pa.string()),
    ]
)

Row = dict[str, Any]


def workloads(
    store: Store,
    state: State,
    at_us: int,
    teams: Collection[str] | None = None,
    *,
    cluster: str | None = None,
    queue: str | None = None,
    states: Collection[str] | None = None,
    bound: bool = False,
) -> list[Row]:
    """Gangs, queued workloads and applications as JSON has them: the longest waiting first, then those that run.

    Includes waiting jobs without a queue. If a queue gives no reason, the scheduler's last message about the pods is used.
    Without `states` those that have not ended; `queue` is a local queue, a queue or a cluster queue. `gpus` counts
    devices of `profile`, None if unknown. A wait ends, for now, with what the sources of its cluster know. With `teams` only workloads of these teams; with `bound` without
    what counts others: positions in a queue, and the scheduler's own details.
    """
    found = load_workloads(store, state, at_us, cluster, states)
    jobs = ((row["cluster"], row["job_id"]) for row in found if row["job_id"] is not None)
    ends = heard(store, at_us, cluster)
    with heard_view(store, ends):
        refused = unscheduled(store, cluster, jobs)
    wanted = None if teams is None else set(teams)
    items = [
        _workload(row, ends.get(row["cluster"], at_us), refused.get((row["cluster"], row["job_id"])))
        | ({"position": None, "detail": {}} if bound else {})
        for row in found
        if (wanted is None or row["team"] in wanted)
        and (row["state"] in states if states else row["state"] not in OVER)
        and (queue is None or queue in (row["queue"], row["cluster_queue"]))
    ]
    return sorted(items, key=_order)


def load_workloads(
    store: Store, state: State, at_us: int, cluster: str | None, states: Collection[str] | None
) -> list[Row]:
    """The last record of each with its team; two objects of one gang are merged."""
    with heard_view(store, heard(store, at_us, cluster)):
        rows = store.rows(
            "capacity/workload",
            cluster=cluster,
            at_us=at_us,
            recent_us=RECENT_US,
            states=None if states is None else list(states),
            limit=WORKLOADS_MAX,
        )
        for row in rows:
            row["detail"] = json_object(row["detail"])
        rows += requests(store, cluster)
    owners = pa.Table.from_pylist([{name: _owner(row, name) for name in _OWNER.names} for row in rows], schema=_OWNER)
    decided = resolve_many(load_ownership(store, state), owners)["team"].to_pylist()
    for row, team in zip(rows, decided, strict=True):
        row["team"] = row["team"] or team or UNALLOCATED
    return _merged(rows)


def _owner(row: Row, name: str) -> str | None:
    """The value of a field that names the owner of a workload. Slurm's account is in the scheduler's details."""
    found = row["detail"].get(name) if name == "account" else row[name]
    return found if isinstance(found, str) else None


def _merged(rows: Sequence[Row]) -> list[Row]:
    """One row a gang, where several objects describe it: a Kueue Workload, the job that it holds back, the PodGroup of
    Volcano. The nearest to the queue comes first; what it leaves open is filled from the others.
    """
    for row in rows:
        row["places"] = [(row["scheduler"], row["namespace"], row["queue"], row["cluster_queue"])]
    groups = {_name(row): row for row in rows if row["kind"] == "Workload"}
    held_back = _held_back(groups.values())
    first: dict[tuple[str, str, bool], Row] = {}
    kept = []
    for row in sorted(rows, key=_rank):
        if row["reason"] == GATED and _namespace(row) in held_back:
            continue  # a pod that Kueue holds back waits as its group
        if row["kind"] == "PendingWorkload" and (group := groups.get(_name(row))) is not None:
            if group["state"] in WAITING:
                group["detail"] = row["detail"] | group["detail"]
        elif row["kind"] == "PendingWorkload" or row["job_id"] is None:
            kept.append(row)
        else:
            # A run that is over and the next one of its name are two.
            same = first.setdefault((row["cluster"], row["job_id"], row["state"] in OVER), row)
            own = (same["scheduler"], same["kind"]) == (row["scheduler"], row["kind"])
            if same is row or own or wait_beside(same, row):
                kept.append(row)
            else:
                _fill(same, row)
    return kept


def _held_back(groups: Iterable[Row]) -> set[tuple[str, str | None]]:
    """Namespaces with a group of pods that waits for its quota."""
    return {_namespace(row) for row in groups if row["job_id"] is None and row["state"] in WAITING}


def _name(row: Row) -> tuple[str, str, str | None, str]:
    return row["cluster"], row["scheduler"], row["namespace"], row["name"]


def _namespace(row: Row) -> tuple[str, str | None]:
    return row["cluster"], row["namespace"]


def _rank(row: Row) -> int:
    """Kueue's objects first, then Volcano's Jobs and those of other controllers, then groups of pods."""
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


def _workload(row: Row, at_us: int, refused: Row | None) -> Row:
    detail = row["detail"]
    if refused is not None and not still_refused(row, refused):
        refused = None
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
        "unscheduled": {"pods": refused["pods"], "at": time_of(refused["last_us"])} if refused else None,
        "pods": row["pod_count"],
        "pods_min": row["min_count"],
        "gpus": row["device_count"],
        "profile": row["profile"],
        "gpu_type": row["gpu_type"],
        "devices": detail.get("devices"),
        "submitted_at": time_of(row["submit_us"]),
        "quota_reserved_at": time_of(row["reserved_us"]),
        "admitted_at": time_of(row["admitted_us"]),
        "started_at": time_of(row["start_us"]),
        "evicted_at": time_of(row["evicted_us"]),
        "ended_at": time_of(row["end_us"]),
        "wait_seconds": seconds_between(row["submit_us"], _wait_ends(row, at_us)),
        "evictions": row["evictions"],
        "preemptions": row["preemptions"],
        "position": detail.get("position_in_cluster_queue"),
        "placement": _list(row["placement"]),
        "detail": detail,
        "observed_at": time_of(row["observed_us"]),
    }


def _wait_ends(row: Row, at_us: int) -> Any:
    """When it stopped waiting: now if it still waits, None if unknown."""
    if row["state"] in WAITING:
        return at_us
    return row["admitted_us"] if row["admitted_us"] is not None else row["reserved_us"] or row["start_us"]


def _why(row: Row, refused: Row | None) -> str | None:
    """Why it waits: the queue's reason, or the scheduler's if the queue gives none or has admitted it."""
    if row["state"] in OVER:
        return None
    code = why_code(row)
    reason = WHY.get(code) if row["state"] in WAITING or refused is None else None
    if refused is None and code in POD_REASONS:
        return in_words(row["message"])  # the pods' own condition: events are kept for an hour
    return reason if refused is None or (reason and code != TURN) else in_words(refused["message"])


def why_code(row: Row) -> str:
    """The word of WHY for its wait: that of its reason, or of the message where it waits without a reason."""
    code = reason_code(row)
    if row["state"] in WAITING and code in ("", TURN):
        return reason_in(_message(row)) or code
    return code


def reason_code(row: Row) -> str:
    """Why it waits: Kueue's quota reason, also after an eviction."""
    waits = row["detail"].get("waits")
    code = waits.get("reason") if isinstance(waits, dict) and row["state"] in WAITING else None
    return str(code if code and code != TURN else row["reason"] or "")


def _message(row: Row) -> str:
    """Its queue's message about quota, or else its own message."""
    waits = row["detail"].get("waits")
    message = waits.get("message") if isinstance(waits, dict) else None
    return str(message or row["message"] or "")


def _order(item: Row) -> tuple[bool, float, str, str, str]:
    wait = item["wait_seconds"]
    return (
        item["state"] not in WAITING,
        -(wait if wait is not None else -1.0),
        item["cluster"],
        item["kind"],
        item["uid"],
    )


def _list(text: str | None) -> list[Any] | None:
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def time_of(at_us: int | None) -> str | None:
    """RFC 3339; None if unknown."""
    return None if at_us is None else rfc3339(at_us)


def seconds_between(start_us: int | None, end_us: int | None) -> float | None:
    """Seconds from one instant to another, never less than none: clocks of two machines may differ."""
    return None if start_us is None or end_us is None else max(0.0, (end_us - start_us) / SECOND_US)
