"""Kubernetes nodes with GPUs: their devices, how these are partitioned or shared, and whether the node is usable."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.kubernetes.node_rule import node_room, taints_of
from gpuwatch.collectors.shared.cloud_labels import with_cloud_labels
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
from gpuwatch.collectors.shared.other_accelerators import node_accelerators
from gpuwatch.collectors.shared.resource_lists import MIG_PREFIX, json_or_none, profile_of

PROVIDER_LABEL = "gpuwatch.io/provider-id"
"""Label that holds a node's spec.providerID, its name on the cloud bill."""
PROVIDER_ID_MAX = 500
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
    r"|(?:[^/]+/)?(?:rack|block|sub-?block|leaf|spine|row|datacenter|superpod)(?:[-_]?id)?$"
    r"|(?:node|beta)\.kubernetes\.io/instance-type$|(?:[^/]+/)?(?:capacity-?[tT]ype|gke-spot|gke-preemptible|scalesetpriority)$"
)
"""Labels about a node's location, hardware and billing, which are kept before any other."""
DROPPED_LABELS = re.compile(
    r"nvidia\.com/(?:gpu\.deploy\.|gfd\.timestamp|cuda\.(?:driver\.|runtime)|mig-[^/]*\.engines\.)"
    r"|feature\.node\.kubernetes\.io/|(?:beta\.)?kubernetes\.io/(?:os|arch|hostname)$"
    r"|(?:[^/]+/)?[^/]*(?:timestamp|heartbeat|last-?(?:seen|updated?|transition))"
)
"""Labels of the host's software, and those that change on their own. All others are kept: a Kueue Topology may use any of
them."""
HOST_LABEL = "kubernetes.io/hostname"
"""Kept if it differs from the node's name: a Kueue Topology may use it."""
CORDON_TAINT = "node.kubernetes.io/unschedulable"
MIG_STATE = "nvidia.com/mig.config.state"
MIG_CHANGING = ("pending", "rebooting")
GPU_PROBLEM = re.compile(r"gpu|xid|nvlink|nvswitch|fabric|infiniband|iblink|accelerated", re.IGNORECASE)
"""Conditions and taints of node-problem-detector and the clouds about GPUs and their interconnect."""
ORDINARY_TAINTS = ("nvidia.com/gpu", "gpu", "sku")
"""Taints that keep other pods off GPU nodes and do not signal a problem."""

_mig_product = re.compile(r"-MIG-(?P<profile>[0-9]+g\.[0-9]+gb(?:[.+][a-z.]+)?)$")


@dataclass(frozen=True)
class NodeState:
    """What a Node object reports, before ResourceSlices."""

    row: dict[str, Any]
    has_gpus: bool
    advertised: bool
    """Whether the device plugin offers devices, which then count instead of those of ResourceSlices."""
    profile: str | None
    """The MIG profile that `nvidia.com/gpu: 1` means here."""


def node_row(node: Object, observed_us: int | None) -> dict[str, Any] | None:
    """The node row of a Node object, None for a node without GPUs. Raises Malformed.

    `observed_us` is used where no condition of the node carries a heartbeat.
    """
    return with_inventory(parse_node(node, observed_us), {}, None)


def with_inventory(node: NodeState, devices: dict[str, int], model: str | None) -> dict[str, Any] | None:
    """The node row, with the devices of its ResourceSlices if no device plugin offers any; None without GPUs.

    In DRA mode the node itself counts none, and an exporter may omit unallocated devices.
    """
    if not node.has_gpus and not devices:
        return None
    if node.advertised or not devices:
        return node.row
    inventory = {"devices": json.dumps(devices, separators=(",", ":")), "gpu_model": node.row["gpu_model"] or model}
    return node.row | inventory


def node_without_object(name: str, observed_us: int | None) -> NodeState:
    """A node known only from its ResourceSlices."""
    row: dict[str, Any] = dict.fromkeys(
        (
            "state",
            "since_us",
            "reason",
            "gpu_model",
            "devices",
            "replicas",
            "mig_strategy",
            "pool",
            "labels",
            "created_us",
            "taints",
        )
    )
    known = {"scheduler": "kubernetes", "node": name, "observed_us": observed_us, "sharing": "none"}
    return NodeState(known | row, False, False, None)


