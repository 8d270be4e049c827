"""Kubernetes nodes with GPUs: what they have, how it is cut, and whether it can be used."""

from __future__ import annotations

import json
import re
from typing import Any

from gpuwatch.collectors.kubernetes_json import (
    Malformed,
    Object,
    integer,
    labels_of,
    mapping,
    mappings,
    moment,
    string,
)
from gpuwatch.collectors.kubernetes_pods import MIG_PREFIX, profile_of

MAX_LABELS = 300
POOL_LABELS = (
    "nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
)
KEPT_LABELS = re.compile(
    r"nvidia\.com/|topology\.|network\.topology\.|fabric\.topograph\.|accelerator\.topograph\."
    r"|cloud\.google\.com/gce-topology-|oci\.oraclecloud\.com/host\.|gpuwatch\.io/"
)
DROPPED_LABELS = re.compile(r"nvidia\.com/(?:gpu\.deploy\.|gfd\.timestamp|cuda\.(?:driver\.|runtime))")
CORDON_TAINT = "node.kubernetes.io/unschedulable"

_mig_product = re.compile(r"-MIG-(?P<profile>[0-9]+g\.[0-9]+gb(?:[.+][a-z.]+)?)$")


def node_row(node: Object, observed_us: int | None) -> dict[str, Any] | None:
    """The node row of a Node object, None for a node without GPUs. Raises Malformed.

    `observed_us` is used where no condition of the node carries a heartbeat.
    """
    name = string(mapping(node, "metadata"), "name")
    if not name:
        raise Malformed("metadata has no name")
    labels, capacity = labels_of(node), _capacity(node)
    if not capacity and "nvidia.com/gpu.product" not in labels and "nvidia.com/gpu.count" not in labels:
        return None
    conditions = mappings(mapping(node, "status"), "conditions")
    beats = [t for t in (moment(c, "lastHeartbeatTime") for c in conditions) if t is not None]
    state, since, reason = _state(node, conditions)
    devices = _devices(labels, capacity)
    sharing, replicas = _sharing(labels, capacity)
    kept = _kept(labels)
    return {
        "scheduler": "kubernetes",
        "node": name,
        "observed_us": max(beats, default=observed_us),
        "state": state,
        "since_us": since,
        "reason": reason,
        "gpu_model": _model(labels),
        "devices": json.dumps(devices, separators=(",", ":")) if devices else None,
        "sharing": sharing,
        "replicas": replicas,
        "mig_strategy": labels.get("nvidia.com/mig.strategy"),
        "pool": next((labels[key] for key in POOL_LABELS if labels.get(key)), None),
        "labels": json.dumps(kept, separators=(",", ":")) if kept else None,
    }


def single_profile(node: Object) -> str | None:
    """The MIG profile that `nvidia.com/gpu: 1` means on this node (strategy single), None for whole GPUs."""
    match = _mig_product.search(_unshared(labels_of(node)))
    return profile_of(MIG_PREFIX + match["profile"]) if match else None


def _unshared(labels: dict[str, str]) -> str:
    return labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED")


def _model(labels: dict[str, str]) -> str | None:
    return _mig_product.sub("", _unshared(labels)) or None


def _capacity(node: Object) -> dict[str, int]:
    """Counts by resource; capacity also counts unhealthy devices, which the fleet still owns."""
    status = mapping(node, "status")
    counts = mapping(status, "capacity") or mapping(status, "allocatable")
    names = [n for n in counts if n in ("nvidia.com/gpu", "nvidia.com/gpu.shared") or n.startswith(MIG_PREFIX)]
    return {name: integer(counts, name) or 0 for name in sorted(names)}


def _number(labels: dict[str, str], key: str) -> int | None:
    text = labels.get(key, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _devices(labels: dict[str, str], capacity: dict[str, int]) -> dict[str, int]:
    """Physical devices by MIG profile, "" for whole GPUs; empty when nothing says how many.

    Under strategy mixed the node says `nvidia.com/gpu: 0` and counts mig-* resources. Shared devices are
    advertised once a replica, so the count comes from the label, or from the replicas.
    """
    devices: dict[str, int] = {}
    for resource, count in capacity.items():
        if resource.startswith(MIG_PREFIX) and count:
            key = resource.removesuffix(".shared")
            shared = resource.endswith(".shared") or (_number(labels, f"{key}.replicas") or 1) > 1
            physical = _number(labels, f"{key}.count") if shared else count
            if physical is None:
                physical = count // max(_number(labels, f"{key}.replicas") or 1, 1)
            profile = profile_of(key) or ""
            devices[profile] = max(devices.get(profile, 0), physical)
    match = _mig_product.search(_unshared(labels))
    whole = (profile_of(MIG_PREFIX + match["profile"]) if match else None) or ""
    count = capacity.get("nvidia.com/gpu", 0) + capacity.get("nvidia.com/gpu.shared", 0)
    told = _number(labels, "nvidia.com/gpu.count")
    if count and _sharing(labels, capacity)[0] != "none":
        count = told if told is not None else count // max(_number(labels, "nvidia.com/gpu.replicas") or 1, 1)
    elif not count and not devices:
        # A device plugin that is down advertises nothing; the GPUs are there all the same.
        count = told or 0
    if count:
        devices[whole] = count
    return devices


def _sharing(labels: dict[str, str], capacity: dict[str, int]) -> tuple[str, int | None]:
    """(none | time-slicing | mps, replicas of a shared GPU)."""
    replicas = _number(labels, "nvidia.com/gpu.replicas")
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "")
    if strategy not in ("time-slicing", "mps"):
        product = labels.get("nvidia.com/gpu.product", "")
        shared = product.endswith("-SHARED") or capacity.get("nvidia.com/gpu.shared", 0) > 0
        strategy = "time-slicing" if shared or (replicas or 0) > 1 else "none"
    return strategy, replicas if strategy != "none" and replicas else None


def _state(node: Object, conditions: list[Object]) -> tuple[str | None, int | None, str | None]:
    """(state, its start, reason): down before drain before up; no Ready condition leaves up and down unknown."""
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") != "True":
        return "down", moment(ready, "lastTransitionTime"), string(ready, "reason") or "NotReady"
    spec = mapping(node, "spec")
    taint = next((t for t in mappings(spec, "taints") if t.get("key") == CORDON_TAINT), None)
    if spec.get("unschedulable") is True or taint is not None:
        return "drain", moment(taint, "timeAdded") if taint else None, "cordoned"
    return ("up", moment(ready, "lastTransitionTime"), None) if ready else (None, None, None)


def _kept(labels: dict[str, str]) -> dict[str, str]:
    kept = [
        (key, value)
        for key, value in sorted(labels.items())
        if key in POOL_LABELS or (KEPT_LABELS.match(key) or "topology" in key) and not DROPPED_LABELS.match(key)
    ]
    return dict(kept[:MAX_LABELS])
