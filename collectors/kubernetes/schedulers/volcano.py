"""Volcano: PodGroups, Jobs and Queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    changed_us,
    conditions,
    created_us,
    identity,
    is_true,
    labels_json,
    last_changed_us,
    newest,
    owner_job,
    pod_devices,
    true_since,
    user_of,
)
from gpuwatch.collectors.shared.json_fields import Object, integer, labels_of, mapping, mappings, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    Devices,
    add_devices,
    devices_of,
    json_or_none,
    non_empty,
    quantity,
    shortened,
    whole_or_none,
)

SCHEDULING = "scheduling.volcano.sh"
BATCH = "batch.volcano.sh"
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
POD_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
GROUP_STATES = {
    "Pending": "pending",
    "Inqueue": "reserved",
    "Running": "running",
    "Unknown": "admitted",
    "Completed": "finished",
}
"""Phases of a PodGroup. Inqueue: admitted by its queue, its pods exist and wait for nodes. Unknown: some of its pods
run and the others do not fit."""
JOB_STATES = {
    "Pending": "pending",
    "Restarting": "pending",
    "Running": "running",
    "Completing": "running",
    "Terminating": "running",
    "Aborting": "running",
    "Aborted": "evicted",
    "Completed": "finished",
    "Terminated": "finished",
    "Failed": "finished",
}
"""Phases of a Job. Aborted: stopped, and may be resumed."""


@dataclass(frozen=True)
class Tasks:
    """What all tasks of a Job ask for: `other` GPU resources are shares, `dra` is whether any task uses DRA claims."""

    pods: int | None
    """None for a Job without tasks."""
    devices: Devices
    other: dict[str, Any]
    dra: bool
    listed: list[dict[str, object]]

    @property
    def device_count(self) -> int | None:
        """None without tasks, and if the GPUs are only in shares or DRA claims."""
        if self.pods is None or (not self.devices and (self.other or self.dra)):
            return None
        return sum(self.devices.values())


@object_kind("PodGroup", SCHEDULING, "podgroups", ("v1beta1",))
def pod_group(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a PodGroup; its devices are those of `minResources`, the minimum it starts with.

    Raises Malformed.
    """
    uid, name, namespace = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    found = conditions(item)
    phase = string(status, "phase")
    devices, other = devices_of(mapping(spec, "minResources"))
    count, profile = whole_or_none(devices)
    placed, refused = found.get("Scheduled"), found.get("Unschedulable")
    waits = phase in (None, "Pending", "Inqueue", "Unknown")
    condition = (refused if is_true(refused) else placed) if waits else placed
    state = GROUP_STATES.get(phase or "Pending")
    ready_us = true_since(placed)
    detail = non_empty(
        devices=devices,
        other=other,
        phase=phase,
        pods=non_empty(**{key: integer(status, key) for key in ("running", "succeeded", "failed")}),
        min_task_member=mapping(spec, "minTaskMember"),
        network_topology=mapping(spec, "networkTopology"),
        sub_groups=len(mappings(spec, "subGroupPolicy")) or None,
    )
    yield (
        "workload",
        {
            "scheduler": "volcano",
            "kind": "PodGroup",
            "uid": uid,
            "name": name,
            "namespace": namespace,
            "job_id": owner_job(item)[0],
            "queue": string(spec, "queue"),
            "priority_class": string(spec, "priorityClassName"),
            "min_count": integer(spec, "minMember"),
            "device_count": count if spec.get("minResources") is not None and (devices or not other) else None,
            "profile": profile,
            "submit_us": created_us(item),
            "admitted_us": ready_us,
            "start_us": ready_us if phase in ("Running", "Completed") else None,
            "end_us": newest(*(changed_us(c) for c in found.values())) if state == "finished" else None,
            "state": state,
            "reason": None if condition is None else string(condition, "reason"),
            "message": None if condition is None else shortened(string(condition, "message")),
            "user_name": user_of(item),
            "labels": labels_json(item),
            "detail": json_or_none(detail),
            "observed_us": observed_us if observed_us is not None else last_changed_us(item, found.values()),
        },
    )


