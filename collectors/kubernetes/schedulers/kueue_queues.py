"""Kueue's queues: ClusterQueue, LocalQueue, Cohort, ResourceFlavor, priority classes, and who waits at which place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    conditions,
    created,
    holds,
    identity,
    last_time,
    newest,
    owner_job,
)
from gpuwatch.collectors.kubernetes.schedulers.kueue import GROUP, VERSIONS
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, mappings, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import Devices, devices_of, dumped, filled, plus, quantity, short

VISIBILITY = "visibility.kueue.x-k8s.io"
"""Answers on demand, nothing to list or watch: read from files."""
MAX_FLAVORS = 4096
"""16 groups of 64 flavors and more are no ClusterQueue."""
QUOTAS = (("nominalQuota", "quota"), ("borrowingLimit", "borrow"), ("lendingLimit", "lend"))

Amounts = dict[str, Devices]
"""Devices by what they are: quota, borrow, lend, used, borrowed, reserved."""


@object_kind("ClusterQueue", GROUP, "clusterqueues", VERSIONS, namespaced=False)
def cluster_queue(item: Object, observed_us: int | None) -> Rows:
    """A row of all flavors, then one a flavor that has devices. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    cohort = string(spec, "cohortName") or string(spec, "cohort")
    held = {
        "used": _by_flavor(status, "flavorsUsage"),
        "reserved": _by_flavor(status, "flavorsReservation"),
    }
    flavors = _quotas(spec)
    for place, told in held.items():
        for flavor, resources in told.items():
            amounts, _ = flavors.setdefault(flavor, ({}, {}))
            amounts[place] = devices_of({name: row.get("total") for name, row in resources.items()})[0]
            if place == "used":
                amounts["borrowed"] = devices_of({name: row.get("borrowed") for name, row in resources.items()})[0]
    usage_known = bool(held["used"])
    strategy = mapping(spec, "admissionChecksStrategy")
    checks = spec.get("admissionChecks")
    detail = filled(
        queueing_strategy=string(spec, "queueingStrategy"),
        flavor_fungibility=mapping(spec, "flavorFungibility"),
        admission_checks=[string(check, "name") for check in mappings(strategy, "admissionChecks")]
        or (checks if isinstance(checks, list) else None),
        admission_scope=mapping(spec, "admissionScope"),
        namespace_selector=mapping(spec, "namespaceSelector"),
        weighted_share=mapping(status, "fairSharing").get("weightedShare"),
        reserving=integer(status, "reservingWorkloads"),
    )
    shared = _shared("cluster_queue", item, observed_us, cohort) | {"preemption": dumped(mapping(spec, "preemption"))}
    counts = {
        "pending_count": integer(status, "pendingWorkloads"),
        "running_count": integer(status, "admittedWorkloads"),
        "detail": detail,
    }
    yield from _rows(shared, counts, flavors, bool(cohort), usage_known)


