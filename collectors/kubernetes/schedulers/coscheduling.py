"""PodGroups of the coscheduling plugin, and gangs of Kubernetes itself (1.35 on)."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    conditions,
    created_us,
    identity,
    is_true,
    labels_json,
    last_changed_us,
    newest,
    owner_job,
    true_since,
    user_of,
)
from gpuwatch.collectors.shared.json_fields import Object, integer, mapping, mappings, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import devices_of, json_or_none, non_empty, shortened, whole_or_none

PHASES = {
    "Pending": "pending",
    "PreScheduling": "pending",
    "Scheduling": "pending",
    "Scheduled": "admitted",
    "Running": "running",
    "Unknown": "admitted",
    "Finished": "finished",
    "Failed": "finished",
}
"""Phases of the plugin's PodGroup."""


@object_kind("PodGroup", "scheduling.x-k8s.io", "podgroups", ("v1alpha1",))
def pod_group(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a PodGroup of scheduler-plugins; its pods have the requests. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    devices, other = devices_of(mapping(spec, "minResources"))
    count, profile = whole_or_none(devices)
    phase, occupied = string(status, "phase"), string(status, "occupiedBy")
    state = PHASES.get(phase or "Pending")
    scheduled_us = moment(status, "scheduleStartTime")
    row = _shared(item, observed_us, scheduled_us) | {
        "kind": "PodGroup",
        "min_count": integer(spec, "minMember"),
        "device_count": count if spec.get("minResources") is not None and (devices or not other) else None,
        "profile": profile,
        "state": state,
        "reason": phase,
    }
    if row["job_id"] is None and occupied is not None and "," not in occupied and occupied.count("/") == 1:
        row["job_id"] = occupied
    detail = non_empty(
        devices=devices,
        other=other,
        phase=phase,
        occupied_by=occupied,
        scheduling_since_us=scheduled_us,
        timeout_s=integer(spec, "scheduleTimeoutSeconds"),
        pods=non_empty(**{key: integer(status, key) for key in ("scheduled", "running", "succeeded", "failed")}),
    )
    yield "workload", row | {"detail": json_or_none(detail)}


@object_kind("PodGroup", "scheduling.k8s.io", "podgroups", ("v1alpha2",))
def core_pod_group(item: Object, observed_us: int | None) -> Rows:
    """The workload row of Kubernetes' own PodGroup: how many of its pods must start together. Raises Malformed."""
    spec = mapping(item, "spec")
    gang = mapping(mapping(spec, "schedulingPolicy"), "gang")
    placed = conditions(item).get("PodGroupScheduled")
    row = _shared(item, observed_us, None) | {
        "kind": "PodGroup",
        "scheduler": "kubernetes",
        "min_count": integer(gang, "minCount"),
        "priority_class": string(spec, "priorityClassName"),
        "admitted_us": true_since(placed),
        "state": None if placed is None else "admitted" if is_true(placed) else "pending",
        "reason": None if placed is None else string(placed, "reason"),
        "message": None if placed is None else shortened(string(placed, "message")),
    }
    policy = "gang" if gang else "basic" if mapping(spec, "schedulingPolicy") else None
    yield (
        "workload",
        row | {"detail": json_or_none(non_empty(policy=policy, template=mapping(spec, "podGroupTemplateRef")))},
    )


@object_kind("Workload", "scheduling.k8s.io", "workloads", ("v1alpha2", "v1alpha1"))
def core_workload(item: Object, observed_us: int | None) -> Rows:
    """The workload row of Kubernetes' own Workload, a policy without a state of its own. Raises Malformed."""
    spec = mapping(item, "spec")
    _, _, namespace = identity(item)
    reference = mapping(spec, "controllerRef")
    groups: list[dict[str, Any]] = []
    for group in mappings(spec, "podGroups") + mappings(spec, "podGroupTemplates"):
        policy = mapping(group, "policy") or mapping(group, "schedulingPolicy")
        minimum = integer(mapping(policy, "gang"), "minCount")
        groups.append(non_empty(name=string(group, "name"), min_count=minimum))
    minimums = [group["min_count"] for group in groups if "min_count" in group]
    name = string(reference, "name")
    row = _shared(item, observed_us, None) | {
        "kind": "Workload",
        "scheduler": "kubernetes",
        "min_count": sum(minimums) if minimums else None,
    }
    row["job_id"] = row["job_id"] or (f"{namespace}/{name}" if name else None)
    yield "workload", row | {"detail": json_or_none(non_empty(groups=groups))}


def _shared(item: Object, observed_us: int | None, also_us: int | None) -> Columns:
    uid, name, namespace = identity(item)
    changed_us = newest(also_us, last_changed_us(item, conditions(item).values()))
    return {
        "scheduler": "coscheduling",
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": owner_job(item)[0],
        "submit_us": created_us(item),
        "user_name": user_of(item),
        "labels": labels_json(item),
        "observed_us": changed_us if observed_us is None else observed_us,
    }
