"""Kueue's queues: ClusterQueue, LocalQueue, Cohort, ResourceFlavor, priority classes, and positions of waiting workloads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows, object_kind
from gpuwatch.collectors.kubernetes.object_status import (
    conditions,
    created_us,
    identity,
    is_true,
    last_changed_us,
    newest,
    owner_job,
)
from gpuwatch.collectors.kubernetes.schedulers.kueue import GROUP, VERSIONS
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, mappings, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import (
    Devices,
    add_devices,
    devices_of,
    json_or_none,
    non_empty,
    quantity,
    shortened,
)

VISIBILITY = "visibility.kueue.x-k8s.io"
"""Answers on request and cannot be listed or watched; read from files only."""
MAX_FLAVORS = 4096
"""A ClusterQueue has at most 16 groups of 64 flavors."""
QUOTAS = (("nominalQuota", "quota"), ("borrowingLimit", "borrow"), ("lendingLimit", "lend"))
LIMITS = ("quota", "quota_max", "lend_max", "used", "borrowed")
"""Columns of a queue row that hold devices."""

Amounts = dict[str, Devices]
"""Devices by type of amount: quota, borrow, lend, used, borrowed, reserved."""


@object_kind("ClusterQueue", GROUP, "clusterqueues", VERSIONS, namespaced=False)
def cluster_queue(item: Object, observed_us: int | None) -> Rows:
    """One row for all flavors, then one per flavor with devices. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    cohort = string(spec, "cohortName") or string(spec, "cohort")
    amounts_by_flavor = {
        "used": _by_flavor(status, "flavorsUsage"),
        "reserved": _by_flavor(status, "flavorsReservation"),
    }
    flavors = _quotas(spec)
    for amount, by_flavor in amounts_by_flavor.items():
        for flavor, resources in by_flavor.items():
            amounts, _ = flavors.setdefault(flavor, ({}, {}))
            amounts[amount] = devices_of({name: row.get("total") for name, row in resources.items()})[0]
            if amount == "used":
                amounts["borrowed"] = devices_of({name: row.get("borrowed") for name, row in resources.items()})[0]
    usage_known = bool(amounts_by_flavor["used"])
    strategy = mapping(spec, "admissionChecksStrategy")
    checks = spec.get("admissionChecks")
    detail = non_empty(
        queueing_strategy=string(spec, "queueingStrategy"),
        flavor_fungibility=mapping(spec, "flavorFungibility"),
        admission_checks=[string(check, "name") for check in mappings(strategy, "admissionChecks")]
        or (checks if isinstance(checks, list) else None),
        admission_scope=mapping(spec, "admissionScope"),
        namespace_selector=mapping(spec, "namespaceSelector"),
        weighted_share=mapping(status, "fairSharing").get("weightedShare"),
        reserving=integer(status, "reservingWorkloads"),
    )
    shared = _shared("cluster_queue", item, observed_us, cohort) | {
        "preemption": json_or_none(mapping(spec, "preemption"))
    }
    counts = {
        "pending_count": integer(status, "pendingWorkloads"),
        "running_count": integer(status, "admittedWorkloads"),
        "detail": detail,
    }
    yield from _rows(shared, counts, flavors, bool(cohort), usage_known)


