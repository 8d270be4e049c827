"""Accelerators other than NVIDIA's in Kubernetes: what pods hold of them, and how many a node has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpuwatch.collectors.shared.json_fields import Object, integer, mapping, mappings
from gpuwatch.core.accelerators import AMD, GAUDI, INTEL, NAMES, NEURON, NEURON_CORE, TPU

FAMILIES = ("amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi", "aws.amazon.com/neuron", "google.com/tpu")
"""How the names of such resources begin: one reason for all resources of a family."""
KINDS = {
    "amd.com/gpu": AMD,
    "gpu.intel.com/i915": INTEL,
    "gpu.intel.com/xe": INTEL,
    "habana.ai/gaudi": GAUDI,
    "aws.amazon.com/neuron": NEURON,
    "aws.amazon.com/neurondevice": NEURON,
    "aws.amazon.com/neuroncore": NEURON_CORE,
    "google.com/tpu": TPU,
}
"""The kind of device that a resource counts."""
MILLICORES = "gpu.intel.com/millicores"
"""Thousandths of Intel GPUs, where several pods share one."""
PRODUCT_LABELS = {
    AMD: ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    INTEL: ("gpu.intel.com/product",),
    TPU: ("cloud.google.com/gke-tpu-accelerator",),
}
"""Labels of a node that name its model."""
_monitoring = re.compile(r"gpu\.intel\.com/\w+_monitoring$")


def container_accelerators(container: Object) -> dict[str, int]:
    """What a container requests, by kind, and MILLICORES. Raises Malformed."""
    resources = mapping(container, "resources")
    asked = mapping(resources, "requests") | mapping(resources, "limits")
    return _by_kind(asked, [name for name in asked if name in KINDS or name == MILLICORES])


def uncounted_requests(item: Object) -> list[str]:
    """A reason for each family of which a pod requests no device that is counted; none for other objects. Raises Malformed."""
    if item.get("kind") != "Pod":
        return []
    spec = mapping(item, "spec")
    names: set[str] = set()
    for container in mappings(spec, "initContainers") + mappings(spec, "containers"):
        resources = mapping(container, "resources")
        names |= (mapping(resources, "requests") | mapping(resources, "limits")).keys()
    reasons = []
    for family in FAMILIES:
        found = [name for name in names if name.startswith(family) and not _monitoring.match(name)]
        if found and not any(name in KINDS for name in found):
            reasons.append(f"ignored: pod requests {family.rstrip('/')} resources that name no device")
    return reasons


def node_accelerators(
    capacity: Mapping[str, object], labels: Mapping[str, str]
) -> tuple[dict[str, int], str | None, int | None]:
    """(devices by kind, model, Neuron cores of a device) of a node's capacity. Raises Malformed.

    The model is None if the node has several kinds. Where devices are shared, their number follows from the millicores.
    """
    found = _by_kind(capacity, [name for name in capacity if name in KINDS or name == MILLICORES])
    if millicores := found.pop(MILLICORES, 0):
        found[INTEL] = max(millicores // 1000, 1)
    cores, devices = found.get(NEURON_CORE, 0), found.get(NEURON, 0)
    each = None
    if devices:
        found.pop(NEURON_CORE, None)
        each = cores // devices if cores and cores % devices == 0 else None
    found = {kind: count for kind, count in found.items() if count}
    return found, _model(next(iter(found)), labels) if len(found) == 1 else None, each


def _model(kind: str, labels: Mapping[str, str]) -> str:
    """What a node's devices are called: by its labels, or else by kind."""
    product = next((labels[label] for label in PRODUCT_LABELS.get(kind, ()) if labels.get(label)), "")
    words = product.replace("_", " ").strip()
    vendor = NAMES[kind].split()[0]
    return (words if words.startswith(vendor) else f"{vendor} {words}") if words else NAMES[kind]


def _by_kind(counts: Mapping[str, object], names: Iterable[str]) -> dict[str, int]:
    """Counts by kind: two names of one kind are the same devices, unless both Intel drivers have some."""
    found: dict[str, int] = {}
    for name in names:
        kind, count = KINDS.get(name, name), integer(dict(counts), name) or 0
        found[kind] = found.get(kind, 0) + count if kind == INTEL else max(found.get(kind, 0), count)
    return found
