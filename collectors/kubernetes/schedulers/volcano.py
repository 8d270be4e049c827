"""Volcano: PodGroups, Jobs and Queues."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    conditions,
    created,
    holds,
    identity,
    labels_json,
    last_time,
    newest,
    owner_job,
    pod_devices,
    since,
    user_of,
    when,
)
from gpuwatch.collectors.shared.json_fields import Object, integer, labels_of, mapping, mappings, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    Devices,
    devices_of,
    dumped,
    filled,
    plus,
    quantity,
    short,
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
"""Phases of a PodGroup. Inqueue: its queue let it in, its pods are made and wait for nodes. Unknown: a part of it
runs and the rest finds no place."""
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
"""Phases of a Job. Aborted: it was stopped and may be resumed."""


@object_kind("PodGroup", SCHEDULING, "podgroups", ("v1beta1",))
def pod_group(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a PodGroup; its devices are those of `minResources`, the least it starts with.

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
    said = (refused if holds(refused) else placed) if waits else placed
    state = GROUP_STATES.get(phase or "Pending")
    ready_us = since(placed)
    detail = filled(
        devices=devices,
        other=other,
        phase=phase,
        pods=filled(**{key: integer(status, key) for key in ("running", "succeeded", "failed")}),
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
            "submit_us": created(item),
            "admitted_us": ready_us,
            "start_us": ready_us if phase in ("Running", "Completed") else None,
            "end_us": newest(*(when(c) for c in found.values())) if state == "finished" else None,
            "state": state,
            "reason": None if said is None else string(said, "reason"),
            "message": None if said is None else short(string(said, "message")),
            "user_name": user_of(item),
            "labels": labels_json(item),
            "detail": dumped(detail),
            "observed_us": newest(observed_us, None if observed_us is not None else last_time(item, found.values())),
        },
    )


@object_kind("Job", BATCH, "jobs", ("v1alpha1",))
def job(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a Job, and pending rows while it waits and has no pods. Raises Malformed."""
    uid, name, namespace = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    state = mapping(status, "state")
    phase = string(state, "phase")
    pods, devices, other, tasks, dra = _tasks(spec)
    count, profile = whole_or_none(devices)
    history = [(string(c, "status"), moment(c, "lastTransitionTime")) for c in mappings(status, "conditions")]
    changed = moment(state, "lastTransitionTime")
    ran = [at for word, at in history if word == "Running" and at is not None]
    own = JOB_STATES.get(phase or "Pending")
    spoken = observed_us if observed_us is not None else newest(created(item), changed, *(at for _, at in history))
    counts = filled(**{key: integer(status, key) for key in POD_COUNTS})
    known = bool(tasks) and not (not devices and (other or dra))
    row: Columns = {
        "scheduler": "volcano",
        "kind": "Job",
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": f"{namespace}/{name}",
        "queue": string(spec, "queue") or "default",
        "priority_class": string(spec, "priorityClassName"),
        "pod_count": pods if tasks else None,
        "min_count": integer(spec, "minAvailable") or (pods if tasks else None),
        "device_count": count if known else None,
        "profile": profile,
        "submit_us": created(item),
        "start_us": min(ran, default=changed if phase == "Running" else None),
        "evicted_us": changed if own == "evicted" else None,
        "end_us": changed if own == "finished" else None,
        "state": own,
        "reason": string(state, "reason") or phase,
        "message": short(string(state, "message")),
        "user_name": user_of(item),
        "labels": labels_json(item),
        "detail": dumped(
            filled(
                devices=devices,
                other=other,
                dra=dra or None,
                phase=phase,
                pods=counts,
                tasks=tasks,
                retries=integer(status, "retryCount"),
                max_retries=integer(spec, "maxRetry"),
                ran_for=string(status, "runningDuration"),
                network_topology=mapping(spec, "networkTopology"),
            )
        ),
        "observed_us": spoken,
    }
    yield "workload", row
    if own != "pending" or any(counts.get(key) for key in POD_COUNTS):
        return
    for name_of_profile, amount in devices.items():
        if amount:
            yield (
                "pending",
                {
                    "scheduler": "kubernetes",
                    "job_id": row["job_id"],
                    "submit_us": row["submit_us"],
                    "evidence_us": spoken,
                    "device_count": amount,
                    "profile": name_of_profile or None,
                    "node_count": pods,
                    "user_name": row["user_name"],
                    "namespace": namespace,
                    "queue": row["queue"],
                    "reason": row["reason"],
                },
            )


