"""Workload rows of YuniKorn's applications, and claim rows of its allocations of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, mappings, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    MAX_LABELS,
    add_devices,
    devices_of,
    json_or_none,
    non_empty,
    shortened,
    whole_or_none,
)
from gpuwatch.collectors.yunikorn.rows import instant, integer_of, qualified_name

LABEL = "kubernetes.io/label/"
NAMESPACE, POD = "kubernetes.io/meta/namespace", "kubernetes.io/meta/podName"
JOB_LABELS = (
    "leaderworkerset.sigs.k8s.io/name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "ray.io/originated-from-cr-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""Labels that controllers set on their pods to name the workload that owns them."""
STATES = {
    "New": "pending",
    "Accepted": "pending",
    "Starting": "admitted",
    "Running": "running",
    "Completing": "running",
    "Resuming": "pending",
    "Failing": "running",
    "Completed": "finished",
    "Failed": "finished",
    "Rejected": "finished",
    "Expired": "finished",
}
ENDED = ("Completed", "Failed", "Rejected", "Expired")
APPLICATION = "application"
"""An extra column, not in any table, that links an allocation to its application."""
MAX_NODES = 10_000
"""The most nodes in the placement of an application."""


def application_row(item: Object, observed_us: int | None) -> Columns:
    """The workload row of an application. Raises Malformed.

    `device_count` is what it holds and requests, or for an ended application the most that it held.
    """
    name = string(item, "applicationID")
    if name is None:
        raise Malformed("an application has no applicationID")
    asks, held = mappings(item, "requests"), mappings(item, "allocations")
    state = string(item, "applicationState")
    log = [(string(s, "applicationState"), instant(s.get("time"))) for s in mappings(item, "stateLog")]
    groups = mappings(item, "placeholderData")
    rejection = _rejection(asks)
    tags = [mapping(part, "allocationTags") for part in (*held, *asks)]
    resource_columns, resource_detail = _resources(item, state)
    return {
        "scheduler": "yunikorn",
        "kind": "Application",
        "uid": qualified_name(string(item, "partition"), name),
        "name": name,
        "namespace": _only({string(tag, NAMESPACE) for tag in tags} - {None}),
        "job_id": _only({job_of(tag) for tag in tags}),
        "queue": string(item, "queueName"),
        "priority": max((_priority(part) for part in (*held, *asks)), default=None),
        "pod_count": _sum(asks, "pendingCount", len(held)),
        "min_count": _sum(groups, "count"),
        **resource_columns,
        "submit_us": instant(item.get("submissionTime")),
        **_time_columns(item, log, state),
        "preemptions": sum(1 for part in held if part.get("preempted") is True) or None,
        "state": STATES.get(state or ""),
        "reason": state,
        "message": shortened(string(item, "rejectedMessage") or rejection),
        "user_name": string(item, "user"),
        "placement": json_or_none(_placement(held)),
        "labels": json_or_none(_labels(tags)),
        "detail": json_or_none(resource_detail | _detail(item, asks, groups, log)),
        "observed_us": observed_us,
    }


def _detail(
    item: Object, asks: list[Object], groups: list[Object], log: list[tuple[str | None, int | None]]
) -> dict[str, object]:
    """The requests, task groups and states of an application, and the groups of its user."""
    return non_empty(
        asks=[_request_detail(ask) for ask in asks[:MAX_LABELS]],
        task_groups=[_task_group_detail(group) for group in groups],
        states=[non_empty(state=name, at_us=at) for name, at in log],
        groups=item.get("groups") if isinstance(item.get("groups"), list) else None,
        reserved=item.get("hasReserved") is True or None,
    )


def _resources(item: Object, state: str | None) -> tuple[Columns, dict[str, object]]:
    """The device columns of an application, and its resources in more detail."""
    used, other_used = devices_of(mapping(item, "usedResource"))
    pending, other_pending = devices_of(mapping(item, "pendingResource"))
    most, _ = devices_of(mapping(item, "maxUsedResource"))
    devices = most if state in ENDED else add_devices(used, pending)
    count, profile = whole_or_none(devices)
    known = any(item.get(key) is not None for key in ("usedResource", "pendingResource", "maxUsedResource"))
    other = non_empty(used=other_used, pending=other_pending)
    columns: Columns = {"device_count": count if known and (devices or not other) else None, "profile": profile}
    return columns, non_empty(devices=devices, used=used, pending=pending, other=other)


def _time_columns(item: Object, log: list[tuple[str | None, int | None]], state: str | None) -> Columns:
    def times(*names: str) -> list[int]:
        return [at for name, at in log if name in names and at is not None]

    ended_us = instant(item.get("finishedTime")) or max(times(*ENDED), default=None)
    return {
        "admitted_us": min(times("Starting", "Running"), default=None),
        "start_us": min(times("Running"), default=None),
        "end_us": ended_us if state in ENDED else None,
    }


