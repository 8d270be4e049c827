"""The owner of a pod: its workload, run, queue and user."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from gpuwatch.collectors.shared.json_fields import Malformed, Object, labels_of, mapping, mappings, string

GANG_KINDS = frozenset(
    {
        "Job", "JobSet", "PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob",
        "RayJob", "RayCluster", "RayService", "Workflow", "PodGroup", "VolcanoJob", "AppWrapper", "SparkApplication",
    }
)  # fmt: skip
"""Controllers whose pods work together: all pods of one controller UID are one run. With any other controller
(Deployment, StatefulSet, DaemonSet) or none, each pod UID is a run, even if a pod's name is reused."""

QUEUE_KEYS = (
    "kueue.x-k8s.io/queue-name",
    "kueue.x-k8s.io/local-queue-name",
    "kueue.x-k8s.io/cluster-queue-name",
    "scheduling.volcano.sh/queue-name",
    "volcano.sh/queue-name",
    "yunikorn.apache.org/queue",
    "kai.scheduler/queue",
    "runai/queue",
    "queue",
)
USER_KEYS = ("gpuwatch.io/user", "hub.jupyter.org/username", "yunikorn.apache.org/username", "user", "username")
GROUP_KEYS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "volcano.sh/group-name",
    "kueue.x-k8s.io/pod-group-name",
    "pod-group-name",
)
"""Labels and annotations with the name of a pod's gang (PodGroup), as coscheduling, Volcano, Kueue and KAI write them."""
_MADE_GROUP = re.compile(r"(?:podgroup|pg-.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A PodGroup that Volcano or KAI makes for every pod or controller without one: its name means nothing to a person."""
_HASH_LABELS = ("pod-template-hash", "rollouts-pod-template-hash")
_JOB_LABEL, _ROLE_LABEL = "training.kubeflow.org/job-name", "training.kubeflow.org/job-role"
# Template hashes consist of these characters only; used if a dump lacks the label.
_HASHED_NAME = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}")


@dataclass(frozen=True)
class Owner:
    """The workload of a pod."""

    job_id: str
    """`namespace/name` of the workload, or of the pod itself."""
    run_key: str
    name: str
    queue: str | None
    user_name: str | None


def owner_of(pod: Object) -> Owner:
    """Derives a pod's owner from the pod alone, so that the result does not depend on other objects in a dump."""
    metadata = mapping(pod, "metadata")
    pod_name, pod_uid = string(metadata, "name"), string(metadata, "uid")
    if not pod_name or not pod_uid:
        raise Malformed("metadata has no name or no uid")
    namespace = string(metadata, "namespace") or "default"
    labels, annotations = labels_of(pod), labels_of(pod, "annotations")
    name, run_key = _workload(metadata, labels, pod_name, pod_uid)
    group = _first(GROUP_KEYS, labels, annotations)
    if group and run_key == pod_uid and not _MADE_GROUP.fullmatch(group):
        # Pods of a gang are one run; those without a controller have no other common name.
        name, run_key = (group if name == pod_name else name), f"group {namespace}/{group}"
    return Owner(
        f"{namespace}/{name}",
        run_key,
        name,
        _first(QUEUE_KEYS, labels, annotations),
        _first(USER_KEYS, labels, annotations) or _yunikorn_user(annotations),
    )


def _workload(metadata: Object, labels: dict[str, str], pod_name: str, pod_uid: str) -> tuple[str, str]:
    """(name of the workload, run key) of the outermost workload that the pod's own labels name."""
    references = mappings(metadata, "ownerReferences")
    controller: Object = next((r for r in references if r.get("controller") is True), {})
    kind, name, uid = (string(controller, key) for key in ("kind", "name", "uid"))
    if group := labels.get("leaderworkerset.sigs.k8s.io/name"):
        return group, labels.get("leaderworkerset.sigs.k8s.io/group-key") or pod_uid
    if not kind or not name or not uid or kind == "Node":
        return pod_name, pod_uid  # the controller of a static pod is its node
    run_key = uid if kind in GANG_KINDS else pod_uid
    if jobset := labels.get("jobset.sigs.k8s.io/jobset-name"):
        return jobset, labels.get("jobset.sigs.k8s.io/jobset-uid") or run_key
    return _above_controller(kind, name, labels), run_key


def _above_controller(kind: str, name: str, labels: dict[str, str]) -> str:
    """The name of the workload that made a controller, or of the controller itself if the labels name none."""
    if kind == "Job" and labels.get(_ROLE_LABEL) == "launcher":
        return labels.get(_JOB_LABEL) or name  # an MPIJob starts its launcher through a Job
    if kind == "RayCluster":
        return labels.get("ray.io/originated-from-cr-name") or name
    return _without_hash(name, labels) if kind == "ReplicaSet" else name


def _without_hash(name: str, labels: dict[str, str]) -> str:
    """The Deployment of a ReplicaSet: its name without the template hash, as labelled or by its characters."""
    suffixes = [f"-{labels[key]}" for key in _HASH_LABELS if labels.get(key)]
    if suffixes:
        return next((name.removesuffix(s) for s in suffixes if name.endswith(s)), name)
    stem = _HASHED_NAME.fullmatch(name)
    return stem[1] if stem else name


def _first(keys: tuple[str, ...], *places: dict[str, str]) -> str | None:
    return next((place[key] for key in keys for place in places if place.get(key)), None)


def _yunikorn_user(annotations: dict[str, str]) -> str | None:
    try:
        info = json.loads(annotations.get("yunikorn.apache.org/user.info") or "{}")
    except (json.JSONDecodeError, RecursionError):
        return None
    user = info.get("user") if isinstance(info, dict) else None
    return user if isinstance(user, str) and user else None
