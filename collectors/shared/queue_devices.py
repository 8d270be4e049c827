"""Device counts of resource lists, and the words that workloads of every batch scheduler share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from gpuwatch.collectors.kubernetes.objects import Malformed, Object, labels_of, mapping, mappings, moment, string
from gpuwatch.collectors.kubernetes.owner import USER_KEYS, owner_of
from gpuwatch.collectors.kubernetes.pods import MIG_PREFIX, gpu_resources, profile_of

MAX_LABELS = 200
MAX_MESSAGE = 4000
MAX_DEVICES = 1_000_000_000
"""More devices than that are a mistake of the object."""
WHOLE = ("nvidia.com/gpu", "deviceclass/gpu.nvidia.com")
"""Resources whose unit is a GPU: the device plugin's, and the device class of DRA as Volcano counts it."""

Devices = dict[str, int]
"""Counts by MIG profile, "" for whole GPUs."""

_sliced = re.compile(r"(?:gpucores|gpumem|gpumem-percentage)$")
_kindred = re.compile(r"gpu|mig-|deviceclass/", re.IGNORECASE)
_quantity = re.compile(
    r"([+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?|[+-]?\.[0-9]{1,18})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_scale = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_scale |= {unit: Fraction(1000 ** (n + 1)) for n, unit in enumerate("kMGTPE")}
_scale |= {f"{unit}i": Fraction(1024 ** (n + 1)) for n, unit in enumerate("KMGTPE")}
# A pod of a Deployment: its ReplicaSet's name, which ends in a hash, and five letters.
_deployed = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}")


def quantity(value: object, name: str) -> Fraction:
    """A Kubernetes quantity (8, "8", "500m", "1Ki", "1e3") exactly. Raises Malformed naming the field."""
    text = str(value)
    match = None if isinstance(value, bool | dict | list) else _quantity.fullmatch(text)
    if match is None:
        raise Malformed(f"{name} is not a quantity")
    number, unit = Fraction(match[1]), match[2] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1:
        return number * Fraction(10) ** int(unit[1:])
    return number * _scale.get(unit, Fraction(1))


def devices_of(resources: Mapping[str, Any], factor: int = 1) -> tuple[Devices, dict[str, Any]]:
    """(devices by profile, what else has to do with GPUs as it was written) of a list resource -> quantity.

    Replicas of shared GPUs and slices are no devices, and where cores or memory of a GPU are asked for (HAMi),
    `nvidia.com/gpu` counts parts of GPUs: all of these are in the second. Raises Malformed for a count of devices
    that is none.
    """
    devices: Devices = {}
    other: dict[str, Any] = {}
    parts = any(_sliced.search(name) for name in resources)
    for name in sorted(resources):
        if resources[name] is None or not _kindred.search(name):
            continue
        whole, slices = name in WHOLE and not parts, name.startswith(MIG_PREFIX) and not name.endswith(".shared")
        if not whole and not slices:
            number = quantity(resources[name], name) * factor
            other[name] = int(number) if number.denominator == 1 else float(number)
            continue
        count = quantity(resources[name], name) * factor
        if count.denominator != 1 or not 0 <= count <= MAX_DEVICES:
            raise Malformed(f"{name} is not a count of devices")
        profile = (profile_of(name) or "") if slices else ""
        devices[profile] = devices.get(profile, 0) + int(count)
    return devices, other


def pod_devices(template: Object, count: int) -> tuple[Devices, dict[str, Any]]:
    """The devices of `count` pods of a pod template; see devices_of. Raises Malformed."""
    spec = mapping(template, "spec")
    resources: dict[str, Any] = dict(gpu_resources({"spec": spec}))
    for container in mappings(spec, "containers"):
        told = mapping(container, "resources")
        for name, value in (mapping(told, "requests") | mapping(told, "limits")).items():
            if name not in resources and _kindred.search(name) and quantity(value, name):
                resources[name] = value
    return devices_of(resources, count)


