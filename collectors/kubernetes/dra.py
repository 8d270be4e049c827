"""Dynamic resource allocation: which GPUs the claims of a pod were given, by ResourceClaims and ResourceSlices. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from gpuwatch.collectors.shared.json_fields import (
    Malformed,
    Object,
    integer,
    mapping,
    mappings,
    require_metadata,
    string,
)

GROUP = "resource.k8s.io"
VERSIONS: tuple[str, ...] = ("v1", "v1beta2", "v1beta1", "v1alpha3")
DRIVER = "gpu.nvidia.com"
MAX_SLICES = 200_000
MAX_CLAIMS = 500_000
MAX_DEVICES = 256
"""Devices of one slice or claim; Kubernetes allows 128 and 32."""

_uuid = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_class = re.compile(r"(?:^|\.)(?P<word>gpu|mig)\.nvidia\.com$")
_selected = re.compile(r"profile\s*==\s*['\"]([0-9]+g\.[0-9]+gb(?:\+[a-z.]+)?)['\"]")
_named = re.compile(r"mig-(\d+)g-?(\d+)gb")

ClaimName = tuple[str, str]
"""Namespace and name of a ResourceClaim."""
Key = tuple[str, ...]
"""What a pod waits for: ("claim", namespace, name) or ("pool", name)."""


@dataclass(frozen=True)
class Device:
    """One device that a driver offers."""

    gpu: str | None
    """UUID of the physical GPU, also for a MIG slice of it."""
    profile: str | None
    """MIG profile; None for a whole GPU, and for a slice of which no profile is told."""
    is_slice: bool
    model: str | None = None


@dataclass(frozen=True)
class Held:
    """Devices of one kind that a pod holds or asks for."""

    profile: str | None
    count: int
    gpus: tuple[str, ...] | None = None
    """UUIDs of the physical GPUs, None where they are not all known."""


@dataclass(frozen=True)
class Slice:
    """Devices that a driver offers in a pool; a pool is its slices of the highest generation."""

    name: str
    pool: str
    generation: int
    node: str | None
    devices: dict[str, Device]


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim that asks for or was given NVIDIA GPUs (or none: then both lists are empty)."""

    wanted: tuple[Held, ...]
    drawn: tuple[tuple[str, str, str | None], ...] | None
    """(pool, device, profile asked for) of each device given, None while nothing is allocated."""
    consumers: frozenset[str] | None
    """UIDs of the pods that it is reserved for, None where it is reserved for something else than pods."""


@dataclass
class Drawn:
    """What the claims of a pod say of its GPUs."""

    held: list[Held] = field(default_factory=list)
    wanted: list[Held] = field(default_factory=list)
    waits: list[Key] = field(default_factory=list)
    """What would say more once it comes."""
    unknown: str | None = None
    """Why nothing is known, None where something is."""
    replaces: frozenset[str] = frozenset()
    """Extended resources of the pod that these claims stand behind: not to be counted again."""


def slice_of(item: Object) -> Slice | None:
    """A ResourceSlice of any version, None for another driver's. Raises Malformed."""
    spec, name = mapping(item, "spec"), string(mapping(item, "metadata"), "name")
    if string(spec, "driver") != DRIVER:
        return None
    pool = mapping(spec, "pool")
    pool_name = string(pool, "name")
    if not name or not pool_name:
        raise Malformed("metadata has no name, or pool has none")
    devices = dict(_device(device) for device in mappings(spec, "devices")[:MAX_DEVICES])
    return Slice(name, pool_name, integer(pool, "generation") or 0, string(spec, "nodeName"), devices)


def claim_of(item: Object) -> Claim:
    """A ResourceClaim of any version. Raises Malformed."""
    asked = mappings(mapping(mapping(item, "spec"), "devices"), "requests")[:MAX_DEVICES]
    requests = {string(request, "name") or "": request for request in asked}
    status = mapping(item, "status")
    allocation = mapping(status, "allocation")
    results = mappings(mapping(allocation, "devices"), "results")[:MAX_DEVICES]
    drawn = [
        (string(r, "pool") or "", string(r, "device") or "", _profile(requests, string(r, "request") or ""))
        for r in results
        if string(r, "driver") == DRIVER and r.get("adminAccess") is not True
    ]
    consumers = mappings(status, "reservedFor")
    pods = frozenset(string(c, "uid") or "" for c in consumers if string(c, "resource") == "pods")
    return Claim(
        tuple(held for request in requests.values() if (held := _wanted(request))),
        tuple(dict.fromkeys(drawn)) if allocation else None,
        pods if len(pods) == len(consumers) else None,
    )


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


