"""YuniKorn's applications as workload rows, and its allocations of GPUs as claims."""

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
from gpuwatch.collectors.yunikorn.rows import counted, instant, placed_in

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
"""Labels that controllers give to their pods: the workload that the Kubernetes API would name as owner."""
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
"""A column that no table has: whose a claim is, for those that look at several answers."""
MAX_NODES = 10_000
"""Nodes of the placement of one application."""


def application_row(item: Object, observed_us: int | None) -> Columns:
    """The workload row of an application. `device_count` is what it holds and asks for; of an ended one the most that
    it held. Raises Malformed.
    """
    name = string(item, "applicationID")
    if name is None:
        raise Malformed("an application has no applicationID")
    asks, held = mappings(item, "requests"), mappings(item, "allocations")
    state = string(item, "applicationState")
    log = [(string(s, "applicationState"), instant(s.get("time"))) for s in mappings(item, "stateLog")]
    began = [at for word, at in log if word in ("Starting", "Running") and at is not None]
    over = [at for word, at in log if word in ENDED and at is not None]
    used, other_used = devices_of(mapping(item, "usedResource"))
    waiting, other_waiting = devices_of(mapping(item, "pendingResource"))
    most, _ = devices_of(mapping(item, "maxUsedResource"))
    devices = most if state in ENDED else add_devices(used, waiting)
    count, profile = whole_or_none(devices)
    told = any(item.get(key) is not None for key in ("usedResource", "pendingResource", "maxUsedResource"))
    other = non_empty(used=other_used, pending=other_waiting)
    pods = len(held) + sum(counted(ask, "pendingCount") or 0 for ask in asks)
    groups = mappings(item, "placeholderData")
    refusal = _refusal(asks)
    tags = [mapping(part, "allocationTags") for part in (*held, *asks)]
    namespaces = {string(tag, NAMESPACE) for tag in tags} - {None}
    jobs = {job_of(tag) for tag in tags}
    return {
        "scheduler": "yunikorn",
        "kind": "Application",
        "uid": placed_in(string(item, "partition"), name),
        "name": name,
        "namespace": next(iter(namespaces)) if len(namespaces) == 1 else None,
        "job_id": next(iter(jobs)) if len(jobs) == 1 else None,
        "queue": string(item, "queueName"),
        "priority": max((_priority(part) for part in (*held, *asks)), default=None),
        "pod_count": pods or None,
        "min_count": sum(counted(group, "count") or 0 for group in groups) or None,
        "device_count": count if told and (devices or not other) else None,
        "profile": profile,
        "submit_us": instant(item.get("submissionTime")),
        "admitted_us": min(began, default=None),
        "start_us": min((at for word, at in log if word == "Running" and at is not None), default=None),
        "end_us": instant(item.get("finishedTime")) or max(over, default=None) if state in ENDED else None,
        "preemptions": sum(1 for part in held if part.get("preempted") is True) or None,
        "state": STATES.get(state or ""),
        "reason": state,
        "message": shortened(string(item, "rejectedMessage") or refusal),
        "user_name": string(item, "user"),
        "placement": json_or_none(_placement(held)),
        "labels": json_or_none(_labels(tags)),
        "detail": json_or_none(
            non_empty(
                devices=devices,
                used=used,
                pending=waiting,
                other=other,
                asks=[
                    non_empty(
                        pod=string(mapping(ask, "allocationTags"), POD),
                        count=counted(ask, "pendingCount"),
                        task_group=string(ask, "taskGroupName"),
                        devices=devices_of(mapping(ask, "resource"))[0],
                        since_us=instant(ask.get("requestTime")),
                    )
                    for ask in asks[:MAX_LABELS]
                ],
                task_groups=[
                    non_empty(
                        name=string(group, "taskGroupName"),
                        count=counted(group, "count"),
                        replaced=counted(group, "replaced"),
                        timed_out=counted(group, "timedout"),
                        devices=devices_of(mapping(group, "minResource"))[0],
                    )
                    for group in groups
                ],
                states=[non_empty(state=word, at_us=at) for word, at in log],
                groups=item.get("groups") if isinstance(item.get("groups"), list) else None,
                reserved=item.get("hasReserved") is True or None,
            )
        ),
        "observed_us": observed_us,
    }  # fmt: skip


