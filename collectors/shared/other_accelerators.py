"""Requests of Kubernetes pods for accelerators that gpuwatch does not count yet."""

from __future__ import annotations

from gpuwatch.collectors.shared.json_fields import Object, mapping, mappings

FAMILIES = ("amd.com/gpu", "gpu.intel.com/", "habana.ai/gaudi", "aws.amazon.com/neuron", "google.com/tpu")
"""How the names of such resources begin: one reason for all resources of a family."""


def uncounted_requests(item: Object) -> list[str]:
    """A reason for each family of such accelerators that a pod requests; none for other objects. Raises Malformed."""
    if item.get("kind") != "Pod":
        return []
    spec = mapping(item, "spec")
    names: set[str] = set()
    for container in mappings(spec, "initContainers") + mappings(spec, "containers"):
        resources = mapping(container, "resources")
        names |= (mapping(resources, "requests") | mapping(resources, "limits")).keys()
    found = [family for family in FAMILIES if any(name.startswith(family) for name in names)]
    return [f"ignored: pod requests {family.rstrip('/')} devices, which are not counted yet" for family in found]
