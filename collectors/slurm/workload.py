"""The workload of a Slurm job that asks for GPUs: its state, what it waits for and how often it was requeued. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.run_times import RUNNING_STATES
from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from gpuwatch.collectors.slurm.text import Gpus, devices_by_profile
from gpuwatch.core.accelerators import SHARES

PENDING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
EVICTED_STATES = PENDING_STATES - {"PENDING"}
BLOCKING_REASONS = frozenset(
    {
        *("JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue", "DependencyNeverSatisfied", "BadConstraints"),
        *("InvalidQOS", "InvalidAccount", "AccountNotAllowed", "QOSNotAllowed", "PartitionNodeLimit"),
        *("PartitionTimeLimit", "ReservationDeleted", "AssociationJobLimit", "Reservation_deleted"),
    }
)
"""Reasons that waiting does not resolve: someone must change the job or a limit."""


@dataclass(frozen=True)
class Facts:
    """What Slurm reports about a job in any of its formats. Times in microseconds, None when unknown."""

    uid: str
    """Its id as sacct prints it; the waiting tasks of an array share one: `123_*`."""
    job_id: str | None
    name: str | None
    state: str
    reason: str | None
    user: str | None
    account: str | None
    partition: str | None
    qos: str | None
    priority: int | None
    nodes: int | None
    nodes_min: int | None
    tasks: int | None
    array_tasks: int | None
    submit_us: int | None
    eligible_us: int | None
    start_us: int | None
    end_us: int | None
    preempt_us: int | None
    restarts: int | None
    dependency: str | None
    reservation: str | None
    time_limit_s: int | None
    message: str | None = None


def workload_rows(
    facts: Facts, rows: list[Row], requested: tuple[Gpus, ...], cluster: str, observed_us: int | None
) -> list[Row]:
    """The `workload` row of a job, none for one without GPUs.

    `rows` are its allocations or requests; `requested` is used when it never had any (cancelled while it waited).
    """
    allocations = [row for table, row in rows if table == "claim"]
    waiting = _first_request(rows)
    if any(SHARES_LABEL in (row.get("labels") or "") or row.get("profile") in SHARES for row in allocations + waiting):
        return []  # shares of GPUs are no requests for GPUs
    gpus = _gpus(allocations or waiting) or (list(requested) if facts.start_us is None else [])
    if not gpus:
        return []
    profiles, types = {group.profile for group in gpus}, {group.gpu_type for group in gpus}
    state = _state(facts)
    waits = state in ("pending", "inadmissible", "evicted")
    return [
        (
            "workload",
            {
                "cluster": cluster,
                "scheduler": "slurm",
                "kind": "Job",
                "uid": facts.uid,
                "name": facts.name,
                "job_id": facts.job_id,
                "queue": facts.partition,
                "priority_class": facts.qos,
                "priority": facts.priority,
                "pod_count": facts.nodes,
                "min_count": facts.nodes_min,
                "device_count": sum(group.number for group in gpus),
                "profile": _only(profiles),
                "gpu_type": _only(types),
                "submit_us": facts.submit_us,
                "admitted_us": None if waits else facts.start_us,
                "start_us": facts.start_us if state in ("running", "finished") else None,
                "evicted_us": facts.preempt_us,
                "end_us": facts.end_us if state == "finished" else None,
                "evictions": facts.restarts,
                "preemptions": _preemptions(facts),
                "state": state,
                "reason": facts.reason,
                "message": facts.message,
                "user_name": facts.user,
                "placement": _placement(allocations),
                "detail": _detail(facts, devices_by_profile(gpus) if len(profiles) > 1 else None),
                "observed_us": observed_us,
            },
        )
    ]


def _only(values: set[str | None]) -> str | None:
    """The value that all have, None if they differ."""
    return next(iter(values)) if len(values) == 1 else None


def _first_request(rows: list[Row]) -> list[dict[str, Any]]:
    """The `pending` rows of the first job id: the waiting tasks of an array all ask for the same."""
    requests = [row for table, row in rows if table == "pending"]
    return [row for row in requests if row["job_id"] == requests[0]["job_id"]]


def _gpus(rows: list[dict[str, Any]]) -> list[Gpus]:
    return [Gpus(row["gpu_type"], row["profile"], row["device_count"]) for row in rows]


def _state(facts: Facts) -> str:
    if facts.state in EVICTED_STATES:
        return "evicted"
    if facts.state == "PENDING":
        return "inadmissible" if facts.reason in BLOCKING_REASONS else "pending"
    if facts.state == "CONFIGURING":
        return "admitted"
    # While its processes are ending, the job keeps its devices until Slurm reports an end.
    return "running" if facts.state in {*RUNNING_STATES, "RESIZING"} else "finished"


def _preemptions(facts: Facts) -> int | None:
    """How often a job was preempted, None when Slurm does not report it.

    Slurm only records whether the last requeue was a preemption, and not while the job's processes are ending.
    """
    preempted = facts.state == "PREEMPTED" or facts.preempt_us is not None
    restarts = facts.restarts or 0
    if restarts > 1 or (not preempted and (restarts or facts.state == "COMPLETING")):
        return None
    return int(preempted)


def _detail(facts: Facts, devices: dict[str, int] | None) -> str:
    detail = {
        "state": facts.state,
        "account": facts.account,
        "eligible_us": facts.eligible_us,
        "dependency": facts.dependency,
        "reservation": facts.reservation,
        "time_limit_s": facts.time_limit_s,
        "tasks": facts.tasks,
        "array_tasks": facts.array_tasks,
        "devices": devices,
    }
    return compact_json({name: value for name, value in detail.items() if value is not None})


def _placement(allocations: list[dict[str, Any]]) -> str | None:
    counts: dict[str, int] = {}
    for row in allocations:
        counts[row["node"]] = counts.get(row["node"], 0) + row["device_count"]
    if not counts:
        return None
    return compact_json([{"node": node, "count": count} for node, count in sorted(counts.items())])