def plus(*parts: Mapping[str, int]) -> Devices:
    """Sums by profile."""
    total: Devices = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def whole_or_none(devices: Mapping[str, int]) -> tuple[int, str | None]:
    """(devices in all, the MIG profile where all are of one)."""
    named = [name for name, count in devices.items() if count]
    return sum(devices.values()), named[0] if len(named) == 1 and named[0] else None


def dumped(value: object) -> str | None:
    """JSON, NULL for what is empty: unknown is not zero. Raises Malformed for what JSON has no word for."""
    try:
        return json.dumps(value, separators=(",", ":"), default=str, allow_nan=False) if value else None
    except (ValueError, RecursionError) as error:
        raise Malformed("holds a number that is none, or is nested too deeply") from error


def filled(**words: object) -> dict[str, object]:
    """What of these says something."""
    return {name: value for name, value in words.items() if value not in (None, "", [], {})}


def short(text: str | None) -> str | None:
    """A message of bounded length."""
    return text[:MAX_MESSAGE] if text else None


def labels_json(item: Object) -> str | None:
    """Labels of an object, at most MAX_LABELS of them."""
    return dumped(dict(sorted(labels_of(item).items())[:MAX_LABELS]))


def user_of(item: Object) -> str | None:
    """The user that labels or annotations name."""
    places = labels_of(item), labels_of(item, "annotations")
    return next((place[key] for key in USER_KEYS for place in places if place.get(key)), None)


def identity(item: Object) -> tuple[str, str, str]:
    """(uid, name, namespace) of a namespaced object; `namespace/name` stands for a uid that is not there.

    Raises Malformed for an object without a name.
    """
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    if not name:
        raise Malformed("metadata has no name")
    namespace = string(metadata, "namespace") or "default"
    return string(metadata, "uid") or f"{namespace}/{name}", name, namespace


def owner_job(item: Object) -> tuple[str | None, str | None]:
    """(job id, kind of the owner) that an object belongs to, as its pods' claims name it; (None, None): nobody says.

    Several pods that own one object (a Kueue pod group) have no job id in common.
    """
    metadata = mapping(item, "metadata")
    owners = mappings(metadata, "ownerReferences")
    chosen = [o for o in owners if o.get("controller") is True] or [o for o in owners if o.get("kind") != "Pod"]
    chosen = chosen or owners
    if not chosen:
        return None, None
    kind, name = string(chosen[0], "kind"), string(chosen[0], "name")
    if kind is None or name is None or (kind == "Pod" and len(owners) > 1):
        return None, kind
    _, own, namespace = identity(item)
    if kind == "Pod":
        deployed = _deployed.fullmatch(name)
        return f"{namespace}/{deployed[1] if deployed else name}", kind
    reference = {"kind": kind, "name": name, "uid": string(chosen[0], "uid") or name, "controller": True}
    pod = {"metadata": {"name": own, "uid": own, "namespace": namespace, "ownerReferences": [reference]}}
    return owner_of(pod).job_id, kind


def newest(*times: int | None) -> int | None:
    """The latest of the known instants."""
    return max((t for t in times if t is not None), default=None)


def created(item: Object) -> int | None:
    """When an object was made, microseconds."""
    return moment(mapping(item, "metadata"), "creationTimestamp")


def conditions(item: Object) -> dict[str, Object]:
    """The newest condition of each type of an object's status."""
    found: dict[str, Object] = {}
    for condition in mappings(mapping(item, "status"), "conditions"):
        kind = string(condition, "type")
        if kind is None:
            continue
        old = found.get(kind)
        if old is None or (when(condition) or 0) >= (when(old) or 0):
            found[kind] = condition
    return found


def when(condition: Object | None) -> int | None:
    """When a condition became what it is."""
    return None if condition is None else moment(condition, "lastTransitionTime")


def holds(condition: Object | None) -> bool:
    """Whether a condition is true; one that is not there is not."""
    return condition is not None and str(condition.get("status")) == "True"


def since(condition: Object | None) -> int | None:
    """When a condition came to hold, None while it does not."""
    return when(condition) if holds(condition) else None


def last_time(item: Object, found: Iterable[Object]) -> int | None:
    """The newest instant that an object itself names."""
    return newest(created(item), *(when(condition) for condition in found))