def parse_node(node: Object, observed_us: int | None) -> NodeState:
    """Parses a Node, with or without GPUs. Raises Malformed."""
    name = string(mapping(node, "metadata"), "name")
    if not name:
        raise Malformed("metadata has no name")
    labels, capacity = labels_of(node), _counts(node, "capacity") or _counts(node, "allocatable")
    conditions = mappings(mapping(node, "status"), "conditions")
    beats = [t for t in (moment(c, "lastHeartbeatTime") for c in conditions) if t is not None]
    state, since, reason = _state(node, labels, conditions)
    if state == "up" and reason is None:
        reason = _gpu_problem(node, conditions) or _not_allocatable(node, capacity)
    status = mapping(node, "status")
    others, model, cores = node_accelerators(mapping(status, "capacity") or mapping(status, "allocatable"), labels)
    known = with_cloud_labels(labels)
    devices = _devices(known, capacity) | others
    sharing, replicas = _sharing(known, capacity)
    kept = _kept_labels(labels, name)
    if provider_id := string(mapping(node, "spec"), "providerID"):
        kept[PROVIDER_LABEL] = provider_id[:PROVIDER_ID_MAX]
    row = {
        "scheduler": "kubernetes",
        "node": name,
        "observed_us": max(beats, default=observed_us),
        "state": state,
        "since_us": since,
        "reason": reason,
        "gpu_model": _model(known) or model,
        "devices": json_or_none(devices),
        "sharing": sharing,
        "replicas": replicas or cores,
        "mig_strategy": labels.get("nvidia.com/mig.strategy"),
        "pool": next((labels[key] for key in POOL_LABELS if labels.get(key)), None),
        "labels": json_or_none(kept),
        "created_us": moment(mapping(node, "metadata"), "creationTimestamp"),
        "taints": taints_of(node),
        **node_room(node),
    }
    labelled = "nvidia.com/gpu.product" in labels or "nvidia.com/gpu.count" in labels
    has_gpus = bool(capacity or others) or labelled
    return NodeState(row, has_gpus, any(capacity.values()) or bool(others), _single_profile(known))


def _single_profile(labels: dict[str, str]) -> str | None:
    match = _mig_product.search(_unshared(labels))
    return profile_of(MIG_PREFIX + match["profile"]) if match else None


def _unshared(labels: dict[str, str]) -> str:
    return labels.get("nvidia.com/gpu.product", "").removesuffix("-SHARED")


def _model(labels: dict[str, str]) -> str | None:
    return _mig_product.sub("", _unshared(labels)) or None


def _counts(node: Object, key: str) -> dict[str, int]:
    """Counts by GPU resource; `capacity` includes unhealthy devices, which are still part of the fleet."""
    counts = mapping(mapping(node, "status"), key)
    names = [n for n in counts if n in ("nvidia.com/gpu", "nvidia.com/gpu.shared") or n.startswith(MIG_PREFIX)]
    return {name: integer(counts, name) or 0 for name in sorted(names)}


