"""One Slurm job that asks for GPUs as a workload: what it waits for, how often it was put back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.sacct import RUNNING_STATES
from gpuwatch.collectors.slurm.text import Gpus

PENDING_STATES = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
EVICTED_STATES = PENDING_STATES - {"PENDING"}
NEVER = frozenset(
    {
        *(
            "JobHeldAdmin",
            "JobHeldUser",
            "JobHoldMaxRequeue",
            "DependencyNeverSatisfied",
            "BadConstraints",
            "InvalidQOS",
        ),
        *("InvalidAccount", "AccountNotAllowed", "QOSNotAllowed", "PartitionNodeLimit", "PartitionTimeLimit"),
        *("ReservationDeleted", "AssociationJobLimit", "Reservation_deleted"),
    }
)
"""Reasons that waiting does not cure: somebody must change the job or a limit."""


@dataclass(frozen=True)
class Facts:
    """What Slurm says of one job, however it was asked. Times in microseconds, None where not told."""

    uid: str
    """Its id as sacct prints it; all tasks of an array that wait are one: `123_*`."""
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
    facts: Facts, rows: Iterable[Row], asked: tuple[Gpus, ...], cluster: str, observed_us: int | None
) -> list[Row]:
    """The `workload` row of a job, none for one without GPUs.

    `rows` are its claims or requests; `asked` what it asked for, where it never had any (cancelled while it waited).
    """
    claims = [row for table, row in rows if table == "claim"]
    first = next((row["job_id"] for table, row in rows if table == "pending"), None)
    told = claims or [row for table, row in rows if table == "pending" and row["job_id"] == first]
    held = [Gpus(row["gpu_type"], row["profile"], row["device_count"]) for row in told]
    held = held or (list(asked) if facts.start_us is None else [])
    if not held:
        return []
    profiles, types = {gpus.profile for gpus in held}, {gpus.gpu_type for gpus in held}
    state = _state(facts)
    waits = state in ("pending", "inadmissible", "evicted")
    detail = {
        "state": facts.state,
        "account": facts.account,
        "eligible_us": facts.eligible_us,
        "dependency": facts.dependency,
        "reservation": facts.reservation,
        "time_limit_s": facts.time_limit_s,
        "tasks": facts.tasks,
        "array_tasks": facts.array_tasks,
        "devices": by_profile(held) if len(profiles) > 1 else None,
    }
    # Of several times that it was put back, Slurm tells only whether the last was for another job; and while its
    # processes end, not even that.
    once = facts.state == "PREEMPTED" or facts.preempt_us is not None
    unclear = not once and facts.state == "COMPLETING"
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
                "device_count": sum(gpus.number for gpus in held),
                "profile": profiles.pop() if len(profiles) == 1 else None,
                "gpu_type": types.pop() if len(types) == 1 else None,
                "submit_us": facts.submit_us,
                "admitted_us": None if waits else facts.start_us,
                "start_us": facts.start_us if state in ("running", "finished") else None,
                "evicted_us": facts.preempt_us,
                "end_us": facts.end_us if state == "finished" else None,
                "evictions": facts.restarts,
                "preemptions": None
                if (facts.restarts or 0) > 1 or (facts.restarts and not once) or unclear
                else int(once),
                "state": state,
                "reason": facts.reason,
                "message": facts.message,
                "user_name": facts.user,
                "placement": _placement(claims),
                "detail": text({name: value for name, value in detail.items() if value is not None}),
                "observed_us": observed_us,
            },
        )
    ]


def by_profile(gpus: Iterable[Gpus]) -> dict[str, int]:
    """Devices by MIG profile, "" for whole GPUs: `{"": 8, "1g.10gb": 7}`."""
    counts: dict[str, int] = {}
    for held in gpus:
        counts[held.profile or ""] = counts.get(held.profile or "", 0) + held.number
    return counts


def text(value: Any) -> str:
    """JSON of a value, the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _state(facts: Facts) -> str:
    if facts.state in EVICTED_STATES:
        return "evicted"
    if facts.state == "PENDING":
        return "inadmissible" if facts.reason in NEVER else "pending"
    if facts.state == "CONFIGURING":
        return "admitted"
    # Its processes end: they hold the devices until an end is told.
    return "running" if facts.state in {*RUNNING_STATES, "RESIZING"} else "finished"


def _placement(claims: list[dict[str, Any]]) -> str | None:
    counts: dict[str, int] = {}
    for row in claims:
        counts[row["node"]] = counts.get(row["node"], 0) + row["device_count"]
    return text([{"node": node, "count": count} for node, count in sorted(counts.items())]) if counts else None
