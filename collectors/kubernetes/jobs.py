"""Jobs of Kubernetes and Kubeflow as workload rows: gang size, requested devices and progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.owner import QUEUE_KEYS
from gpuwatch.collectors.kubernetes.pods import gpu_resources
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
from gpuwatch.collectors.shared.resource_lists import json_or_none, profile_of

MAX_MESSAGE = 1000
MAX_LABELS = 100
MAX_ROLES = 100
KUBEFLOW = "kubeflow.org"
PARTS_OF = frozenset(
    {"JobSet", "TrainJob", "MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "RayJob", "RayCluster"}
)
"""Controllers that are gangs themselves: their Jobs and JobSets are part of that gang."""
DONE = {"Complete": "Complete", "Completed": "Completed", "Succeeded": "Succeeded", "Failed": "Failed"}


@dataclass(frozen=True)
class Role:
    """A group of identical pods of a job."""

    pods: int
    template: Object


@object_kind("Job", "batch", "jobs", ("v1",))
def job(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a Job whose pods ask for GPUs, unless it is part of another workload. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    if _is_part(item):
        return
    pods = _job_pods(spec)
    row = _row(item, "Job", [Role(pods, mapping(spec, "template"))], observed_us)
    if row is None:
        return
    active, ready = integer(status, "active") or 0, integer(status, "ready") or 0
    state = _state(status, spec.get("suspend") is True, active > 0)
    times = {"start_us": moment(status, "startTime"), "end_us": _end(status, moment(status, "completionTime"))}
    counts = {key: n for key in ("succeeded", "failed") if (n := integer(status, key))}
    yield "workload", row | state | times | {"detail": _detail(row, {"active": active, "ready": ready} | counts)}


@object_kind("JobSet", "jobset.x-k8s.io", "jobsets", ("v1alpha2",))
def job_set(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a JobSet: replicated jobs, each with its pods. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    if _is_part(item):
        return
    roles = []
    for part in mappings(spec, "replicatedJobs")[:MAX_ROLES]:
        inner = mapping(mapping(part, "template"), "spec")
        roles.append(Role(_count(part, "replicas") * _job_pods(inner), mapping(inner, "template")))
    row = _row(item, "JobSet", roles, observed_us)
    if row is None:
        return
    active = any(integer(part, "active") for part in mappings(status, "replicatedJobsStatus"))
    state = _state(status, spec.get("suspend") is True, active)
    restarts = {"restarts": n} if (n := integer(status, "restarts")) else {}
    yield "workload", row | state | {"end_us": _end(status, None), "detail": _detail(row, restarts)}


@object_kind("TrainJob", "trainer.kubeflow.org", "trainjobs", ("v1alpha1",))
def train_job(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a TrainJob; without what its runtime adds. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    trainer = mapping(spec, "trainer")
    nodes = integer(trainer, "numNodes")
    container = {"resources": mapping(trainer, "resourcesPerNode")}
    role = Role(1 if nodes is None else nodes, {"spec": {"containers": [container]}})
    row = _row(item, "TrainJob", [role], observed_us, certain=bool(container["resources"]))
    if row is None:
        return
    if nodes is None:
        row |= {"pod_count": None, "device_count": None}
    active = any(integer(part, "active") for part in mappings(status, "jobsStatus"))
    state = _state(status, spec.get("suspend") is True, active)
    yield "workload", row | state | {"end_us": _end(status, None)}


def _training_job(kind: str, replicas: str) -> Callable[[Object, int | None], Rows]:
    def read(item: Object, observed_us: int | None) -> Rows:
        """The workload row of a job of the training operator: its roles, its gang, its conditions."""
        spec, status = mapping(item, "spec"), mapping(item, "status")
        specs = mapping(spec, replicas)
        named = [(name, mapping(specs, name)) for name in sorted(specs)[:MAX_ROLES]]
        roles = [Role(_count(role, "replicas"), mapping(role, "template")) for _, role in named]
        row = _row(item, kind, roles, observed_us)
        if row is None:
            return
        policy = mapping(spec, "runPolicy")
        gang = mapping(policy, "schedulingPolicy")
        suspended = (policy.get("suspend") if "suspend" in policy else spec.get("suspend")) is True
        running = _condition(status, "Running") is not None
        times = {"start_us": moment(status, "startTime"), "end_us": _end(status, moment(status, "completionTime"))}
        scheduling = {
            "min_count": integer(gang, "minAvailable") or integer(mapping(spec, "elasticPolicy"), "minReplicas"),
            "queue": row["queue"] or string(gang, "queue"),
            "priority_class": string(gang, "priorityClass") or row["priority_class"],
            "detail": _detail(row, {"roles": {name: _count(role, "replicas") for name, role in named}}),
        }
        yield "workload", row | scheduling | _state(status, suspended, running) | times

    return read


for _kind, _plural, _replicas, _versions in (
    ("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", ("v1",)),
    ("TFJob", "tfjobs", "tfReplicaSpecs", ("v1",)),
    ("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs", ("v1",)),
    ("PaddleJob", "paddlejobs", "paddleReplicaSpecs", ("v1",)),
    ("JAXJob", "jaxjobs", "jaxReplicaSpecs", ("v1",)),
    ("MPIJob", "mpijobs", "mpiReplicaSpecs", ("v2beta1", "v1")),
):
    object_kind(_kind, KUBEFLOW, _plural, _versions)(_training_job(_kind, _replicas))


def _row(
    item: Object, kind: str, roles: list[Role], observed_us: int | None, certain: bool = True
) -> dict[str, Any] | None:
    """The columns that all jobs share; None if no pod asks for GPUs. Unless `certain`, missing requests are unknown."""
    metadata = mapping(item, "metadata")
    name, uid = string(metadata, "name"), string(metadata, "uid")
    if not name or not uid:
        raise Malformed("metadata has no name or no uid")
    requested = _requested(roles)
    if requested is None and certain:
        return None
    namespace, labels = string(metadata, "namespace") or "default", labels_of(item)
    specs = [mapping(role.template, "spec") for role in roles]
    return {
        "scheduler": "kubernetes",
        "kind": kind,
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": f"{namespace}/{name}",
        "queue": next((labels[key] for key in QUEUE_KEYS if labels.get(key)), None),
        "priority_class": next((p for spec in specs if (p := string(spec, "priorityClassName"))), None),
        "priority": next((value for spec in specs if (value := _priority(spec)) is not None), None),
        "pod_count": sum(role.pods for role in roles),
        **(requested or {"device_count": None, "profile": None, "detail": None}),
        "submit_us": moment(metadata, "creationTimestamp"),
        "labels": json_or_none(dict(sorted(labels.items())[:MAX_LABELS])),
        "observed_us": observed_us,
    }


def _requested(roles: list[Role]) -> dict[str, Any] | None:
    """The columns of the devices that all pods ask for together; None if no pod asks for GPUs.

    Devices of DRA claims are not in a pod template, so their number is unknown.
    """
    devices: dict[str, int] = {}
    for role in roles:
        for resource, count in gpu_resources(role.template).items():
            profile = profile_of(resource) or ""
            devices[profile] = devices.get(profile, 0) + count * role.pods
    claimed = any(mappings(mapping(role.template, "spec"), "resourceClaims") for role in roles)
    if not devices and not claimed:
        return None
    return {
        "device_count": None if claimed else sum(devices.values()),
        "profile": next(iter(devices)) or None if len(devices) == 1 else None,
        "detail": json_or_none({"devices": devices}) if len(devices) > 1 else None,
    }


def _state(status: Object, suspended: bool, running: bool) -> dict[str, Any]:
    """State (finished, running or pending) with the condition that explains it."""
    over = next((c for kind in DONE if (c := _condition(status, kind))), None)
    if over is not None:
        return {"state": "finished"} | _why(over)
    if suspended:
        return {"state": "pending", "reason": "Suspended"} | _message(_condition(status, "Suspended"))
    return {"state": "running" if running else "pending"}


def _end(status: Object, reported_us: int | None) -> int | None:
    """When the job ended: as reported, otherwise from its final condition."""
    over = next((c for kind in DONE if (c := _condition(status, kind))), None)
    return reported_us if reported_us is not None or over is None else moment(over, "lastTransitionTime")


def _condition(status: Object, kind: str) -> Object | None:
    conditions = mappings(status, "conditions")
    return next((c for c in conditions if c.get("type") == kind and c.get("status") == "True"), None)


def _why(condition: Object) -> dict[str, Any]:
    return {"reason": string(condition, "reason") or string(condition, "type")} | _message(condition)


def _message(condition: Object | None) -> dict[str, Any]:
    text = string(condition, "message") if condition else None
    return {"message": text[:MAX_MESSAGE]} if text else {}


def _is_part(item: Object) -> bool:
    owners = mappings(mapping(item, "metadata"), "ownerReferences")
    return any(owner.get("controller") is True and string(owner, "kind") in PARTS_OF for owner in owners)


def _job_pods(spec: Object) -> int:
    """Number of pods of a Job that run at the same time."""
    parallel, completions = _count(spec, "parallelism"), integer(spec, "completions")
    return parallel if completions is None else min(parallel, completions)


def _count(parent: Object, key: str) -> int:
    count = integer(parent, key)
    return 1 if count is None else count


def _priority(spec: Object) -> int | None:
    value = spec.get("priority")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _detail(row: dict[str, Any], more: dict[str, Any]) -> str | None:
    return json_or_none(json.loads(row["detail"] or "{}") | {key: value for key, value in more.items() if value})