@object_kind("LocalQueue", GROUP, "localqueues", VERSIONS)
def local_queue(item: Object, observed_us: int | None) -> Rows:
    """A row of all flavors, then one a flavor in use; its quota is its ClusterQueue's. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    flavors: dict[str, tuple[Amounts, dict[str, Any]]] = {}
    told = _by_flavor(status, "flavorsUsage") or _by_flavor(status, "flavorUsage")
    for flavor, resources in told.items():
        used, other = devices_of({name: row.get("total") for name, row in resources.items()})
        flavors[flavor] = {"used": used}, filled(used=other)
    shared = _shared("local_queue", item, observed_us, string(spec, "clusterQueue"))
    counts = {
        "pending_count": integer(status, "pendingWorkloads"),
        "running_count": integer(status, "admittedWorkloads"),
        "detail": filled(reserving=integer(status, "reservingWorkloads")),
    }
    yield from _rows(shared, counts, flavors, False, bool(told))


@object_kind("Cohort", GROUP, "cohorts", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False)
def cohort(item: Object, observed_us: int | None) -> Rows:
    """A row of all flavors, then one a flavor that the cohort itself has quota of. Raises Malformed."""
    spec = mapping(item, "spec")
    parent = string(spec, "parentName") or string(spec, "parent")
    share = mapping(mapping(item, "status"), "fairSharing").get("weightedShare")
    shared = _shared("cohort", item, observed_us, parent)
    yield from _rows(shared, {"detail": filled(weighted_share=share)}, _quotas(spec), bool(parent), False)


@object_kind("ResourceFlavor", GROUP, "resourceflavors", VERSIONS, namespaced=False)
def resource_flavor(item: Object, observed_us: int | None) -> Rows:
    """Which nodes a flavor means. Raises Malformed."""
    spec = mapping(item, "spec")
    row = _shared("resource_flavor", item, observed_us, None)
    detail = filled(
        node_labels=mapping(spec, "nodeLabels"),
        node_taints=mappings(spec, "nodeTaints"),
        topology=string(spec, "topologyName"),
    )
    yield "queue", row | {"flavor": row["name"], "detail": dumped(detail)}


@object_kind("WorkloadPriorityClass", GROUP, "workloadpriorityclasses", VERSIONS, namespaced=False)
def priority_class(item: Object, observed_us: int | None) -> Rows:
    """The number that a priority class stands for. Raises Malformed."""
    value = item.get("value")
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise Malformed("value is not a whole number")
    row = _shared("workload_priority_class", item, observed_us, None)
    detail = filled(description=short(string(item, "description")))
    yield "queue", row | {"priority": value, "detail": dumped(detail)}


@object_kind("PendingWorkloadsSummary", VISIBILITY, "pendingworkloads", ())
def pending_workload(item: Object, observed_us: int | None) -> Rows:
    """Who waits at which place of the queue: an item of what Kueue's visibility API answers. Raises Malformed.

    Items of that answer name neither apiVersion nor kind of their own (their list does), and a Workload's uid is not among what they say.
    """
    if "localQueueName" not in item and "positionInClusterQueue" not in item:
        return
    _, name, namespace = identity(item)
    job_id, _ = owner_job(item)
    place = filled(
        position_in_cluster_queue=integer(item, "positionInClusterQueue"),
        position_in_local_queue=integer(item, "positionInLocalQueue"),
    )
    yield (
        "workload",
        {
            "scheduler": "kueue",
            "kind": "PendingWorkload",
            "uid": f"{namespace}/{name}",
            "name": name,
            "namespace": namespace,
            "job_id": job_id,
            "queue": string(item, "localQueueName"),
            "priority": integer(item, "priority"),
            "submit_us": created(item),
            "state": "pending",
            "detail": dumped(place),
            "observed_us": newest(observed_us, None if observed_us is not None else created(item)),
        },
    )


def _shared(kind: str, item: Object, observed_us: int | None, parent: str | None) -> Columns:
    """What all rows of one queue say."""
    _, name, namespace = identity(item)
    spec = mapping(item, "spec")
    found = conditions(item)
    weight = mapping(spec, "fairSharing").get("weight")
    return {
        "scheduler": "kueue",
        "kind": kind,
        "name": name,
        "namespace": namespace if kind == "local_queue" else None,
        "parent": parent,
        "observed_us": newest(observed_us, None if observed_us is not None else last_time(item, found.values())),
        "state": _state(spec, found.get("Active")),
        "weight": None if weight is None else float(quantity(weight, "fairSharing.weight")),
    }


def _state(spec: Object, active: Object | None) -> str | None:
    """Its stop policy where it has one, else whether it is active, with the reason where not."""
    policy = string(spec, "stopPolicy")
    if policy in ("Hold", "HoldAndDrain"):
        return policy
    if active is None:
        return None
    return "Active" if holds(active) else f"Inactive: {string(active, 'reason') or 'no reason told'}"


def _quotas(spec: Object) -> dict[str, tuple[Amounts, dict[str, Any]]]:
    """By flavor: quota, borrowing and lending limits of devices, and those of other resources of GPUs."""
    flavors: dict[str, tuple[Amounts, dict[str, Any]]] = {}
    for group in mappings(spec, "resourceGroups"):
        for told in mappings(group, "flavors"):
            name = string(told, "name")
            if name is None or len(flavors) >= MAX_FLAVORS:
                raise Malformed("a flavor has no name, or there are too many")
            resources = mappings(told, "resources")
            amounts, other = flavors.setdefault(name, ({}, {}))
            for key, place in QUOTAS:
                listed = {str(r.get("name")): r.get(key) for r in resources}
                counts, rest = devices_of(listed)
                amounts[place] = plus(amounts.get(place, {}), counts)
                other |= filled(**{place: rest})
    return flavors


def _by_flavor(status: Object, key: str) -> dict[str, dict[str, Object]]:
    """Resources of a status list by flavor and resource name."""
    return {
        string(told, "name") or "": {str(r.get("name")): r for r in mappings(told, "resources")}
        for told in mappings(status, key)
    }


def _rows(
    shared: Columns,
    counts: dict[str, Any],
    flavors: dict[str, tuple[Amounts, dict[str, Any]]],
    lends: bool,
    usage_known: bool,
) -> Iterator[tuple[str, Columns]]:
    each = {name: (_limits(amounts, lends), other) for name, (amounts, other) in flavors.items()}
    places = ("quota", "quota_max", "lend_max", "used", "borrowed")
    total: dict[str, Devices] = {}
    for place in places:
        total[place] = plus(*(limits[place] for limits, _ in each.values()))
    # A limit of all flavors is known where each that has the device has one.
    for name in list(total["quota_max"]):
        if any(name in limits["quota"] and name not in limits["quota_max"] for limits, _ in each.values()):
            del total["quota_max"][name]
    reserved = plus(*(amounts.get("reserved", {}) for amounts, _ in flavors.values()))
    other = {name: told for name, (_, told) in each.items() if told}
    detail = counts.pop("detail", {}) | filled(reserved=reserved, other=other)
    everything = {place: dumped(total[place]) for place in places}
    if usage_known and total["quota"] and not total["used"]:
        everything["used"] = dumped(dict.fromkeys(total["quota"], 0))
    yield "queue", shared | counts | everything | {"detail": dumped(detail)}
    for name, (limits, told) in each.items():
        if told or any(limits[place] for place in places):
            row = {place: dumped(limits[place]) for place in places}
            yield "queue", shared | row | {"flavor": name, "detail": dumped(filled(other=told))}


def _limits(amounts: Amounts, lends: bool) -> dict[str, Devices]:
    """Without a cohort nothing is borrowed or lent; in one, what has no borrowing limit has no maximum."""
    quota, borrow, lend = (amounts.get(place, {}) for place in ("quota", "borrow", "lend"))
    most = {name: count + borrow.get(name, 0) for name, count in quota.items() if not lends or name in borrow}
    return {
        "quota": quota,
        "quota_max": most,
        "lend_max": {name: lend.get(name, count) for name, count in quota.items()} if lends else {},
        "used": amounts.get("used", {}),
        "borrowed": amounts.get("borrowed", {}),
    }
