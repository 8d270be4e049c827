"""What scheduler objects have in common: identity, owner, labels, conditions and the devices of a pod template."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuwatch.collectors.kubernetes.owner import USER_KEYS, owner_of
from gpuwatch.collectors.kubernetes.pods import gpu_resources
from gpuwatch.collectors.shared.json_fields import Malformed, Object, labels_of, mapping, mappings, moment, string
from gpuwatch.collectors.shared.resource_lists import (
    MAX_LABELS,
    Devices,
    devices_of,
    is_gpu_related,
    json_or_none,
    quantity,
)

# A pod of a Deployment: the ReplicaSet's name, which ends in a hash, and five more characters.
_deployed = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}")


def pod_devices(template: Object, count: int) -> tuple[Devices, dict[str, Any]]:
    """The devices of `count` pods of a pod template; see devices_of. Raises Malformed."""
    spec = mapping(template, "spec")
    resources: dict[str, Any] = dict(gpu_resources({"spec": spec}))
    for container in mappings(spec, "containers"):
        resource_lists = mapping(container, "resources")
        for name, value in (mapping(resource_lists, "requests") | mapping(resource_lists, "limits")).items():
            if name not in resources and is_gpu_related(name) and quantity(value, name):
                resources[name] = value
    return devices_of(resources, count)


def labels_json(item: Object) -> str | None:
    """Labels of an object, at most MAX_LABELS of them."""
    return json_or_none(dict(sorted(labels_of(item).items())[:MAX_LABELS]))


def user_of(item: Object) -> str | None:
    """The user that labels or annotations name."""
    places = labels_of(item), labels_of(item, "annotations")
    return next((place[key] for key in USER_KEYS for place in places if place.get(key)), None)


def identity(item: Object) -> tuple[str, str, str]:
    """(uid, name, namespace) of a namespaced object; `namespace/name` stands for a missing uid.

    Raises Malformed for an object without a name.
    """
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    if not name:
        raise Malformed("metadata has no name")
    namespace = string(metadata, "namespace") or "default"
    return string(metadata, "uid") or f"{namespace}/{name}", name, namespace


def owner_job(item: Object) -> tuple[str | None, str | None]:
    """(job id, kind of the owner) that an object belongs to, matching the claims of its pods; (None, None) if unknown.

    Several pods that own one object (a Kueue pod group) have no common job id.
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


def created_us(item: Object) -> int | None:
    """When an object was created, in microseconds."""
    return moment(mapping(item, "metadata"), "creationTimestamp")


def conditions(item: Object) -> dict[str, Object]:
    """The newest condition of each type of an object's status."""
    found: dict[str, Object] = {}
    for condition in mappings(mapping(item, "status"), "conditions"):
        kind = string(condition, "type")
        if kind is None:
            continue
        old = found.get(kind)
        if old is None or (changed_us(condition) or 0) >= (changed_us(old) or 0):
            found[kind] = condition
    return found


def changed_us(condition: Object | None) -> int | None:
    """When a condition last changed its status."""
    return None if condition is None else moment(condition, "lastTransitionTime")


def is_true(condition: Object | None) -> bool:
    """Whether a condition exists and is true."""
    return condition is not None and str(condition.get("status")) == "True"


def true_since(condition: Object | None) -> int | None:
    """When a condition became true, None if it is not."""
    return changed_us(condition) if is_true(condition) else None


def last_changed_us(item: Object, found: Iterable[Object]) -> int | None:
    """When an object last changed, by its own times."""
    return newest(created_us(item), *(changed_us(condition) for condition in found))
