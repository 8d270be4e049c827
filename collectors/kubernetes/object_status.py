"""What scheduler objects have in common: identity, owner, labels, conditions and the devices of a pod template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuwatch.collectors.kubernetes.owner import USER_KEYS, owner_of
from gpuwatch.collectors.kubernetes.pods import gpu_resources
from gpuwatch.collectors.shared.json_fields import Malformed, Object, labels_of, mapping, mappings, moment, string
from gpuwatch.collectors.shared.resource_lists import MAX_LABELS, Devices, devices_of, dumped, is_gpu_related, quantity

# A pod of a Deployment: its ReplicaSet's name, which ends in a hash, and five letters.
_deployed = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}")


def pod_devices(template: Object, count: int) -> tuple[Devices, dict[str, Any]]:
    """The devices of `count` pods of a pod template; see devices_of. Raises Malformed."""
    spec = mapping(template, "spec")
    resources: dict[str, Any] = dict(gpu_resources({"spec": spec}))
    for container in mappings(spec, "containers"):
        told = mapping(container, "resources")
        for name, value in (mapping(told, "requests") | mapping(told, "limits")).items():
            if name not in resources and is_gpu_related(name) and quantity(value, name):
                resources[name] = value
    return devices_of(resources, count)


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