class Allocations:
    """Every claim and slice of a cluster; `drawn` joins them with a pod, in whatever order they came."""

    def __init__(self, wider: Allocations | None = None) -> None:
        """`wider` is asked for what is not here."""
        self._wider = wider
        self._claims: dict[ClaimName, Claim] = {}
        self._slices: dict[str, Slice] = {}
        self._pools: dict[str, set[str]] = {}
        self._nodes: dict[str, set[str]] = {}

    def take_slice(self, item: Object) -> tuple[Key, str | None] | None:
        """Takes a ResourceSlice; returns who may know more now: the key of its pool, and its node."""
        found = slice_of(item)
        if found is None or (found.name not in self._slices and len(self._slices) >= MAX_SLICES):
            return None
        self.drop_slice(found.name)
        self._slices[found.name] = found
        self._pools.setdefault(found.pool, set()).add(found.name)
        if found.node:
            self._nodes.setdefault(found.node, set()).add(found.name)
        return ("pool", found.pool), found.node

    def drop_slice(self, name: str) -> str | None:
        """Forgets a slice; returns its node."""
        old = self._slices.pop(name, None)
        if old is None:
            return None
        _discard(self._pools, old.pool, name)
        if old.node:
            _discard(self._nodes, old.node, name)
        return old.node

    def take_claim(self, item: Object) -> Key | None:
        """Takes a ResourceClaim; returns its key. Raises Malformed."""
        require_metadata(item, "name")
        name = _claim_name(item)
        if name is None or (name not in self._claims and len(self._claims) >= MAX_CLAIMS):
            return None
        self._claims[name] = claim_of(item)
        return "claim", *name

    def drop_claim(self, item: Object) -> None:
        """Forgets a claim."""
        self._claims.pop(_claim_name(item) or ("", ""), None)

    @property
    def nodes(self) -> set[str]:
        """Nodes that slices name."""
        return set(self._nodes)

    @property
    def slices(self) -> Iterable[str]:
        """Names of all slices."""
        return self._slices.keys()

    def keep_claims(self, names: Collection[str], namespace: str | None) -> None:
        """Forgets the claims of a namespace (None: of all) that a whole list of "namespace/name" does not have."""
        for gone in [n for n in self._claims if namespace in (None, n[0]) and "/".join(n) not in names]:
            del self._claims[gone]

    def drawn(self, pod: Object) -> Drawn | None:
        """What the claims of a pod were given, None for a pod without claims. Raises Malformed."""
        names = claim_names(pod)
        if not names:
            return None
        metadata = mapping(pod, "metadata")
        namespace, uid = string(metadata, "namespace") or "default", string(metadata, "uid")
        found = Drawn(replaces=_behind(pod))
        devices: dict[tuple[str, str], Device | None] = {}
        for name in names:
            claim = self._claim((namespace, name)) if name else None
            if claim is None:
                found.unknown = f"ResourceClaim {name or '(not made yet)'} is not known"
            if name and (claim is None or claim.drawn is None or not _reserved(claim, uid)):
                found.waits.append(("claim", namespace, name))
            if claim is None:
                continue
            found.wanted += claim.wanted
            for pool, device, profile in claim.drawn or () if _reserved(claim, uid) else ():
                known = self._device(pool, device)
                if known is None:
                    found.waits.append(("pool", pool))
                    known = _guessed(device, profile)
                if known is None or (known.is_slice and known.profile is None):
                    found.unknown = f"device {device} of pool {pool} is in no ResourceSlice"
                    continue
                devices[pool, device] = known
        found.held = list(_grouped(d for d in devices.values() if d is not None))
        return found

    def inventory(self, node: str) -> tuple[dict[str, int], str | None]:
        """Devices of a node by MIG profile ("" whole GPUs), and their model.

        A slice of a GPU that is itself offered is a way to cut it, not a device that is there.
        """
        if self._wider is not None and node not in self._nodes:
            return self._wider.inventory(node)
        newest = [s for name in self._nodes.get(node, ()) if self._newest(s := self._slices[name])]
        offered = [device for s in newest for device in s.devices.values()]
        whole = {device.gpu for device in offered if not device.is_slice and device.gpu}
        there = [d for d in offered if not d.is_slice or d.gpu not in whole]
        counts = Counter(device.profile or "" for device in there if device.profile or not device.is_slice)
        return dict(sorted(counts.items())), next((device.model for device in there if device.model), None)

    def _newest(self, found: Slice) -> bool:
        return all(self._slices[name].generation <= found.generation for name in self._pools.get(found.pool, ()))

    def _claim(self, name: ClaimName) -> Claim | None:
        return self._claims.get(name) or (self._wider._claim(name) if self._wider is not None else None)

    def _device(self, pool: str, name: str) -> Device | None:
        """A device by name: of the newest generation that has it, since what was given may no longer be offered."""
        slices = [self._slices[s] for s in self._pools.get(pool, ()) if name in self._slices[s].devices]
        if not slices and self._wider is not None:
            return self._wider._device(pool, name)
        return max(slices, key=lambda s: s.generation).devices[name] if slices else None