def claim_rows(
    allocations: list[Object],
    observed_us: int | None,
    application: str | None = None,
    queue: str | None = None,
    user: str | None = None,
) -> Iterator[Columns]:
    """A claim a pod and kind of device that YuniKorn has placed. Raises Malformed.

    An application's own words name it, its queue and user; a node's allocations say some of it themselves. An
    allocation's key is the pod's UID, so that a record of the pod itself is known to be of the same pod.
    """
    for part in allocations:
        tags, node = mapping(part, "allocationTags"), string(part, "nodeId")
        pod_uid, start_us = string(part, "allocationKey"), instant(part.get("allocationTime"))
        devices, _ = devices_of(mapping(part, "resource"))
        if not any(devices.values()):
            continue
        if pod_uid is None or node is None or start_us is None:
            raise Malformed("an allocation has no allocationKey, no nodeId or no allocationTime")
        namespace, pod, job = string(tags, NAMESPACE) or "default", string(tags, POD), job_of(tags)
        owner = application or string(part, "applicationId") or string(part, "applicationID")
        gang = owner if job is not None and owner else pod_uid
        labels = _labels([tags])
        for profile, count in devices.items():
            if not count:
                continue
            yield {
                "scheduler": "kubernetes",
                "kind": "yunikorn",
                "job_id": job or f"{namespace}/{pod or pod_uid}",
                "run_key": gang,
                "pod_uid": pod_uid,
                "pod": pod,
                "namespace": namespace,
                "node": node,
                "profile": profile or None,
                "device_count": count,
                "submit_us": instant(part.get("requestTime")),
                "start_us": start_us,
                "evidence_us": max(observed_us or 0, start_us),
                "state": "Running",
                "user_name": user,
                "queue": queue or labels.get("queue") or labels.get("yunikorn.apache.org/queue"),
                "name": (job or "").partition("/")[2] or pod,
                "labels": json_or_none(labels),
                APPLICATION: owner,
            }


def job_of(tags: Object) -> str | None:
    """`namespace/name` of the workload that a pod's labels name, None where they name none."""
    for key in JOB_LABELS:
        if name := string(tags, LABEL + key):
            return f"{string(tags, NAMESPACE) or 'default'}/{name}"
    return None


def _labels(tags: list[Object]) -> dict[str, str]:
    """Pod labels that all of these have in common."""
    common: dict[str, str] | None = None
    for tag in tags:
        mine = {k.removeprefix(LABEL): v for k, v in tag.items() if k.startswith(LABEL) and isinstance(v, str)}
        common = mine if common is None else {k: v for k, v in common.items() if mine.get(k) == v}
    return dict(sorted((common or {}).items())[:MAX_LABELS])


def _placement(held: list[Object]) -> list[dict[str, Any]]:
    """Pods by node."""
    nodes: dict[str, int] = {}
    for part in held:
        if node := string(part, "nodeId"):
            nodes[node] = nodes.get(node, 0) + 1
    return [{"node": node, "count": count} for node, count in sorted(nodes.items())[:MAX_NODES]]


def _refusal(asks: list[Object]) -> str | None:
    """The newest word why a request finds no place; of equally old ones the most frequent."""
    logs = [entry for ask in asks for entry in mappings(ask, "allocationLog")]
    known = [
        (counted_time(entry.get("lastOccurrence")), counted(entry, "count") or 0, string(entry, "message") or "")
        for entry in logs
    ]
    return max(known)[2] or None if known else None


def counted_time(value: object) -> int:
    """A number to order by: times of these logs may lie outside of any calendar."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _priority(part: Object) -> int:
    """YuniKorn writes priorities as text."""
    text = str(part.get("priority") or 0)
    return int(text) if text.lstrip("-").isdigit() and len(text) < 12 else 0
