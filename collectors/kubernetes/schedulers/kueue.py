"""Kueue's Workloads: what gangs request, and their admission, eviction and placement (v1beta1 and v1beta2)."""

from __future__ import annotations

from collections.abc import Iterator
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
from gpuwatch.collectors.kubernetes.schedulers.kueue_topology import MAX_DOMAINS, placements
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, mappings, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    Devices,
    add_devices,
    devices_of,
    json_or_none,
    non_empty,
    shortened,
    whole_or_none,
)

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
MAX_PODS = 1 << 31
WAITING = frozenset({"pending", "inadmissible", "evicted"})
"""States in which a gang waits for quota."""


@object_kind("Workload", GROUP, "workloads", VERSIONS)
def workload(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a Workload, and a pending row while it waits without pods.

    Kueue suspends jobs: no pod exists before the Workload is admitted, so the request is recorded here. The pods of
    Workloads that belong to Pods exist and are recorded as requests themselves. Raises Malformed.
    """
    uid, name, namespace = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    if not spec:
        raise Malformed("has no spec")
    found = conditions(item)
    job_id, owner_kind = owner_job(item)
    admission = mapping(status, "admission")
    reclaimed = [] if is_true(found.get("Finished")) else mappings(status, "reclaimablePods")
    request = _Request(spec, status, admission, {string(pods, "name"): _whole(pods, "count", 0) for pods in reclaimed})
    count, profile = whole_or_none(request.devices)
    state, condition = _state(spec, found)
    row_us = newest(observed_us, None if observed_us is not None else last_changed_us(item, found.values()))
    evictions, preemptions = _evictions(status, found)
    row: Columns = {
        "scheduler": "kueue",
        "kind": "Workload",
        "uid": uid,
        "name": name,
        "namespace": namespace,
        "job_id": job_id,
        "queue": string(spec, "queueName"),
        "cluster_queue": string(admission, "clusterQueue"),
        "priority_class": string(spec, "priorityClassName") or string(mapping(spec, "priorityClassRef"), "name"),
        "priority": _priority(spec),
        "pod_count": request.pods,
        "min_count": request.min_pods,
        "device_count": count if request.known else None,
        "profile": profile,
        "gpu_type": ",".join(request.flavors) or None,
        "submit_us": created_us(item),
        "reserved_us": true_since(found.get("QuotaReserved")),
        "admitted_us": true_since(found.get("Admitted")),
        "start_us": true_since(found.get("PodsReady")),
        "evicted_us": true_since(found.get("Evicted")),
        "end_us": true_since(found.get("Finished")),
        "evictions": evictions,
        "preemptions": preemptions,
        "state": state,
        "reason": None if condition is None else string(condition, "reason"),
        "message": None if condition is None else shortened(string(condition, "message")),
        "user_name": user_of(item),
        "placement": json_or_none(request.placed),
        "labels": labels_json(item),
        "detail": json_or_none(_detail(spec, status, found, request)),
        "observed_us": row_us,
    }
    yield "workload", row
    if state in WAITING and spec.get("active") is not False and owner_kind not in (None, "Pod"):
        yield from _waiting(row, request, row_us)


class _Request:
    """What all pod sets of a workload request, or were assigned once it is admitted."""

    def __init__(self, spec: Object, status: Object, admission: Object, done: dict[str | None, int]) -> None:
        """`done`: pods that have succeeded, by pod set. Kueue gave their quota back, and asks for none of them again after an eviction.

        Raises Malformed.
        """
        assigned = {string(a, "name"): a for a in mappings(admission, "podSetAssignments")}
        listed = status.get("resourceRequests")
        requests = {string(r, "name"): r for r in (mappings(status, "resourceRequests") if listed else [])}
        self.pods: int | None = None
        self.min_pods: int | None = None
        self.devices: Devices = {}
        self.other: dict[str, Any] = {}
        self.sets: list[dict[str, object]] = []
        self.placed: list[dict[str, Any]] = []
        self.unplaced = 0
        self.dra = False
        self.flavors: list[str] = []
        for pod_set in mappings(spec, "podSets"):
            name = string(pod_set, "name")
            self._add(pod_set, name, assigned.get(name, {}), requests.get(name, {}), done.get(name, 0))
        self.flavors = list(dict.fromkeys(self.flavors))

    @property
    def known(self) -> bool:
        """Whether the number of devices is known: with DRA claims or without pod sets it is not."""
        return self.pods is not None and not (self.dra and not self.devices) and not (self.other and not self.devices)

    def _add(self, pod_set: Object, name: str | None, assigned: Object, request: Object, done: int) -> None:
        requested = _whole(pod_set, "count", 1)
        given = _whole(assigned, "count", requested)
        count = max(given - done, 0)
        minimum = max(_whole(pod_set, "minCount", given) - done, 0)
        template = mapping(pod_set, "template")
        devices, other = pod_devices(template, count)
        used, used_other = devices_of(mapping(assigned, "resourceUsage"))
        if done and given:
            used = {profile: number * count // given for profile, number in used.items()}
        if not used and not used_other:
            used, used_other = devices_of(mapping(request, "resources"))
        devices, other = used or devices, used_other or other
        flavors = mapping(assigned, "flavors")
        names = [string(flavors, resource) for resource in sorted(flavors) if devices_of({resource: 1}) != ({}, {})]
        gpu_flavors = [flavor for flavor in names if flavor]
        topology = mapping(pod_set, "topologyRequest")
        self.dra = self.dra or bool(mappings(mapping(template, "spec"), "resourceClaims"))
        self.pods, self.min_pods = (self.pods or 0) + count, (self.min_pods or 0) + min(minimum, count)
        self.devices = add_devices(self.devices, devices)
        for resource, number in other.items():
            self.other[resource] = self.other.get(resource, 0) + number
        self.flavors += gpu_flavors
        self.sets.append(
            non_empty(
                name=name, count=count, asked=requested if requested != given else None, devices=devices, flavors=gpu_flavors,
                topology=topology,
            )
        )  # fmt: skip
        domains = placements(mapping(assigned, "topologyAssignment"), name)
        space = MAX_DOMAINS - len(self.placed)
        self.placed += domains[:space]
        self.unplaced += max(0, len(domains) - space)


def _state(spec: Object, found: dict[str, Object]) -> tuple[str, Object | None]:
    """(state, the condition that explains it)."""
    reserved, evicted = found.get("QuotaReserved"), found.get("Evicted")
    if is_true(found.get("Finished")):
        return "finished", found["Finished"]
    if is_true(evicted):
        return "evicted", evicted
    if is_true(found.get("Admitted")):
        ready = found.get("PodsReady")
        return ("running", ready) if is_true(ready) else ("admitted", ready or found["Admitted"])
    if is_true(reserved):
        return "reserved", reserved
    if spec.get("active") is False or (reserved is not None and reserved.get("reason") == "Inadmissible"):
        return "inadmissible", reserved
    return "pending", reserved


def _evictions(status: Object, found: dict[str, Object]) -> tuple[int | None, int | None]:
    """(all evictions, those by preemption); unknown until Kueue has evaluated the workload."""
    evictions = mappings(mapping(status, "schedulingStats"), "evictions")
    if evictions:
        counts = [(string(e, "reason"), _whole(e, "count", 0)) for e in evictions]
        return sum(n for _, n in counts), sum(n for reason, n in counts if reason == "Preempted")
    if not found or "Evicted" in found or "Preempted" in found:
        return None, None
    return 0, 0


def _waiting(row: Columns, request: _Request, evidence_us: int | None) -> Iterator[tuple[str, Columns]]:
    for profile, count in request.devices.items():
        if not count:
            continue
        yield (
            "pending",
            {
                "scheduler": "kubernetes",
                "job_id": row["job_id"] or f"{row['namespace']}/{row['name']}",
                "submit_us": row["submit_us"],
                "evidence_us": evidence_us,
                "device_count": count,
                "profile": profile or None,
                "node_count": request.pods,
                "user_name": row["user_name"],
                "namespace": row["namespace"],
                "queue": row["queue"],
                "reason": row["reason"],
            },
        )


def _detail(spec: Object, status: Object, found: dict[str, Object], request: _Request) -> dict[str, object]:
    requeue, preempted = mapping(status, "requeueState"), found.get("Preempted")
    waits = found.get("QuotaReserved")
    checks = mappings(status, "admissionChecks")
    gates = mappings(spec, "preemptionGates")
    return non_empty(
        devices=request.devices,
        other=request.other,
        dra=request.dra or None,
        pod_sets=request.sets,
        placement_left_out=request.unplaced or None,
        active=False if spec.get("active") is False else None,
        waits=None if waits is None or is_true(waits) else non_empty(
            reason=string(waits, "reason"), message=shortened(string(waits, "message")), since_us=changed_us(waits)
        ),
        preempted_by=string(preempted, "reason") if preempted is not None and is_true(preempted) else None,
        requeues=integer(requeue, "count"),
        requeue_at_us=moment(requeue, "requeueAt"),
        evictions=[
            non_empty(reason=string(e, "reason"), cause=string(e, "underlyingCause"), count=_whole(e, "count", 0))
            for e in mappings(mapping(status, "schedulingStats"), "evictions")
        ],
        admission_checks=[non_empty(name=string(c, "name"), state=string(c, "state")) for c in checks],
        preemption_gates=[string(gate, "name") for gate in gates],
        reclaimable=[
            non_empty(name=string(p, "name"), count=integer(p, "count")) for p in mappings(status, "reclaimablePods")
        ],
        unhealthy_nodes=[string(node, "name") for node in mappings(status, "unhealthyNodes")],
        ran_in_cluster=string(status, "clusterName"),
        seconds_max=integer(spec, "maximumExecutionTimeSeconds"),
    )  # fmt: skip


def _priority(spec: Object) -> int | None:
    value = spec.get("priority")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise Malformed("priority is not a whole number")
    return value


def _whole(parent: Object, key: str, default: int) -> int:
    value = integer(parent, key)
    return default if value is None else value
