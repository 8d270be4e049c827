"""Kubernetes' own quotas, priorities and namespaces as queue rows: ResourceQuota, PriorityClass, Namespace."""

from __future__ import annotations

import re
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, string
from gpuwatch.collectors.shared.resource_lists import MIG_PREFIX, json_or_none, profile_of

MAX_DESCRIPTION = 500
TEAM_LABEL = "gpuwatch.io/team"
"""The label of a namespace with its team."""
DRA_CLASSES = {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": ""}
"""Device classes whose devices are whole GPUs."""
_value = re.compile(r"-?[0-9]{1,10}")


@object_kind("ResourceQuota", "", "resourcequotas", ("v1",))
def resource_quota(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a quota, if it limits GPUs. Raises Malformed."""
    metadata, spec, status = mapping(item, "metadata"), mapping(item, "spec"), mapping(item, "status")
    name = string(metadata, "name")
    if not name:
        raise Malformed("metadata has no name")
    hard, other_hard = device_counts(mapping(status, "hard") or mapping(spec, "hard"))
    used, other_used = device_counts(mapping(status, "used"))
    if not hard and not other_hard:
        return
    detail = {"hard": other_hard, "used": other_used, "scopes": spec.get("scopes"), "scope": spec.get("scopeSelector")}
    yield (
        "queue",
        {
            "scheduler": "kubernetes",
            "kind": "resource_quota",
            "name": name,
            "namespace": string(metadata, "namespace") or "default",
            "observed_us": observed_us,
            "state": "Active",
            "quota_max": json_or_none(hard),
            "used": json_or_none(used),
            "detail": json_or_none({key: value for key, value in detail.items() if value}),
        },
    )


@object_kind("PriorityClass", "scheduling.k8s.io", "priorityclasses", ("v1",), namespaced=False)
def priority_class(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a priority class. Raises Malformed."""
    name = string(mapping(item, "metadata"), "name")
    value = item.get("value", 0)
    if not name or isinstance(value, bool) or not _value.fullmatch(str(value)):
        raise Malformed("metadata has no name" if not name else "value is not a whole number")
    policy = string(item, "preemptionPolicy") or "PreemptLowerPriority"
    detail: dict[str, Any] = {"globalDefault": True} if item.get("globalDefault") is True else {}
    if description := string(item, "description"):
        detail["description"] = description[:MAX_DESCRIPTION]
    yield (
        "queue",
        {
            "scheduler": "kubernetes",
            "kind": "priority_class",
            "name": name,
            "observed_us": observed_us,
            "state": "Active",
            "priority": int(value),
            "preemption": json_or_none({"preemptionPolicy": policy}),
            "detail": json_or_none(detail),
        },
    )


@object_kind("Namespace", "", "namespaces", ("v1",), namespaced=False)
def namespace(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a namespace with its team, None without the label. Raises Malformed."""
    metadata = mapping(item, "metadata")
    name = string(metadata, "name")
    if not name:
        raise Malformed("metadata has no name")
    team = string(mapping(metadata, "labels"), TEAM_LABEL)
    yield (
        "queue",
        {
            "scheduler": "kubernetes",
            "kind": "namespace",
            "name": name,
            "namespace": name,
            "observed_us": observed_us,
            "state": string(mapping(item, "status"), "phase") or "Active",
            "detail": json_or_none({"team": team} if team else {}),
        },
    )


def device_counts(counts: Object) -> tuple[dict[str, int], dict[str, int]]:
    """(devices by MIG profile, "" whole GPUs; other GPU resources by name) of a quota's `hard` or `used`.

    Requests and limits of an extended resource are equal; replicas of shared GPUs are not devices.
    """
    devices: dict[str, int] = {}
    others: dict[str, int] = {}
    for key in sorted(counts):
        resource = key.removeprefix("requests.").removeprefix("limits.")
        if resource == "nvidia.com/gpu":
            devices[""] = integer(counts, key) or 0
        elif resource in DRA_CLASSES:
            devices.setdefault(DRA_CLASSES[resource], integer(counts, key) or 0)
        elif resource.startswith(MIG_PREFIX) and not resource.endswith(".shared"):
            devices[profile_of(resource) or ""] = integer(counts, key) or 0
        elif resource.startswith("nvidia.com/") or ".nvidia.com.deviceclass." in resource:
            others[resource] = integer(counts, key) or 0
    return devices, others
