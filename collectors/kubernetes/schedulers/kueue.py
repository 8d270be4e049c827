"""Kueue's Workloads: what gangs ask for, how they wait, are admitted, evicted and placed (v1beta1 and v1beta2)."""

from __future__ import annotations

from collections.abc import Iterator
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
from gpuwatch.collectors.kubernetes.schedulers.kueue_topology import MAX_DOMAINS, placements
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, mappings, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import Devices, devices_of, dumped, filled, plus, short, whole_or_none

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
MAX_PODS = 1 << 31
WAITING = frozenset({"pending", "inadmissible", "evicted"})
"""States in which a gang waits for quota."""


@object_kind("Workload", GROUP, "workloads", VERSIONS)
def workload(item: Object, observed_us: int | None) -> Rows:
    """The workload row of a Workload, and a pending row where it waits while its pods are held back.

    Kueue suspends jobs: no pod exists before the Workload is admitted, so its request is told here. Workloads that
    belong to Pods wait as these pods, which tell it themselves. Raises Malformed.
    """
    uid, name, namespace = identity(item)
    spec, status = mapping(item, "spec"), mapping(item, "status")
    if not spec:
        raise Malformed("has no spec")
    found = conditions(item)
    job_id, owner_kind = owner_job(item)
    admission = mapping(status, "admission")
    asked = _Asked(spec, status, admission)
    count, profile = whole_or_none(asked.devices)
    state, said = _state(spec, found)
    spoken = newest(observed_us, None if observed_us is not None else last_time(item, found.values()))
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
        "pod_count": asked.pods,
        "min_count": asked.least,
        "device_count": count if asked.known else None,
        "profile": profile,
        "gpu_type": ",".join(asked.flavors) or None,
        "submit_us": created(item),
        "reserved_us": since(found.get("QuotaReserved")),
        "admitted_us": since(found.get("Admitted")),
        "start_us": since(found.get("PodsReady")),
        "evicted_us": since(found.get("Evicted")),
        "end_us": since(found.get("Finished")),
        "evictions": evictions,
        "preemptions": preemptions,
        "state": state,
        "reason": None if said is None else string(said, "reason"),
        "message": None if said is None else short(string(said, "message")),
        "user_name": user_of(item),
        "placement": dumped(asked.placed),
        "labels": labels_json(item),
        "detail": dumped(_detail(spec, status, found, asked)),
        "observed_us": spoken,
    }
    yield "workload", row
    if state in WAITING and spec.get("active") is not False and owner_kind not in (None, "Pod"):
        yield from _waiting(row, asked, spoken)


class _Asked:
    """What all pod sets of a workload ask for; of an admitted one what it was given."""

    def __init__(self, spec: Object, status: Object, admission: Object) -> None:
        """Raises Malformed."""
        given = {string(a, "name"): a for a in mappings(admission, "podSetAssignments")}
        told = status.get("resourceRequests")
        requests = {string(r, "name"): r for r in (mappings(status, "resourceRequests") if told else [])}
        self.pods: int | None = None
        self.least: int | None = None
        self.devices: Devices = {}
        self.other: dict[str, Any] = {}
        self.sets: list[dict[str, object]] = []
        self.placed: list[dict[str, Any]] = []
        self.unplaced = 0
        self.dra = False
        self.flavors: list[str] = []
        for pod_set in mappings(spec, "podSets"):
            name = string(pod_set, "name")
            self._add(pod_set, name, given.get(name, {}), requests.get(name, {}))
        self.flavors = list(dict.fromkeys(self.flavors))

    @property
    def known(self) -> bool:
        """Whether the objects say how many devices these are: DRA claims and a workload without pod sets do not."""
        return self.pods is not None and not (self.dra and not self.devices) and not (self.other and not self.devices)

    def _add(self, pod_set: Object, name: str | None, given: Object, request: Object) -> None:
        asked = _whole(pod_set, "count", 1)
        count = _whole(given, "count", asked)
        least = _whole(pod_set, "minCount", count)
        template = mapping(pod_set, "template")
        devices, other = pod_devices(template, count)
        used, used_other = devices_of(mapping(given, "resourceUsage"))
        if not used and not used_other:
            used, used_other = devices_of(mapping(request, "resources"))
        devices, other = used or devices, used_other or other
        flavors = mapping(given, "flavors")
        told = [string(flavors, resource) for resource in sorted(flavors) if devices_of({resource: 1}) != ({}, {})]
        mine = [flavor for flavor in told if flavor]
        topology = mapping(pod_set, "topologyRequest")
        self.dra = self.dra or bool(mappings(mapping(template, "spec"), "resourceClaims"))
        self.pods, self.least = (self.pods or 0) + count, (self.least or 0) + min(least, count)
        self.devices = plus(self.devices, devices)
        for resource, number in other.items():
            self.other[resource] = self.other.get(resource, 0) + number
        self.flavors += mine
        self.sets.append(
            filled(
                name=name, count=count, asked=asked if asked != count else None, devices=devices, flavors=mine,
                topology=topology,
            )
        )  # fmt: skip
        domains = placements(mapping(given, "topologyAssignment"), name)
        room = MAX_DOMAINS - len(self.placed)
        self.placed += domains[:room]
        self.unplaced += max(0, len(domains) - room)


