"""Why jobs wait: requests without a queue, and the scheduler's messages about pods that no node took."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.store.database import Store

GATED = "SchedulingGated"
"""The reason of a request whose pods are held back by something other than the scheduler."""
REQUEST = "Request"
"""Kind of a row known only from the pods or the job itself."""
FRESH_US = 2 * HOUR_US
"""Waiting requests are recorded again every hour."""
EVENTS_US = DAY_US
TURN = "Pending"
"""The reason shown for a wait for which a queue gives none."""
NOT_FOR_GPUS = (
    "Dependency",
    "DependencyNeverSatisfied",
    "BeginTime",
    "JobHeldUser",
    "JobHeldAdmin",
    "JobArrayTaskLimit",
    "SchedulingGated",
    "Deactivated",
    "InactiveWorkload",
    "Inadmissible",
    "ExceedsMaxQuota",
    "ClusterQueueStopped",
    "LocalQueueStopped",
    "PartitionDown",
    "PartitionInactive",
)
"""Reasons for waiting that a free GPU would not have ended. Requests that ever gave one are not counted."""
WHY = {
    "NoMatchingFlavor": "no flavor of the queue fits what it asks for",
    "WaitingForQuota": "waits for quota: what the queue may use is in use",
    "ExceedsMaxQuota": "asks for more than the queue may ever use",
    "TopologyPlacementFailed": "quota is there, but not on nodes as near to one another as it asks",
    "WaitingForPreemptedWorkloads": "waits until those it displaces are gone",
    "WaitingForPodsReady": "waits until the workload before it runs",
    "Inadmissible": "its queue does not take it",
    "Deactivated": "was switched off",
    "InactiveWorkload": "was switched off",
    "Preempted": "was displaced by another workload",
    "PodsReadyTimeout": "did not get all its pods to run in time",
    "AdmissionCheck": "an admission check took its quota back",
    "ClusterQueueStopped": "its queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "NodeFailures": "lost a node",
    "NotEnoughResources": "too few free GPUs, or other resources, for all its members at once",
    "NotEnoughTasks": "fewer members exist than it needs to start",
    "Resources": "too few free GPUs, or other resources, on the nodes that it may use",
    "Priority": "waits behind requests of higher priority",
    "Dependency": "waits for another job to end",
    "BeginTime": "asked to start later",
    "JobHeldUser": "is held by its user",
    "JobHeldAdmin": "is held by an administrator",
    TURN: "waits for its turn",
    "Accepted": "waits for its first place",
    "New": "was just received",
    GATED: "is held back by a scheduling gate",
}
"""What the schedulers' reasons for waiting mean."""
_reason_patterns = tuple(
    (word, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for word, pattern in (
        ("WaitingForPreemptedWorkloads", r"pending the preemption of"),
        ("WaitingForQuota", r"\binsufficient unused quota\b|\bborrowing limit\b.{0,200}\bexceeded\b"),
        ("ExceedsMaxQuota", r"> maximum capacity"),
        ("WaitingForQuota", r"\binsufficient\b.{0,200}\bquota\b|\bquota\b.{0,200}\binsufficient\b"),
        ("TopologyPlacementFailed", r"\btopology\b.{0,200}\b(?:allows to fit only|doesn't allow to fit)\b"),
        ("WaitingForPodsReady", r"waiting for all admitted workloads to be in (?:the )?PodsReady"),
        ("NoMatchingFlavor", r"untolerated taint|doesn't match node affinity|unavailable in ClusterQueue"),
    )
)
"""Messages of queues without a useful reason: the first match counts. Of several flavors that do not take it, the one that
is only full comes before those that never can."""
ROOM = frozenset({"Resources", "TopologyPlacementFailed", "NotEnoughResources"})
"""Words for a wait until devices near one another are free; all others are about quota, turns, or what no node offers."""
POD_REASONS = frozenset({"Unschedulable", "Undetermined"})
"""Words of pods that no node took: why stands in the message."""
WAITING = frozenset({"pending", "inadmissible", "evicted"})
UNPLACED = WAITING | {"reserved", "admitted"}
"""States in which pods may wait for nodes."""
PARTLY = frozenset({"reserved", "admitted", "running"})
"""States in which some pods of a gang may run while others wait."""
ROWS_MAX = 100_000
WORDS_MAX = 500
"""Characters of an explanation."""

_available = re.compile(
    r"(?:\d+/(?P<nodes>\d{1,9})|all) nodes are (?:un)?available:\s*(?P<reasons>.*?)(?:\.(?:\s.*)?)?$", re.DOTALL
)
"""The reasons end at the first full stop; behind it stands what preemption would do ("preemption: 0/7 nodes ...", since
1.31 "no new claims to deallocate, preemption: ..."). Volcano says that nodes are unavailable."""
_no_device = re.compile(r"Insufficient \S*(?:/gpu|/mig-|gpu\b)", re.IGNORECASE)
_own_taint = re.compile(r"untolerated taint \{node-role\.kubernetes\.io/(?:control-plane|master)\b")
_counted = re.compile(r"(?P<nodes>\d{1,9}) (?P<reason>\S.*)", re.DOTALL)

Row = dict[str, Any]
Job = tuple[str, str]
"""(cluster, job id)."""


def requests(store: Store, cluster: str | None) -> list[Row]:
    """Jobs that wait by their own records, one row a job with the columns of `workload`. Devices of several profiles are added up.

    The newest record of each counts, if it is not older than FRESH_US. Needs heard_at.
    """
    jobs: dict[tuple[str, str, str], Row] = {}
    for row in store.rows("capacity/request", cluster=cluster, fresh_us=FRESH_US, limit=ROWS_MAX):
        key = row["cluster"], row["scheduler"], row["job_id"]
        account = row.pop("account")
        detail = {"devices": {}} if account is None else {"devices": {}, "account": account}
        job = jobs.setdefault(key, row | {"kind": REQUEST, "detail": detail})
        devices = job["detail"]["devices"]
        if row["device_count"] is not None:
            devices[row["profile"] or ""] = devices.get(row["profile"] or "", 0) + row["device_count"]
        # What other accelerators add to GPUs is in the detail only.
        shown = {kind: count for kind, count in devices.items() if "/" not in kind} or devices
        job["device_count"] = sum(shown.values()) if shown else None
        job["profile"] = next(iter(shown)) or None if len(shown) == 1 else None
    return list(jobs.values())


def wait_beside(gang: Row, row: Row) -> bool:
    """Whether a request is for the pods that a gang lacks, which has its quota or runs with the others."""
    members = gang["pod_count"] or gang["min_count"] or 0
    return (
        row["kind"] == REQUEST
        and row["reason"] in POD_REASONS
        and gang["state"] in PARTLY
        and 0 < (row["pod_count"] or 0) < members
    )


def still_refused(row: Row, refused: Row) -> bool:
    """Whether the scheduler's last message about its pods still describes it."""
    return row["state"] in UNPLACED and row["start_us"] is None and refused["last_us"] >= (row["submit_us"] or 0)


def unscheduled(store: Store, cluster: str | None, jobs: Iterable[Job]) -> dict[Job, Row]:
    """The newest FailedScheduling of the pods of each job: {"message", "last_us", "pods": how many of them wait so}.

    An event names a pod, not its job: it is that of the longest name in its namespace that the pod's begins with. A
    pod that was placed since waits no more. Needs heard_at.
    """
    known = set(jobs)
    found: dict[Job, Row] = {}
    for row in store.rows("capacity/unscheduled", cluster=cluster, reach_us=EVENTS_US, limit=ROWS_MAX):
        job = job_of(row["cluster"], row["namespace"], row["name"], known)
        if job is not None:
            entry = found.setdefault(job, {"message": row["message"], "last_us": row["last_us"], "pods": 0})
            entry["pods"] += 1
    return found


def reason_in(message: str | None) -> str | None:
    """The word of WHY that a queue's message stands for ("insufficient unused quota for nvidia.com/gpu ...")."""
    return next((word for word, pattern in _reason_patterns if pattern.search(message or "")), None)


def in_words(message: str | None) -> str | None:
    """ "3 nodes: Insufficient nvidia.com/gpu; 1 node: ..." of a FailedScheduling message; its text where it counts none."""
    counts = parse_failed_scheduling(message or "")
    if not counts:
        return (message or "").strip()[:WORDS_MAX] or None
    parts = sorted(counts.items(), key=lambda part: (-part[1], part[0]))
    return "; ".join(_of_nodes(count, reason.removeprefix("node(s) ")) for reason, count in parts)[:WORDS_MAX]


def _of_nodes(count: int, reason: str) -> str:
    """`1 node was unschedulable`: the scheduler writes `node(s) were` for one node too."""
    nodes = "1 node" if count == 1 else f"{count} nodes"
    for verb, one in (("were ", "was "), ("had ", "had "), ("didn't ", "didn't ")):
        if reason.startswith(verb):
            return f"{nodes} {one if count == 1 else verb}{reason.removeprefix(verb)}"
    return f"{nodes}: {reason}"


def for_room(reason: str | None, message: str | None = None) -> bool | None:
    """Whether a request waits for free devices near one another; None: unknown.

    Of pods that no node took, those wait for devices that some nodes lack: another reason for other nodes does not hide it.
    One for all nodes does (CPU, a volume that is not bound).
    """
    word = reason or ""
    if word in POD_REASONS or not word or word == TURN:
        counts = parse_failed_scheduling(message or "")
        if not counts:
            reason = reason_in(message)
            return None if reason is None else reason in ROOM
        nodes = nodes_of(message or "") or sum(counts.values())
        others = [count for why, count in counts.items() if not _no_device.search(why)]
        return any(_no_device.search(why) for why in counts) and all(count < nodes for count in others)
    return word in ROOM


def short_nodes(message: str | None) -> int | None:
    """How many nodes lack only devices, where the message names another reason for the other nodes; None: it names none.

    The nodes of the control plane are left out: no pod with GPUs may use them.
    """
    counts = parse_failed_scheduling(message or "")
    if all(_no_device.search(why) or _own_taint.search(why) for why in counts):
        return None
    return max((count for why, count in counts.items() if _no_device.search(why)), default=0)


def nodes_of(message: str) -> int | None:
    """The nodes that a FailedScheduling message speaks of, None where it does not count them."""
    match = _available.search(message)
    return int(match["nodes"]) if match and match["nodes"] else None


def parse_failed_scheduling(message: str) -> dict[str, int]:
    """Nodes refused by reason, from the message of a FailedScheduling event or a PodScheduled condition.

    What stands behind the reasons repeats the same nodes and is left out. A reason without a count of its own
    (a volume that is not bound) applies to all nodes. Messages that count no nodes give {}.
    """
    match = _available.search(message)
    if not match:
        return {}
    counts: dict[str, int] = {}
    for part in re.split(r",\s+(?=\d+ )", match["reasons"].strip()):
        counted = _counted.fullmatch(part)
        reason, nodes = (counted["reason"], counted["nodes"]) if counted else (part, match["nodes"])
        if reason and nodes:
            counts[reason] = counts.get(reason, 0) + int(nodes)
    return counts


def job_of(cluster: str, namespace: str | None, pod: str | None, known: set[Job]) -> Job | None:
    """The job that a pod belongs to by its name: that of the longest name in its namespace that the pod's begins with.

    Without a namespace, that of a job whose id has none.
    """
    name = pod or ""
    place = f"{namespace}/" if namespace else ""
    while name:
        job = cluster, f"{place}{name}"
        if job in known:
            return job
        name = name.rpartition("-")[0]
    return None
