"""KubeRay's RayCluster, RayJob and RayService as workloads; their pods hold the GPUs and are recorded as claims."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    conditions,
    created_us,
    identity,
    is_true,
    labels_json,
    last_changed_us,
    newest,
    pod_devices,
    true_since,
    user_of,
)
from gpuwatch.collectors.kubernetes.owner import QUEUE_KEYS
from gpuwatch.collectors.shared.json_fields import (
    Malformed,
    Object,
    integer,
    labels_of,
    mapping,
    mappings,
    moment,
    string,
)
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    Devices,
    add_devices,
    json_or_none,
    non_empty,
    shortened,
    whole_or_none,
)

GROUP = "ray.io"
VERSIONS = ("v1", "v1alpha1")
MAX_GROUPS = 100
CREATOR = "ray.io/originated-from-cr-name"
"""Label of a RayCluster created by a RayJob or RayService: the job that its pods belong to."""
PRIORITY = "ray.io/priority-class-name"
JOB_STATES = {
    "PENDING": "pending",
    "RUNNING": "running",
    "STOPPED": "finished",
    "SUCCEEDED": "finished",
    "FAILED": "finished",
}
DEPLOYMENT_STATES = {
    "Initializing": "pending",
    "Waiting": "pending",
    "Retrying": "pending",
    "Running": "running",
    "Suspending": "evicted",
    "Suspended": "evicted",
    "Complete": "finished",
    "Failed": "finished",
    "ValidationFailed": "finished",
}
"""Deployment states of a RayJob. Suspended: Kueue has not admitted it, or has evicted it."""


@object_kind("RayCluster", GROUP, "rayclusters", VERSIONS)
def ray_cluster(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a RayCluster. Raises Malformed."""
    spec, status, found = mapping(item, "spec"), mapping(item, "status"), conditions(item)
    word = string(status, "state")
    times = mapping(status, "stateTransitionTimes")
    ready_us = true_since(found.get("RayClusterProvisioned")) or moment(times, "ready")
    suspended = spec.get("suspend") is True or word == "suspended" or is_true(found.get("RayClusterSuspended"))
    failed = found.get("ReplicaFailure")
    creator = labels_of(item).get(CREATOR)
    row = _row(item, "RayCluster", spec, observed_us)
    yield (
        "workload",
        row
        | {
            "job_id": f"{row['namespace']}/{creator}" if creator else row["job_id"],
            "start_us": ready_us,
            "evicted_us": _suspended_us(found, times) if suspended else None,
            "state": "evicted" if suspended else "running" if word == "ready" or ready_us else "pending",
            "reason": (string(failed, "reason") if failed is not None and is_true(failed) else None) or word,
            "message": shortened(string(status, "reason")),
        },
    )


@object_kind("RayJob", GROUP, "rayjobs", VERSIONS)
def ray_job(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a RayJob. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    job, deployment = string(status, "jobStatus"), string(status, "jobDeploymentStatus")
    state = DEPLOYMENT_STATES.get(deployment or "")
    if state in (None, "running") and job in JOB_STATES:
        state = JOB_STATES[job]
    if spec.get("suspend") is True and state in (None, "pending"):
        state = "pending" if moment(status, "startTime") is None else "evicted"
    yield (
        "workload",
        _row(item, "RayJob", mapping(spec, "rayClusterSpec"), observed_us)
        | {
            "start_us": moment(status, "startTime") if state in ("running", "finished", "evicted") else None,
            "end_us": moment(status, "endTime"),
            "state": state or "pending",
            "reason": string(status, "reason") or job or deployment,
            "message": shortened(string(status, "message")),
        },
    )


@object_kind("RayService", GROUP, "rayservices", VERSIONS)
def ray_service(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a RayService. Raises Malformed."""
    spec, status, found = mapping(item, "spec"), mapping(item, "status"), conditions(item)
    ready = found.get("Ready")
    word = string(status, "serviceStatus")
    serves = is_true(ready) or (ready is None and word == "Running")
    # v1alpha1 has the cluster's status below its own name, v1 below activeServiceStatus.
    spec_of = mapping(spec, "rayClusterConfig") or mapping(spec, "rayClusterSpec")
    yield (
        "workload",
        _row(item, "RayService", spec_of, observed_us)
        | {
            "start_us": true_since(ready),
            "state": "running" if serves else "pending",
            "reason": (string(ready, "reason") if ready is not None else None) or word,
            "message": shortened(string(ready, "message")) if ready is not None else None,
        },
    )


def groups_of(spec: Object) -> list[dict[str, Any]]:
    """The head and the worker groups of a RayCluster's spec: requested pods and their devices. Raises Malformed."""
    head = mapping(spec, "headGroupSpec")
    found = [_group("head", mapping(head, "template"), 1, 1)] if head else []
    for number, group in enumerate(mappings(spec, "workerGroupSpecs")[:MAX_GROUPS]):
        hosts = integer(group, "numOfHosts") or 1
        least = integer(group, "minReplicas") or 0
        wanted = integer(group, "replicas")
        count = 0 if group.get("suspend") is True else max(least, least if wanted is None else wanted) * hosts
        if count < 0 or hosts < 0:
            raise Malformed("replicas are negative")
        name = string(group, "groupName") or f"group {number}"
        found.append(_group(name, mapping(group, "template"), count, min(least * hosts, count)))
    return found


def _group(name: str, template: Object, count: int, least: int) -> dict[str, Any]:
    devices, other = pod_devices(template, count)
    return {"group": name, "pods": count, "least": least, "devices": devices, "other": other}


def _row(item: Object, kind: str, spec: Object, observed_us: int | None) -> Columns:
    """Columns that the three kinds share; `spec` is that of the cluster, empty for a job on an existing cluster."""
    uid, name, namespace = identity(item)
    groups = groups_of(spec)
    devices: Devices = add_devices(*(group["devices"] for group in groups))
    count, profile = whole_or_none(devices)
    status, labels, notes = mapping(item, "status"), labels_of(item), labels_of(item, "annotations")
    detail = non_empty(
        cluster=string(status, "rayClusterName"),
        ray_job=string(status, "jobId"),
        desired_workers=integer(status, "desiredWorkerReplicas"),
        ready_workers=integer(status, "readyWorkerReplicas"),
        groups=[non_empty(**{key: value for key, value in group.items() if key != "least"}) for group in groups],
        version=string(spec, "rayVersion"),
    )
    return {
        "scheduler": "ray",
        "kind": kind,
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": f"{namespace}/{name}",
        "queue": next((place[key] for key in QUEUE_KEYS for place in (labels, notes) if place.get(key)), None),
        "priority_class": labels.get(PRIORITY) or labels.get("kueue.x-k8s.io/priority-class"),
        "pod_count": sum(group["pods"] for group in groups) or None,
        "min_count": sum(group["least"] for group in groups) or None,
        "device_count": count if groups else None,
        "profile": profile,
        "submit_us": created_us(item),
        "user_name": user_of(item),
        "labels": labels_json(item),
        "detail": json_or_none(detail),
        "observed_us": newest(observed_us, None if observed_us is not None else _last_changed_us(item)),
    }


def _last_changed_us(item: Object) -> int | None:
    status = mapping(item, "status")
    times = [moment(status, name) for name in ("startTime", "endTime", "lastUpdateTime")]
    return newest(last_changed_us(item, conditions(item).values()), *times)


def _suspended_us(found: dict[str, Object], times: Object) -> int | None:
    return true_since(found.get("RayClusterSuspended")) or moment(times, "suspended")