def _state(spec: Object, found: dict[str, Object]) -> tuple[str, Object | None]:
    """(state, the condition that says why)."""
    reserved, evicted = found.get("QuotaReserved"), found.get("Evicted")
    if holds(found.get("Finished")):
        return "finished", found["Finished"]
    if holds(evicted):
        return "evicted", evicted
    if holds(found.get("Admitted")):
        ready = found.get("PodsReady")
        return ("running", ready) if holds(ready) else ("admitted", ready or found["Admitted"])
    if holds(reserved):
        return "reserved", reserved
    if spec.get("active") is False or (reserved is not None and reserved.get("reason") == "Inadmissible"):
        return "inadmissible", reserved
    return "pending", reserved


def _evictions(status: Object, found: dict[str, Object]) -> tuple[int | None, int | None]:
    """(evictions, those of them for another workload): 0 is told only of a workload that Kueue has looked at."""
    told = mappings(mapping(status, "schedulingStats"), "evictions")
    if told:
        counts = [(string(e, "reason"), _whole(e, "count", 0)) for e in told]
        return sum(n for _, n in counts), sum(n for reason, n in counts if reason == "Preempted")
    if not found or "Evicted" in found or "Preempted" in found:
        return None, None
    return 0, 0


def _waiting(row: Columns, asked: _Asked, spoken_us: int | None) -> Iterator[tuple[str, Columns]]:
    for profile, count in asked.devices.items():
        if not count:
            continue
        yield (
            "pending",
            {
                "scheduler": "kubernetes",
                "job_id": row["job_id"] or f"{row['namespace']}/{row['name']}",
                "submit_us": row["submit_us"],
                "evidence_us": spoken_us,
                "device_count": count,
                "profile": profile or None,
                "node_count": asked.pods,
                "user_name": row["user_name"],
                "namespace": row["namespace"],
                "queue": row["queue"],
                "reason": row["reason"],
            },
        )


def _detail(spec: Object, status: Object, found: dict[str, Object], asked: _Asked) -> dict[str, object]:
    requeue, preempted = mapping(status, "requeueState"), found.get("Preempted")
    waits = found.get("QuotaReserved")
    checks = mappings(status, "admissionChecks")
    gates = mappings(spec, "preemptionGates")
    return filled(
        devices=asked.devices,
        other=asked.other,
        dra=asked.dra or None,
        pod_sets=asked.sets,
        placement_left_out=asked.unplaced or None,
        active=False if spec.get("active") is False else None,
        waits=None if waits is None or holds(waits) else filled(
            reason=string(waits, "reason"), message=short(string(waits, "message")), since_us=when(waits)
        ),
        preempted_by=string(preempted, "reason") if preempted is not None and holds(preempted) else None,
        requeues=integer(requeue, "count"),
        requeue_at_us=moment(requeue, "requeueAt"),
        evictions=[
            filled(reason=string(e, "reason"), cause=string(e, "underlyingCause"), count=_whole(e, "count", 0))
            for e in mappings(mapping(status, "schedulingStats"), "evictions")
        ],
        admission_checks=[filled(name=string(c, "name"), state=string(c, "state")) for c in checks],
        preemption_gates=[string(gate, "name") for gate in gates],
        reclaimable=[
            filled(name=string(p, "name"), count=integer(p, "count")) for p in mappings(status, "reclaimablePods")
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