@object_kind("Queue", SCHEDULING, "queues", ("v1beta1",), namespaced=False)
def queue(item: Object, observed_us: int | None) -> Rows:
    """The queue row of a Queue. `quota` is what it deserves, else what is guaranteed; what it deserves beyond its
    guarantee it lends, what it uses beyond it is borrowed. Raises Malformed.
    """
    _, name, _ = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    guarantee = mapping(spec, "guarantee")
    # The CRD puts the resources under `resource`; manifests in Volcano's documentation name them directly.
    guaranteed, other_guarantee = devices_of(mapping(guarantee, "resource") or guarantee)
    deserved, other_quota = devices_of(mapping(spec, "deserved"))
    most, other_most = devices_of(mapping(spec, "capability"))
    used, other_used = devices_of(mapping(status, "allocated"))
    reclaimable = spec.get("reclaimable")
    lent = {n: max(0, count - guaranteed.get(n, 0)) for n, count in deserved.items() if reclaimable is not False}
    hierarchy = labels_of(item, "annotations").get(HIERARCHY)
    waiting = [integer(status, key) for key in ("pending", "inqueue")]
    weight = spec.get("weight")
    parent = string(spec, "parent") or (hierarchy.rpartition("/")[0] if hierarchy else "")
    detail: dict[str, Any] = filled(
        hierarchy=hierarchy,
        hierarchy_weights=labels_of(item, "annotations").get(HIERARCHY_WEIGHTS),
        guaranteed=guaranteed,
        other=filled(
            guarantee=other_guarantee, quota=other_quota, quota_max=other_most, used=other_used
        ),
        dequeue_strategy=string(spec, "dequeueStrategy"),
        affinity=mapping(spec, "affinity"),
        counts=filled(**{k: integer(status, k) for k in ("pending", "inqueue", "running", "completed", "unknown")}),
        locked_nodes=mapping(status, "reservation").get("nodes"),
    )  # fmt: skip
    yield (
        "queue",
        {
            "scheduler": "volcano",
            "kind": "queue",
            "name": name,
            "parent": parent or None,
            "observed_us": newest(observed_us, None if observed_us is not None else created(item)),
            "state": string(status, "state"),
            "priority": integer(spec, "priority"),
            "weight": None if weight is None else float(quantity(weight, "weight")),
            "quota": dumped(deserved or guaranteed),
            "quota_max": dumped(most),
            "lend_max": dumped(lent),
            "used": dumped(used) or _none_used(status, most | deserved | guaranteed),
            "borrowed": dumped({n: max(0, count - deserved[n]) for n, count in used.items() if n in deserved}),
            "pending_count": None if waiting == [None, None] else sum(n or 0 for n in waiting),
            "running_count": integer(status, "running"),
            "preemption": None if reclaimable is None else dumped({"reclaimable": reclaimable is True}),
            "detail": dumped(detail),
        },
    )


def _tasks(spec: Object) -> tuple[int, Devices, dict[str, Any], list[dict[str, object]], bool]:
    """(pods, devices, other resources of GPUs, the tasks, whether DRA claims are among them) of a Job."""
    pods, devices, other, told, dra = 0, Devices(), dict[str, Any](), list[dict[str, object]](), False
    for task in mappings(spec, "tasks"):
        replicas = integer(task, "replicas")
        replicas = 1 if replicas is None else replicas
        template = mapping(task, "template")
        mine, rest = pod_devices(template, replicas)
        pods, devices = pods + replicas, plus(devices, mine)
        for resource, number in rest.items():
            other[resource] = other.get(resource, 0) + number
        dra = dra or bool(mappings(mapping(template, "spec"), "resourceClaims"))
        told.append(
            filled(name=string(task, "name"), replicas=replicas, least=integer(task, "minAvailable"), devices=mine)
        )
    return pods, devices, other, told, dra


def _none_used(status: Object, kinds: Devices) -> str | None:
    """A status that lists what is allocated, and no device in it: none of those that the queue may have is in use."""
    return dumped(dict.fromkeys(sorted(kinds), 0)) if status.get("allocated") is not None else None
