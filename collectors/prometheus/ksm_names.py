"""Restores the Kubernetes names of labels and resources that Prometheus and kube-state-metrics rewrote."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuwatch.collectors.kubernetes.nodes import POOL_LABELS
from gpuwatch.collectors.kubernetes.owner import QUEUE_KEYS, USER_KEYS
from gpuwatch.collectors.shared.cloud_labels import CLOUD_LABELS

RESOURCES = r"nvidia_com_.*|nvidia\\.com/.*"
"""Matcher for GPU resources: the names of kube-state-metrics and of the scheduler."""
OWN_LABELS = ("namespace", "pod", "node", "container", "uid", "job_name")
"""Labels that Prometheus renames to exported_... if the scrape target has one of that name."""
_OTHER_KEYS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/part-of",
    "batch.kubernetes.io/job-name",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
    "job-name",
    "gpuwatch.io/team",
    "jobset.sigs.k8s.io/jobset-name",
    "jobset.sigs.k8s.io/jobset-uid",
    "kueue.x-k8s.io/podset",
    "kueue.x-k8s.io/priority-class",
    "leaderworkerset.sigs.k8s.io/group-key",
    "leaderworkerset.sigs.k8s.io/name",
    "pod-template-hash",
    "rollouts-pod-template-hash",
    "ray.io/cluster",
    "ray.io/group",
    "ray.io/node-type",
    "ray.io/originated-from-cr-name",
    "ray.io/originated-from-crd",
    "spark-app-selector",
    "training.kubeflow.org/job-name",
    "training.kubeflow.org/job-role",
    "training.kubeflow.org/replica-type",
    "volcano.sh/job-name",
    "volcano.sh/task-spec",
    "scheduling.volcano.sh/queue-name",
    "kubernetes.io/hostname",
    *CLOUD_LABELS,
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "nvidia.com/gpu.clique",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.family",
    "nvidia.com/gpu.machine",
    "nvidia.com/gpu.memory",
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/mig.capable",
    "nvidia.com/mig.config",
    "nvidia.com/mig.config.state",
    "nvidia.com/mig.strategy",
)
_PREFIXES = {
    "network_topology_nvidia_com_": "network.topology.nvidia.com/",
    "topology_kubernetes_io_": "topology.kubernetes.io/",
    "fabric_topograph_": "fabric.topograph.",
    "accelerator_topograph_": "accelerator.topograph.",
    "gpuwatch_io_": "gpuwatch.io/",
}
_MIG_LABEL = re.compile(r"nvidia_com_mig_((?:\d+c_)?\d+g)_(\d+gb)((?:_[a-z]+)*?)_(count|replicas|memory|product)")


def _sanitised(key: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


_KEYS = {_sanitised(key): key for key in (*_OTHER_KEYS, *POOL_LABELS, *USER_KEYS, *QUEUE_KEYS)}


def label_key(label: str) -> str:
    """The Kubernetes label key of a name after `label_`; an unknown name is returned unchanged."""
    if key := _KEYS.get(label):
        return key
    if mig := _MIG_LABEL.fullmatch(label):
        return f"nvidia.com/mig-{mig[1].replace('_', '.')}.{mig[2]}{mig[3].replace('_', '.')}.{mig[4]}"
    return next((real + label[len(flat) :] for flat, real in _PREFIXES.items() if label.startswith(flat)), label)


def kubernetes_labels(series: Mapping[str, str]) -> dict[str, str]:
    """The Kubernetes labels of a series of kube_pod_labels or kube_node_labels."""
    return {label_key(name[6:]): value for name, value in sorted(series.items()) if name.startswith("label_")}


def resource_name(text: str) -> str:
    """The Kubernetes name of a resource: `nvidia_com_mig_1g_10gb` -> `nvidia.com/mig-1g.10gb`."""
    for start in ("requests", "limits"):
        for mark in (".", "_"):
            if text.startswith(f"{start}{mark}nvidia"):
                return f"{start}.{resource_name(text[len(start) + 1 :])}"
    if not text.startswith("nvidia_com_"):
        return text
    name = text.removeprefix("nvidia_com_")
    if name.startswith("mig_"):
        return f"nvidia.com/mig-{name.removeprefix('mig_').replace('_', '.')}"
    return f"nvidia.com/{name.replace('_', '.')}"


def original_labels(series: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Label sets with the names that kube-state-metrics gave them.

    A scrape without honor_labels moves labels to exported_... If any series of an answer has a moved label, the plain
    name belongs to the target in all of them, since an empty value (e.g. of a pod without node) is not moved.
    """
    found = [dict(labels) for labels in series]
    for name in OWN_LABELS:
        moved = f"exported_{name}"
        if any(moved in labels for labels in found):
            for labels in found:
                labels[name] = labels.pop(moved, "")
    return found