def _number(labels: dict[str, str], key: str) -> int | None:
    text = labels.get(key, "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _devices(labels: dict[str, str], capacity: dict[str, int]) -> dict[str, int]:
    """Physical devices by MIG profile, "" for whole GPUs; empty if their number is unknown.

    With the mixed strategy the node has `nvidia.com/gpu: 0` and counts mig-* resources.
    """
    devices = _offered_slices(labels, capacity)
    count = capacity.get("nvidia.com/gpu", 0) + capacity.get("nvidia.com/gpu.shared", 0)
    if count:
        shared = _sharing(labels, capacity)[0] != "none"
        count = _physical(labels, "nvidia.com/gpu", count) if shared else count
    elif not devices:
        # A device plugin that is down advertises nothing, but the GPUs or slices still exist.
        devices = _labelled_slices(labels)
        count = 0 if devices else _number(labels, "nvidia.com/gpu.count") or 0
    if count:
        devices[_single_profile(labels) or ""] = count
    return devices


def _offered_slices(labels: dict[str, str], capacity: dict[str, int]) -> dict[str, int]:
    """Physical slices by profile that the device plugin offers as resources of their own."""
    slices: dict[str, int] = {}
    for resource, count in capacity.items():
        if resource.startswith(MIG_PREFIX) and count:
            key = resource.removesuffix(".shared")
            shared = resource.endswith(".shared") or (_number(labels, f"{key}.replicas") or 1) > 1
            profile = profile_of(key) or ""
            physical = _physical(labels, key, count) if shared else count
            slices[profile] = max(slices.get(profile, 0), physical)
    return slices


def _physical(labels: dict[str, str], resource: str, replicas: int) -> int:
    """Devices behind the replicas of a shared resource: as labelled, at most the replicas by those of each device.

    The label of whole GPUs counts also those that are cut into slices.
    """
    labelled, each = _number(labels, f"{resource}.count"), _number(labels, f"{resource}.replicas")
    if labelled is None:
        return replicas // max(each or 1, 1)
    return min(labelled, -(-replicas // each)) if each else labelled


def _labelled_slices(labels: dict[str, str]) -> dict[str, int]:
    """Slices by profile as GPU feature discovery counts them (strategy mixed)."""
    keys = [key for key in sorted(labels) if key.startswith(MIG_PREFIX) and key.endswith(".count")]
    return {profile_of(key.removesuffix(".count")) or "": n for key in keys if (n := _number(labels, key))}


def _sharing(labels: dict[str, str], capacity: dict[str, int]) -> tuple[str, int | None]:
    """(none | time-slicing | mps, replicas of a shared GPU)."""
    replicas = _number(labels, "nvidia.com/gpu.replicas")
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "")
    if strategy not in ("time-slicing", "mps"):
        product = labels.get("nvidia.com/gpu.product", "")
        shared = product.endswith("-SHARED") or capacity.get("nvidia.com/gpu.shared", 0) > 0
        strategy = "time-slicing" if shared or (replicas or 0) > 1 else "none"
    return strategy, replicas if strategy != "none" and replicas else None


def _state(node: Object, labels: dict[str, str], conditions: list[Object]) -> tuple[str | None, int | None, str | None]:
    """(state, its start, reason): down takes precedence over drain, and drain over up. Without a Ready condition the state is unknown.

    While MIG is being reconfigured, no GPU of the node can be used.
    """
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    if ready is not None and ready.get("status") != "True":
        return "down", moment(ready, "lastTransitionTime"), string(ready, "reason") or "NotReady"
    spec = mapping(node, "spec")
    taint = next((t for t in mappings(spec, "taints") if t.get("key") == CORDON_TAINT), None)
    if spec.get("unschedulable") is True or taint is not None:
        return "drain", moment(taint, "timeAdded") if taint else None, "cordoned"
    if labels.get(MIG_STATE) in MIG_CHANGING:
        return "drain", None, f"MIG is being configured: {MIG_STATE}={labels[MIG_STATE]}"
    return ("up", moment(ready, "lastTransitionTime"), None) if ready else (None, None, None)


def _gpu_problem(node: Object, conditions: list[Object]) -> str | None:
    """GPU problems that conditions and taints report on a node that is up; some of its GPUs may still work."""
    for condition in conditions:
        kind = string(condition, "type") or ""
        bad = "False" if kind.endswith(("Ready", "Healthy")) else "True"
        if kind != "Ready" and GPU_PROBLEM.search(kind) and condition.get("status") == bad:
            return ": ".join(part for part in (kind, string(condition, "reason")) if part)
    for taint in mappings(mapping(node, "spec"), "taints"):
        key = string(taint, "key") or ""
        if key not in ORDINARY_TAINTS and taint.get("effect") == "NoExecute" and GPU_PROBLEM.search(key):
            return f"taint {key}"
    return None


def _not_allocatable(node: Object, capacity: dict[str, int]) -> str | None:
    """Devices that the device plugin has but does not offer."""
    allocatable = _counts(node, "allocatable")
    lacking = {
        name: count - allocatable[name]
        for name, count in capacity.items()
        if name in allocatable and allocatable[name] < count
    }
    return ", ".join(f"{lacking[n]} of {capacity[n]} {n} not allocatable" for n in lacking) or None


def _kept_labels(labels: dict[str, str], name: str) -> dict[str, str]:
    candidates = sorted((key, value) for key, value in labels.items() if not DROPPED_LABELS.match(key))
    first = [
        pair for pair in candidates if pair[0] in POOL_LABELS or KEPT_LABELS.match(pair[0]) or "topology" in pair[0]
    ]
    host = [(HOST_LABEL, labels[HOST_LABEL])] if labels.get(HOST_LABEL, name) != name else []
    chosen = {key for key, _ in first}
    others = [pair for pair in candidates if pair[0] not in chosen]
    return dict(sorted((host + first + others)[:MAX_LABELS]))