@object_kind("Job", BATCH, "jobs", ("v1alpha1",))
def job(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a Job, and pending rows while it waits and has no pods. Raises Malformed."""
    uid, name, namespace = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    state = mapping(status, "state")
    phase = string(state, "phase")
    tasks = _parse_tasks(spec)
    history = [(string(c, "status"), moment(c, "lastTransitionTime")) for c in mappings(status, "conditions")]
    changed = moment(state, "lastTransitionTime")
    job_state = JOB_STATES.get(phase or "Pending")
    row_us = observed_us if observed_us is not None else newest(created_us(item), changed, *(at for _, at in history))
    counts = non_empty(**{key: integer(status, key) for key in POD_COUNTS})
    row: Columns = {
        "scheduler": "volcano",
        "kind": "Job",
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": f"{namespace}/{name}",
        "queue": string(spec, "queue") or "default",
        "priority_class": string(spec, "priorityClassName"),
        "pod_count": tasks.pods,
        "min_count": integer(spec, "minAvailable") or tasks.pods,
        "device_count": tasks.device_count,
        "profile": whole_or_none(tasks.devices)[1],
        "submit_us": created_us(item),
        "start_us": _first_run(history, phase, changed),
        "evicted_us": changed if job_state == "evicted" else None,
        "end_us": changed if job_state == "finished" else None,
        "state": job_state,
        "reason": string(state, "reason") or phase,
        "message": shortened(string(state, "message")),
        "user_name": user_of(item),
        "labels": labels_json(item),
        "detail": json_or_none(
            non_empty(
                devices=tasks.devices,
                other=tasks.other,
                dra=tasks.dra or None,
                phase=phase,
                pods=counts,
                tasks=tasks.listed,
                retries=integer(status, "retryCount"),
                max_retries=integer(spec, "maxRetry"),
                ran_for=string(status, "runningDuration"),
                network_topology=mapping(spec, "networkTopology"),
            )
        ),
        "observed_us": row_us,
    }
    yield "workload", row
    if job_state == "pending" and not any(counts.values()):
        yield from _pending(row, tasks)


def _first_run(history: list[tuple[str | None, int | None]], phase: str | None, changed: int | None) -> int | None:
    """When a Job first ran, by the (status, time) of its conditions, else by the last change of its phase."""
    ran = [at for word, at in history if word == "Running" and at is not None]
    return min(ran, default=changed if phase == "Running" else None)


def _pending(row: Columns, tasks: Tasks) -> Rows:
    """The pending rows of a Job, one per MIG profile."""
    for profile, count in tasks.devices.items():
        if count:
            yield (
                "pending",
                {
                    "scheduler": "kubernetes",
                    **{key: row[key] for key in ("job_id", "submit_us", "user_name", "namespace", "queue", "reason")},
                    "evidence_us": row["observed_us"],
                    "device_count": count,
                    "profile": profile or None,
                    "node_count": tasks.pods,
                },
            )


@object_kind("Queue", SCHEDULING, "queues", ("v1beta1",), namespaced=False)
def queue(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a Queue. `quota` is what it deserves, or else its guarantee. It lends what it deserves beyond
    its guarantee; what it uses beyond what it deserves is borrowed. Raises Malformed.
    """
    _, name, _ = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    guarantee = mapping(spec, "guarantee")
    # In the CRD the resources are under `resource`; manifests in Volcano's documentation list them directly.
    guaranteed, other_guarantee = devices_of(mapping(guarantee, "resource") or guarantee)
    deserved, other_quota = devices_of(mapping(spec, "deserved"))
    maximum, other_maximum = devices_of(mapping(spec, "capability"))
    used, other_used = devices_of(mapping(status, "allocated"))
    reclaimable = spec.get("reclaimable")
    lent = {n: max(0, count - guaranteed.get(n, 0)) for n, count in deserved.items() if reclaimable is not False}
    hierarchy = labels_of(item, "annotations").get(HIERARCHY)
    waiting = _waiting(status)
    weight = spec.get("weight")
    parent = string(spec, "parent") or (hierarchy.rpartition("/")[0] if hierarchy else "")
    detail: dict[str, Any] = non_empty(
        hierarchy=hierarchy,
        hierarchy_weights=labels_of(item, "annotations").get(HIERARCHY_WEIGHTS),
        guaranteed=guaranteed,
        other=non_empty(
            guarantee=other_guarantee, quota=other_quota, quota_max=other_maximum, used=other_used
        ),
        dequeue_strategy=string(spec, "dequeueStrategy"),
        affinity=mapping(spec, "affinity"),
        counts=non_empty(**{k: integer(status, k) for k in ("pending", "inqueue", "running", "completed", "unknown")}),
        locked_nodes=mapping(status, "reservation").get("nodes"),
    )  # fmt: skip
    yield (
        "queue",
        {
            "scheduler": "volcano",
            "kind": "queue",
            "name": name,
            "parent": parent or None,
            "observed_us": observed_us if observed_us is not None else created_us(item),
            "state": string(status, "state"),
            "priority": integer(spec, "priority"),
            "weight": None if weight is None else float(quantity(weight, "weight")),
            "quota": json_or_none(deserved or guaranteed),
            "quota_max": json_or_none(maximum),
            "lend_max": json_or_none(lent),
            "used": json_or_none(used) or _none_used(status, maximum | deserved | guaranteed),
            "borrowed": json_or_none({n: max(0, count - deserved[n]) for n, count in used.items() if n in deserved}),
            "pending_count": waiting,
            "running_count": integer(status, "running"),
            "preemption": None if reclaimable is None else json_or_none({"reclaimable": reclaimable is True}),
            "detail": json_or_none(detail),
        },
    )


def _waiting(status: Object) -> int | None:
    """PodGroups that wait in a queue, None if its status counts none of them."""
    counts = [count for key in ("pending", "inqueue") if (count := integer(status, key)) is not None]
    return sum(counts) if counts else None


def _parse_tasks(spec: Object) -> Tasks:
    pods, devices, other, tasks, dra = 0, Devices(), dict[str, Any](), list[dict[str, object]](), False
    for task in mappings(spec, "tasks"):
        replicas = integer(task, "replicas")
        replicas = 1 if replicas is None else replicas
        template = mapping(task, "template")
        task_devices, rest = pod_devices(template, replicas)
        pods, devices = pods + replicas, add_devices(devices, task_devices)
        for resource, number in rest.items():
            other[resource] = other.get(resource, 0) + number
        dra = dra or bool(mappings(mapping(template, "spec"), "resourceClaims"))
        tasks.append(
            non_empty(
                name=string(task, "name"), replicas=replicas, least=integer(task, "minAvailable"), devices=task_devices
            )
        )
    return Tasks(pods if tasks else None, devices, other, dra, tasks)


def _none_used(status: Object, kinds: Devices) -> str | None:
    """Zeros for the devices that the queue may have, if its status lists allocations without any device."""
    return json_or_none(dict.fromkeys(sorted(kinds), 0)) if status.get("allocated") is not None else None
