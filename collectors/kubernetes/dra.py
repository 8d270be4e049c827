"""Dynamic resource allocation: ResourceClaims and ResourceSlices of NVIDIA GPUs as records. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuwatch.collectors.shared.json_fields import (
    Malformed,
    Object,
    integer,
    mapping,
    mappings,
    string,
)

GROUP = "resource.k8s.io"
VERSIONS: tuple[str, ...] = ("v1", "v1beta2", "v1beta1", "v1alpha3")
DRIVER = "gpu.nvidia.com"
MAX_DEVICES = 256
"""Devices of one slice or claim; Kubernetes allows 128 and 32."""

_uuid = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_class = re.compile(r"(?:^|\.)(?P<word>gpu|mig)\.nvidia\.com$")
_selected = re.compile(r"profile\s*==\s*['\"]([0-9]+g\.[0-9]+gb(?:\+[a-z.]+)?)['\"]")

ClaimName = tuple[str, str]
"""Namespace and name of a ResourceClaim."""
WaitKey = tuple[str, ...]
"""What a pod waits for: ("claim", namespace, name) or ("pool", name)."""


@dataclass(frozen=True)
class Device:
    """One device that a driver offers."""

    gpu: str | None
    """UUID of the physical GPU, also for a MIG slice of it."""
    profile: str | None
    """MIG profile; None for a whole GPU, and for a slice of unknown profile."""
    is_slice: bool
    model: str | None = None


@dataclass(frozen=True)
class DeviceGroup:
    """Devices of one kind that a pod holds or asks for."""

    profile: str | None
    count: int
    gpus: tuple[str, ...] | None = None
    """UUIDs of the physical GPUs, None unless all are known."""


@dataclass(frozen=True)
class ResourceSlice:
    """Devices that a driver offers in a pool. Only the slices of the highest generation count."""

    name: str
    pool: str
    generation: int
    node: str | None
    devices: dict[str, Device]


@dataclass(frozen=True)
class ResourceClaim:
    """The NVIDIA GPUs that a ResourceClaim asks for and was given; other devices are left out."""

    requested: tuple[DeviceGroup, ...]
    allocated: tuple[tuple[str, str, str | None], ...] | None
    """(pool, device, requested profile) of each allocated device, None while nothing is allocated."""
    consumers: frozenset[str] | None
    """UIDs of the pods that it is reserved for, None if it is reserved for anything but pods."""


@dataclass
class PodDevices:
    """The GPUs of a pod according to its ResourceClaims."""

    held: list[DeviceGroup] = field(default_factory=list)
    requested: list[DeviceGroup] = field(default_factory=list)
    waits_for: list[WaitKey] = field(default_factory=list)
    """Claims and pools that are not known yet."""
    unknown: str | None = None
    """Why the devices are unknown, None if they are known."""
    taken: bool = False
    """Whether one of its claims is reserved for other pods only."""
    replaces: frozenset[str] = frozenset()
    """Extended resources of the pod that these claims provide, which must not be counted twice."""


def parse_slice(item: Object) -> ResourceSlice | None:
    """Parses a ResourceSlice of any version; None for other drivers. Raises Malformed."""
    spec, name = mapping(item, "spec"), string(mapping(item, "metadata"), "name")
    if string(spec, "driver") != DRIVER:
        return None
    pool = mapping(spec, "pool")
    pool_name = string(pool, "name")
    if not name or not pool_name:
        raise Malformed("metadata has no name, or pool has none")
    devices = dict(_device(device) for device in mappings(spec, "devices")[:MAX_DEVICES])
    return ResourceSlice(name, pool_name, integer(pool, "generation") or 0, string(spec, "nodeName"), devices)


def parse_claim(item: Object) -> ResourceClaim:
    """Parses a ResourceClaim of any version. Raises Malformed."""
    listed = mappings(mapping(mapping(item, "spec"), "devices"), "requests")[:MAX_DEVICES]
    requests = {string(request, "name") or "": request for request in listed}
    status = mapping(item, "status")
    allocation = mapping(status, "allocation")
    allocated = _allocated(allocation, requests)
    consumers = mappings(status, "reservedFor")
    pods = frozenset(string(c, "uid") or "" for c in consumers if string(c, "resource") == "pods")
    return ResourceClaim(
        tuple(group for request in requests.values() if (group := _requested(request))),
        tuple(dict.fromkeys(allocated)) if allocation else None,
        pods if len(pods) == len(consumers) else None,
    )


def _allocated(allocation: Object, requests: dict[str, Object]) -> list[tuple[str, str, str | None]]:
    """(pool, device, requested profile) of each NVIDIA GPU of an allocation; administrative access holds no device."""
    results = mappings(mapping(allocation, "devices"), "results")[:MAX_DEVICES]
    return [
        (string(r, "pool") or "", string(r, "device") or "", _profile(requests, string(r, "request") or ""))
        for r in results
        if string(r, "driver") == DRIVER and r.get("adminAccess") is not True
    ]


def claim_names(pod: Object) -> list[str | None]:
    """Names of the ResourceClaims of a pod; None for one that has not been made from its template yet."""
    spec, status = mapping(pod, "spec"), mapping(pod, "status")
    made = {string(s, "name"): string(s, "resourceClaimName") for s in mappings(status, "resourceClaimStatuses")}
    names = [
        string(reference, "resourceClaimName") or made.get(string(reference, "name"))
        for reference in mappings(spec, "resourceClaims")
    ]
    extended = string(mapping(status, "extendedResourceClaimStatus"), "resourceClaimName")
    return names + ([extended] if extended else [])


def _device(device: Object) -> tuple[str, Device]:
    name = string(device, "name")
    if not name:
        raise Malformed("a device has no name")
    # v1beta1 and v1alpha3 keep the attributes one level deeper.
    attributes = mapping(mapping(device, "basic") or device, "attributes")
    values = {key.removeprefix(f"{DRIVER}/"): _text(value) for key, value in attributes.items()}
    is_slice = values.get("type") == "mig" or bool(values.get("parentUUID"))
    uuid = values.get("parentUUID") if is_slice else values.get("uuid")
    gpu = uuid if uuid and _uuid.fullmatch(uuid) else None
    return name, Device(gpu, values.get("profile") if is_slice else None, is_slice, values.get("productName"))


def _text(value: object) -> str | None:
    """The text of an attribute: {"string": "GPU-..."}."""
    found = value.get("string") if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _alternatives(request: Object) -> list[Object]:
    """What a request accepts: `firstAvailable`, `exactly` (v1, v1beta2), or the request itself (older versions)."""
    return mappings(request, "firstAvailable") or [mapping(request, "exactly") or request]


def _requested(request: Object) -> DeviceGroup | None:
    """Devices that a request asks for; the first alternative counts. None unless they are NVIDIA GPUs."""
    first = _alternatives(request)[0]
    match = _class.search(string(first, "deviceClassName") or "")
    if not match or first.get("adminAccess") is True or string(first, "allocationMode") == "All":
        return None
    profile = _selected_profile(first)
    if match["word"] == "mig" and profile is None:
        return None  # a slice of unknown size must not count as a whole GPU
    count = integer(first, "count")
    return DeviceGroup(profile, 1 if count is None else count)


def _selected_profile(request: Object) -> str | None:
    expressions = (string(mapping(s, "cel"), "expression") or "" for s in mappings(request, "selectors"))
    return next((match[1] for text in expressions if (match := _selected.search(text))), None)


def _profile(requests: dict[str, Object], request: str) -> str | None:
    """The profile that a request (or "request/alternative") selects."""
    name, _, chosen = request.partition("/")
    known = _alternatives(requests.get(name, {}))
    return next((_selected_profile(a) for a in known if not chosen or a.get("name") == chosen), None)