@object_kind("LocalQueue", GROUP, "localqueues", VERSIONS)
def local_queue(item: Object, observed_us: int | None) -> Rows:
    """One row for all flavors, then one per flavor in use; the quota is that of its ClusterQueue. Raises Malformed."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    flavors: dict[str, tuple[Amounts, dict[str, Any]]] = {}
    usage = _by_flavor(status, "flavorsUsage") or _by_flavor(status, "flavorUsage")
    for flavor, resources in usage.items():
        used, other = devices_of({name: row.get("total") for name, row in resources.items()})
        flavors[flavor] = {"used": used}, non_empty(used=other)
    shared = _shared("local_queue", item, observed_us, string(spec, "clusterQueue"))
    counts = {
        "pending_count": integer(status, "pendingWorkloads"),
        "running_count": integer(status, "admittedWorkloads"),
        "detail": non_empty(reserving=integer(status, "reservingWorkloads")),
    }
    yield from _rows(shared, counts, flavors, False, bool(usage))


@object_kind("Cohort", GROUP, "cohorts", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False)
def cohort(item: Object, observed_us: int | None) -> Rows:
    """One row for all flavors, then one per flavor with a quota of its own. Raises Malformed."""
    spec = mapping(item, "spec")
    parent = string(spec, "parentName") or string(spec, "parent")
    share = mapping(mapping(item, "status"), "fairSharing").get("weightedShare")
    shared = _shared("cohort", item, observed_us, parent)
    yield from _rows(shared, {"detail": non_empty(weighted_share=share)}, _quotas(spec), bool(parent), False)


@object_kind("ResourceFlavor", GROUP, "resourceflavors", VERSIONS, namespaced=False)
def resource_flavor(item: Object, observed_us: int | None) -> Rows:
    """The nodes of a flavor. Raises Malformed."""
    spec = mapping(item, "spec")
    row = _shared("resource_flavor", item, observed_us, None)
    detail = non_empty(
        node_labels=mapping(spec, "nodeLabels"),
        node_taints=mappings(spec, "nodeTaints"),
        topology=string(spec, "topologyName"),
    )
    yield "queue", row | {"flavor": row["name"], "detail": json_or_none(detail)}


@object_kind("WorkloadPriorityClass", GROUP, "workloadpriorityclasses", VERSIONS, namespaced=False)
def priority_class(item: Object, observed_us: int | None) -> Rows:
    """The value of a priority class. Raises Malformed."""
    value = item.get("value")
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise Malformed("value is not a whole number")
    row = _shared("workload_priority_class", item, observed_us, None)
    detail = non_empty(description=shortened(string(item, "description")))
    yield "queue", row | {"priority": value, "detail": json_or_none(detail)}


@object_kind("PendingWorkloadsSummary", VISIBILITY, "pendingworkloads", ())
def pending_workload(item: Object, observed_us: int | None) -> Rows:
    """The position of a waiting workload, from Kueue's visibility API. Raises Malformed.

    Items of that API have no apiVersion and kind (their list has them), and no uid of the Workload.
    """
    if "localQueueName" not in item and "positionInClusterQueue" not in item:
        return
    _, name, namespace = identity(item)
    job_id, _ = owner_job(item)
    place = non_empty(
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
            "submit_us": created_us(item),
            "state": "pending",
            "detail": json_or_none(place),
            "observed_us": newest(observed_us, None if observed_us is not None else created_us(item)),
        },
    )


def _shared(kind: str, item: Object, observed_us: int | None, parent: str | None) -> Columns:
    """Columns that all rows of one queue share."""
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
        "observed_us": newest(observed_us, None if observed_us is not None else last_changed_us(item, found.values())),
        "state": _state(spec, found.get("Active")),
        "weight": None if weight is None else float(quantity(weight, "fairSharing.weight")),
    }


def _state(spec: Object, active: Object | None) -> str | None:
    """The stop policy if there is one, otherwise whether the queue is active, with the reason if it is not."""
    policy = string(spec, "stopPolicy")
    if policy in ("Hold", "HoldAndDrain"):
        return policy
    if active is None:
        return None
    return "Active" if is_true(active) else f"Inactive: {string(active, 'reason') or 'no reason given'}"


def _quotas(spec: Object) -> dict[str, tuple[Amounts, dict[str, Any]]]:
    """By flavor: quota, borrowing and lending limits of devices, and those of other GPU resources."""
    flavors: dict[str, tuple[Amounts, dict[str, Any]]] = {}
    for group in mappings(spec, "resourceGroups"):
        for flavor in mappings(group, "flavors"):
            name = string(flavor, "name")
            if name is None or len(flavors) >= MAX_FLAVORS:
                raise Malformed("a flavor has no name, or there are too many")
            resources = mappings(flavor, "resources")
            amounts, other = flavors.setdefault(name, ({}, {}))
            for key, place in QUOTAS:
                listed = {str(r.get("name")): r.get(key) for r in resources}
                counts, rest = devices_of(listed)
                amounts[place] = add_devices(amounts.get(place, {}), counts)
                other |= non_empty(**{place: rest})
    return flavors


def _by_flavor(status: Object, key: str) -> dict[str, dict[str, Object]]:
    """Resources of a status list by flavor and resource name."""
    return {
        string(flavor, "name") or "": {str(r.get("name")): r for r in mappings(flavor, "resources")}
        for flavor in mappings(status, key)
    }


def _rows(
    shared: Columns,
    counts: dict[str, Any],
    flavors: dict[str, tuple[Amounts, dict[str, Any]]],
    lends: bool,
    usage_known: bool,
) -> Iterator[tuple[str, Columns]]:
    """One row for all flavors, then one per flavor with limits or use."""
    each = {name: (_limits(amounts, lends), other) for name, (amounts, other) in flavors.items()}
    kept = {name: amounts.get("reserved") or {} for name, (amounts, _) in flavors.items()}
    total = _total([limits for limits, _ in each.values()])
    reserved = add_devices(*(amounts.get("reserved", {}) for amounts, _ in flavors.values()))
    other = {name: resources for name, (_, resources) in each.items() if resources}
    detail = counts.pop("detail", {}) | non_empty(reserved=reserved, other=other)
    everything = {place: json_or_none(total[place]) for place in LIMITS}
    if usage_known and total["quota"] and not total["used"]:
        everything["used"] = json_or_none(dict.fromkeys(total["quota"], 0))
    yield "queue", shared | counts | everything | {"detail": json_or_none(detail)}
    for name, (limits, resources) in each.items():
        if resources or any(limits[place] for place in LIMITS):
            row = {place: json_or_none(limits[place]) for place in LIMITS}
            yield (
                "queue",
                shared
                | row
                | {"flavor": name, "detail": json_or_none(non_empty(reserved=kept[name], other=resources))},
            )


def _total(flavors: list[dict[str, Devices]]) -> dict[str, Devices]:
    """Sums of the limits of flavors. The total maximum is known only if every flavor with that device has one."""
    total = {place: add_devices(*(limits[place] for limits in flavors)) for place in LIMITS}
    unlimited = {name for limits in flavors for name in limits["quota"] if name not in limits["quota_max"]}
    return total | {"quota_max": {name: n for name, n in total["quota_max"].items() if name not in unlimited}}


def _limits(amounts: Amounts, lends: bool) -> dict[str, Devices]:
    """Limits of one flavor. Without a cohort nothing is borrowed or lent; in one, no borrowing limit means no maximum."""
    quota, borrow, lend = (amounts.get(place, {}) for place in ("quota", "borrow", "lend"))
    maximum = {name: count + borrow.get(name, 0) for name, count in quota.items() if not lends or name in borrow}
    return {
        "quota": quota,
        "quota_max": maximum,
        "lend_max": {name: lend.get(name, count) for name, count in quota.items()} if lends else {},
        "used": amounts.get("used", {}),
        "borrowed": amounts.get("borrowed", {}),
    }