def _request_detail(ask: Object) -> dict[str, object]:
    return non_empty(
        pod=string(mapping(ask, "allocationTags"), POD),
        count=integer_of(ask, "pendingCount"),
        task_group=string(ask, "taskGroupName"),
        devices=devices_of(mapping(ask, "resource"))[0],
        since_us=instant(ask.get("requestTime")),
    )


def _task_group_detail(group: Object) -> dict[str, object]:
    return non_empty(
        name=string(group, "taskGroupName"),
        count=integer_of(group, "count"),
        replaced=integer_of(group, "replaced"),
        timed_out=integer_of(group, "timedout"),
        devices=devices_of(mapping(group, "minResource"))[0],
    )


def _sum(items: list[Object], key: str, start: int = 0) -> int | None:
    """The sum of a member of all items, None for 0."""
    return sum((integer_of(item, key) or 0 for item in items), start) or None


def _only(values: set[str | None]) -> str | None:
    """The value that all have in common, if there is one."""
    return next(iter(values)) if len(values) == 1 else None


def claim_rows(
    allocations: list[Object],
    observed_us: int | None,
    application: str | None = None,
    queue: str | None = None,
    user: str | None = None,
) -> Iterator[Columns]:
    """One row per pod and kind of device that YuniKorn has placed. Raises Malformed.

    The allocations of an application get its name, queue and user; those of a node have some of that themselves. The
    key of an allocation is the pod's UID, which links it to other records of the pod.
    """
    for part in allocations:
        devices, _ = devices_of(mapping(part, "resource"))
        if any(devices.values()):
            shared = _pod_columns(part, observed_us, application, queue) | {"user_name": user}
            for profile, count in devices.items():
                if count:
                    yield shared | {"profile": profile or None, "device_count": count}


def _pod_columns(part: Object, observed_us: int | None, application: str | None, queue: str | None) -> Columns:
    """Columns shared by all allocations of a pod."""
    tags, node = mapping(part, "allocationTags"), string(part, "nodeId")
    pod_uid, start_us = string(part, "allocationKey"), instant(part.get("allocationTime"))
    if pod_uid is None or node is None or start_us is None:
        raise Malformed("an allocation has no allocationKey, no nodeId or no allocationTime")
    workload = _workload_columns(part, tags, pod_uid, application)
    labels = _labels([tags])
    return {
        "scheduler": "kubernetes",
        "kind": "yunikorn",
        **workload,
        "pod_uid": pod_uid,
        "node": node,
        "submit_us": instant(part.get("requestTime")),
        "start_us": start_us,
        "evidence_us": max(observed_us or 0, start_us),
        "state": "Running",
        "queue": queue or labels.get("queue") or labels.get("yunikorn.apache.org/queue"),
        "labels": json_or_none(labels),
    }


def _workload_columns(part: Object, tags: Object, pod_uid: str, application: str | None) -> Columns:
    """The pod of an allocation, its workload, and its application, which is the run of a labelled workload."""
    namespace, pod, job = string(tags, NAMESPACE) or "default", string(tags, POD), job_of(tags)
    owner = application or string(part, "applicationId") or string(part, "applicationID")
    return {
        "job_id": job or f"{namespace}/{pod or pod_uid}",
        "run_key": owner if job and owner else pod_uid,
        "pod": pod,
        "namespace": namespace,
        "name": (job or "").partition("/")[2] or pod,
        APPLICATION: owner,
    }


def job_of(tags: Object) -> str | None:
    """`namespace/name` of the workload in a pod's labels, None without such a label."""
    for key in JOB_LABELS:
        if name := string(tags, LABEL + key):
            return f"{string(tags, NAMESPACE) or 'default'}/{name}"
    return None


def _labels(tags: list[Object]) -> dict[str, str]:
    """The pod labels that all have in common."""
    common: dict[str, str] | None = None
    for tag in tags:
        labels = {k.removeprefix(LABEL): v for k, v in tag.items() if k.startswith(LABEL) and isinstance(v, str)}
        common = labels if common is None else {k: v for k, v in common.items() if labels.get(k) == v}
    return dict(sorted((common or {}).items())[:MAX_LABELS])


def _placement(held: list[Object]) -> list[dict[str, Any]]:
    """The number of pods by node."""
    nodes: dict[str, int] = {}
    for part in held:
        if node := string(part, "nodeId"):
            nodes[node] = nodes.get(node, 0) + 1
    return [{"node": node, "count": count} for node, count in sorted(nodes.items())[:MAX_NODES]]


def _rejection(asks: list[Object]) -> str | None:
    """The newest message why a request cannot be placed; of equally old ones the most frequent."""
    messages = [
        (_order(entry.get("lastOccurrence")), integer_of(entry, "count") or 0, string(entry, "message") or "")
        for ask in asks
        for entry in mappings(ask, "allocationLog")
    ]
    return max(messages)[2] or None if messages else None


def _order(value: object) -> int:
    """A number to sort by, because times in these logs may be invalid."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _priority(part: Object) -> int:
    """The priority, which YuniKorn writes as text."""
    text = str(part.get("priority") or 0)
    return int(text) if text.lstrip("-").isdigit() and len(text) < 12 else 0
