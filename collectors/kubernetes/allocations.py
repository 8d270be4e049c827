"""Joins pods with their ResourceClaims and ResourceSlices, in whatever order they come. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from gpuwatch.collectors.kubernetes.dra import (
    ClaimName,
    Device,
    DeviceGroup,
    PodDevices,
    ResourceClaim,
    ResourceSlice,
    WaitKey,
    claim_names,
    parse_claim,
    parse_slice,
)
from gpuwatch.collectors.kubernetes.pods import PLUGIN, rows_of_devices
from gpuwatch.collectors.shared.json_fields import Object, mapping, mappings, require_metadata, string

MAX_SLICES = 200_000
MAX_CLAIMS = 500_000

TIMES_ONLY = DeviceGroup(None, 0)

_mig_device_name = re.compile(r"mig-(\d+)g-?(\d+)gb")


class Allocations:
    """Every claim and slice of a cluster; `devices_of` joins them with a pod."""

    def __init__(self, fallback: Allocations | None = None) -> None:
        """`fallback` is searched for claims and slices that are not here."""
        self._fallback = fallback
        self._claims: dict[ClaimName, ResourceClaim] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._pools: dict[str, set[str]] = {}
        self._nodes: dict[str, set[str]] = {}

    def take_slice(self, item: Object) -> tuple[WaitKey, str | None] | None:
        """Takes a ResourceSlice; returns the key of its pool, whose pods may have more devices now, and its node."""
        found = parse_slice(item)
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

    def take_claim(self, item: Object) -> WaitKey | None:
        """Takes a ResourceClaim; returns its key. Raises Malformed."""
        require_metadata(item, "name")
        name = _claim_name(item)
        if name is None or (name not in self._claims and len(self._claims) >= MAX_CLAIMS):
            return None
        self._claims[name] = parse_claim(item)
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
        """Forgets the claims of a namespace (None: of all) that a complete list of "namespace/name" does not have."""
        for name in [n for n in self._claims if namespace in (None, n[0]) and "/".join(n) not in names]:
            del self._claims[name]

    def devices_of(self, pod: Object) -> PodDevices | None:
        """The devices that the claims of a pod ask for and were given, None for a pod without claims. Raises Malformed."""
        names = claim_names(pod)
        if not names:
            return None
        metadata = mapping(pod, "metadata")
        namespace, uid = string(metadata, "namespace") or "default", string(metadata, "uid")
        found = PodDevices(replaces=_extended_resources(pod))
        devices: dict[tuple[str, str], Device] = {}
        for name in names:
            claim = self._claim((namespace, name)) if name else None
            held = claim.allocated if claim is not None and _reserved(claim, uid) else None
            if name and held is None:
                found.waits_for.append(("claim", namespace, name))
            if claim is None:
                found.unknown = f"ResourceClaim {name or '(not made yet)'} is not known"
                continue
            found.requested += claim.requested
            found.taken = found.taken or bool(claim.consumers and uid not in claim.consumers)
            devices |= self._known_devices(held or (), found)
        found.held = list(_grouped(devices.values()))
        return found

    def _known_devices(
        self, allocated: Iterable[tuple[str, str, str | None]], found: PodDevices
    ) -> Iterator[tuple[tuple[str, str], Device]]:
        """The allocated devices with their profiles, by pool and name; those that are not known are noted in `found`."""
        for pool, name, profile in allocated:
            device = self._device(pool, name)
            if device is None:
                found.waits_for.append(("pool", pool))
                device = _device_from_name(name, profile)
            if device.is_slice and device.profile is None:
                found.unknown = f"device {name} of pool {pool} is in no ResourceSlice"
                continue
            yield (pool, name), device

    def inventory(self, node: str) -> tuple[dict[str, int], str | None]:
        """Devices of a node by MIG profile ("" whole GPUs), and their model.

        A MIG slice of a GPU that is itself offered is a possible partition, not a device.
        """
        if self._fallback is not None and node not in self._nodes:
            return self._fallback.inventory(node)
        newest = [s for name in self._nodes.get(node, ()) if self._is_newest(s := self._slices[name])]
        present = _present([device for s in newest for device in s.devices.values()])
        counts = Counter(device.profile or "" for device in present if device.profile or not device.is_slice)
        return dict(sorted(counts.items())), next((device.model for device in present if device.model), None)

    def _is_newest(self, found: ResourceSlice) -> bool:
        return all(self._slices[name].generation <= found.generation for name in self._pools.get(found.pool, ()))

    def _claim(self, name: ClaimName) -> ResourceClaim | None:
        return self._claims.get(name) or (self._fallback._claim(name) if self._fallback is not None else None)

    def _device(self, pool: str, name: str) -> Device | None:
        """A device by name, from the newest generation that has it: an allocated device may no longer be offered."""
        slices = [self._slices[s] for s in self._pools.get(pool, ()) if name in self._slices[s].devices]
        if not slices and self._fallback is not None:
            return self._fallback._device(pool, name)
        return max(slices, key=lambda s: s.generation).devices[name] if slices else None


def released_rows(pod: Object, dra: PodDevices, alone: bool) -> Iterator[dict[str, Any]]:
    """Claim rows of a pod that has started and whose ResourceClaims do not name its devices any more.

    They were released when it ended, or early: no pod starts without them. A pod that ended had what its claims ask for,
    unless it shared them (not `alone`). Otherwise a row without devices has its times only, for the devices that an earlier dump has.
    Raises Malformed.
    """
    known = dra.requested if alone and dra.unknown is None else []
    for row in rows_of_devices(pod, known or [TIMES_ONLY], PLUGIN):
        if row["end_us"] is None and row["device_count"]:
            row |= {"profile": None, "device_count": 0}
        yield row


class BlockedPods:
    """Pods whose ResourceClaim, or the ResourceSlice of whose device, has not come yet."""

    def __init__(self, max_pods: int) -> None:
        self._max_pods = max_pods
        self._pods: dict[WaitKey, dict[str, Object]] = {}
        self._keys: dict[str, list[WaitKey]] = {}

    def update(self, uid: str, item: Object, waits_for: Iterable[WaitKey] = ()) -> None:
        """Replaces what a pod waits for; one that waits for nothing is forgotten."""
        for key in self._keys.pop(uid, ()):
            self._pods[key].pop(uid, None)
            if not self._pods[key]:
                del self._pods[key]
        keys = list(dict.fromkeys(waits_for))
        if keys and len(self._keys) < self._max_pods:
            self._keys[uid] = keys
            for key in keys:
                self._pods.setdefault(key, {})[uid] = item

    def waiting_for(self, key: WaitKey) -> list[Object]:
        """The pods that a claim or pool concerns."""
        return list(self._pods.get(key, {}).values())


def _claim_name(item: Object) -> ClaimName | None:
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    return (string(metadata, "namespace") or "default", name) if name else None


def _discard(index: dict[str, set[str]], key: str, name: str) -> None:
    index[key].discard(name)
    if not index[key]:
        del index[key]


def _present(offered: list[Device]) -> list[Device]:
    """The offered devices without the slices of GPUs that are offered whole."""
    whole = {device.gpu for device in offered if not device.is_slice and device.gpu}
    return [device for device in offered if not device.is_slice or device.gpu not in whole]


def _device_from_name(name: str, profile: str | None) -> Device:
    """A device known only by its name and the request for it."""
    if found := _mig_device_name.search(name):
        profile = profile or f"{found[1]}g.{found[2]}gb"
    is_slice = profile is not None or "mig" in name.split("-")
    return Device(None, profile, is_slice)


def _reserved(claim: ResourceClaim, uid: str | None) -> bool:
    return claim.consumers is None or uid in claim.consumers


def _extended_resources(pod: Object) -> frozenset[str]:
    """Extended resources of a pod that a ResourceClaim provides."""
    mappings_of = mapping(mapping(pod, "status"), "extendedResourceClaimStatus")
    return frozenset(string(m, "resourceName") or "" for m in mappings(mappings_of, "requestMappings"))


def _grouped(devices: Iterable[Device]) -> Iterator[DeviceGroup]:
    """Devices by profile. Two slices of one GPU list its UUID twice."""
    groups: dict[str | None, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.profile, []).append(device)
    for profile in sorted(groups, key=lambda p: p or ""):
        group = groups[profile]
        gpus = tuple(device.gpu for device in group if device.gpu)
        yield DeviceGroup(profile, len(group), gpus if len(gpus) == len(group) else None)