def _claim_name(item: Object) -> ClaimName | None:
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    return (string(metadata, "namespace") or "default", name) if name else None


def _discard(index: dict[str, set[str]], key: str, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _device(device: Object) -> tuple[str, Device]:
    name = string(device, "name")
    if not name:
        raise Malformed("a device has no name")
    # v1beta1 and v1alpha3 keep the attributes one level deeper.
    attributes = mapping(mapping(device, "basic") or device, "attributes")
    said = {key.removeprefix(f"{DRIVER}/"): _text(value) for key, value in attributes.items()}
    is_slice = said.get("type") == "mig" or bool(said.get("parentUUID"))
    uuid = said.get("parentUUID") if is_slice else said.get("uuid")
    gpu = uuid if uuid and _uuid.fullmatch(uuid) else None
    return name, Device(gpu, said.get("profile") if is_slice else None, is_slice, said.get("productName"))


def _text(value: object) -> str | None:
    """The text of an attribute: {"string": "GPU-..."}."""
    found = value.get("string") if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


def _alternatives(request: Object) -> list[Object]:
    """What a request would take: `exactly` (v1, v1beta2), the request itself (before), or one of several."""
    return mappings(request, "firstAvailable") or [mapping(request, "exactly") or request]


def _wanted(request: Object) -> Held | None:
    """Devices that a request asks for; of alternatives the first counts. None where they are no NVIDIA GPUs."""
    first = _alternatives(request)[0]
    match = _class.search(string(first, "deviceClassName") or "")
    if not match or first.get("adminAccess") is True or string(first, "allocationMode") == "All":
        return None
    profile = _selected_profile(first)
    if match["word"] == "mig" and profile is None:
        return None  # a slice of unknown size is no whole GPU
    count = integer(first, "count")
    return Held(profile, 1 if count is None else count)


def _selected_profile(request: Object) -> str | None:
    expressions = (string(mapping(s, "cel"), "expression") or "" for s in mappings(request, "selectors"))
    return next((match[1] for text in expressions if (match := _selected.search(text))), None)


def _profile(requests: dict[str, Object], request: str) -> str | None:
    """The profile that a request (or "request/alternative") selects."""
    name, _, chosen = request.partition("/")
    known = _alternatives(requests.get(name, {}))
    return next((_selected_profile(a) for a in known if not chosen or a.get("name") == chosen), None)


def _guessed(name: str, profile: str | None) -> Device | None:
    """A device of which only its name and the request for it are known."""
    if found := _named.search(name):
        profile = profile or f"{found[1]}g.{found[2]}gb"
    is_slice = profile is not None or "mig" in name.split("-")
    return Device(None, profile, is_slice)


def _reserved(claim: Claim, uid: str | None) -> bool:
    return claim.consumers is None or uid in claim.consumers


def _behind(pod: Object) -> frozenset[str]:
    mappings_of = mapping(mapping(pod, "status"), "extendedResourceClaimStatus")
    return frozenset(string(m, "resourceName") or "" for m in mappings(mappings_of, "requestMappings"))


def _grouped(devices: Iterable[Device]) -> Iterator[Held]:
    """Devices by profile. Two slices of one GPU name it twice: a profile and its GPUs tell both."""
    groups: dict[str | None, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.profile, []).append(device)
    for profile in sorted(groups, key=lambda p: p or ""):
        group = groups[profile]
        gpus = tuple(device.gpu for device in group if device.gpu)
        yield Held(profile, len(group), gpus if len(gpus) == len(group) else None)
