"""Objects of batch schedulers with anything in any place: refused with a reason, or rows that the store can take."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.kubernetes.schedulers import coscheduling, kueue, kueue_queues, volcano
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.collectors.shared.resource_lists import devices_of, quantity
from gpuwatch.collectors.yunikorn import files as yunikorn_files
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.model import TABLES, Rejects, Source

AT = 1_793_577_600_000_000
Json = dict[str, Any]

META = {
    "name": "n", "namespace": "lab", "uid": "u", "creationTimestamp": "2026-11-02T00:00:00Z",
    "labels": {"user": "ann"}, "annotations": {"volcano.sh/hierarchy": "root/a"},
    "ownerReferences": [{"kind": "Job", "name": "j", "uid": "o", "controller": True}],
}  # fmt: skip
CONDITION = {
    "type": "QuotaReserved", "status": "True", "reason": "R", "message": "m",
    "lastTransitionTime": "2026-11-02T00:00:00Z",
}  # fmt: skip
TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": 1}}}]}}
SLICE = {
    "domainCount": 1, "valuesPerLevel": [{"individual": {"prefix": "n", "suffix": "", "roots": ["1"]}}],
    "podCounts": {"universal": 1},
}  # fmt: skip
GIVEN = {
    "name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": "16"},
    "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": [SLICE]},
}  # fmt: skip
QUOTA = {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": 1, "lendingLimit": 1}
USE = {"name": "nvidia.com/gpu", "total": "8", "borrowed": 0}
ALLOCATION = {
    "allocationKey": "p", "nodeId": "n1", "allocationTime": AT * 1000, "resource": {"nvidia.com/gpu": 8},
    "allocationTags": {"kubernetes.io/meta/namespace": "lab", "kubernetes.io/label/job-name": "j"}, "priority": "0",
    "allocationLog": [{"message": "m", "lastOccurrence": 1, "count": 1}], "pendingCount": 1,
}  # fmt: skip

WHOLE: dict[str, tuple[Callable[[Json], Iterable[tuple[str, Json]]], Json]] = {
    "Workload": (
        lambda item: kueue.workload(item, AT),
        {
            "metadata": META,
            "spec": {
                "queueName": "lq", "priority": 1, "priorityClassRef": {"name": "p"},
                "podSets": [{"name": "main", "count": 2, "minCount": 1, "template": TEMPLATE}],
            },
            "status": {
                "conditions": [CONDITION],
                "admission": {"clusterQueue": "cq", "podSetAssignments": [GIVEN]},
                "requeueState": {"count": 1, "requeueAt": "2026-11-02T00:00:00Z"},
                "schedulingStats": {"evictions": [{"reason": "Preempted", "count": 1}]},
                "admissionChecks": [{"name": "c", "state": "Ready"}],
                "resourceRequests": [{"name": "main", "resources": {"nvidia.com/gpu": 1}}],
                "reclaimablePods": [{"name": "main", "count": 1}],
            },
        },
    ),
    "ClusterQueue": (
        lambda item: kueue_queues.cluster_queue(item, AT),
        {
            "metadata": META,
            "spec": {
                "cohortName": "c", "fairSharing": {"weight": "1"}, "preemption": {"reclaimWithinCohort": "Any"},
                "resourceGroups": [{"flavors": [{"name": "f", "resources": [QUOTA]}]}],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
            },
            "status": {
                "flavorsUsage": [{"name": "f", "resources": [USE]}], "pendingWorkloads": 1,
                "flavorsReservation": [{"name": "f", "resources": [USE]}], "conditions": [CONDITION],
                "fairSharing": {"weightedShare": 1},
            },
        },
    ),
    "LocalQueue": (
        lambda item: kueue_queues.local_queue(item, AT),
        {"metadata": META, "spec": {"clusterQueue": "cq"}, "status": {"flavorUsage": [{"name": "f", "resources": [USE]}]}},
    ),
    "Cohort": (lambda item: kueue_queues.cohort(item, AT), {"metadata": META, "spec": {"parent": "root"}}),
    "ResourceFlavor": (
        lambda item: kueue_queues.resource_flavor(item, AT),
        {"metadata": META, "spec": {"nodeLabels": {"a": "b"}, "nodeTaints": [{"key": "k"}], "topologyName": "t"}},
    ),
    "WorkloadPriorityClass": (
        lambda item: kueue_queues.priority_class(item, AT), {"metadata": META, "value": 1, "description": "d"},
    ),
    "PendingWorkload": (
        lambda item: kueue_queues.pending_workload(item, AT),
        {"metadata": META, "priority": 0, "localQueueName": "lq", "positionInClusterQueue": 0},
    ),
    "PodGroup": (
        lambda item: volcano.pod_group(item, AT),
        {
            "metadata": META,
            "spec": {"minMember": 1, "minResources": {"nvidia.com/gpu": 1}, "queue": "q", "minTaskMember": {"a": 1}},
            "status": {"phase": "Running", "conditions": [CONDITION | {"type": "Scheduled"}], "running": 1},
        },
    ),
    "volcano Job": (
        lambda item: volcano.job(item, AT),
        {
            "metadata": META,
            "spec": {"queue": "q", "minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": TEMPLATE}]},
            "status": {
                "state": {"phase": "Pending", "lastTransitionTime": "2026-11-02T00:00:00Z"}, "retryCount": 1,
                "conditions": [{"status": "Running", "lastTransitionTime": "2026-11-02T00:00:00Z"}],
            },
        },
    ),
    "volcano Queue": (
        lambda item: volcano.queue(item, AT),
        {
            "metadata": META,
            "spec": {"weight": 1, "priority": 1, "capability": {"nvidia.com/gpu": 8}, "deserved": {"nvidia.com/gpu": 4},
                     "guarantee": {"resource": {"nvidia.com/gpu": 1}}, "reclaimable": True},
            "status": {"state": "Open", "allocated": {"nvidia.com/gpu": "8"}, "pending": 1, "reservation": {"nodes": []}},
        },
    ),
    "coscheduling": (
        lambda item: coscheduling.pod_group(item, AT),
        {"metadata": META, "spec": {"minMember": 1}, "status": {"phase": "Running", "occupiedBy": "lab/j"}},
    ),
    "core PodGroup": (
        lambda item: coscheduling.core_pod_group(item, AT),
        {"metadata": META, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}, "status": {"conditions": [CONDITION]}},
    ),
    "core Workload": (
        lambda item: coscheduling.core_workload(item, AT),
        {"metadata": META, "spec": {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 1}}}],
                                    "controllerRef": {"kind": "Job", "name": "j"}}},
    ),
    "application": (
        lambda item: taken(item),
        {
            "applicationID": "a", "applicationState": "Running", "queueName": "root", "user": "u", "partition": "default",
            "submissionTime": 1, "usedResource": {"nvidia.com/gpu": 8}, "allocations": [ALLOCATION],
            "requests": [ALLOCATION], "stateLog": [{"time": 1, "applicationState": "Running"}],
            "placeholderData": [{"taskGroupName": "t", "count": 1, "minResource": {}, "replaced": 0, "timedout": 0}],
        },
    ),
    "queue": (
        lambda item: taken(item),
        {
            "queuename": "root", "status": "Active", "maxResource": {"nvidia.com/gpu": 8}, "allocatedResource": {},
            "guaranteedResource": {"nvidia.com/gpu": 8}, "isLeaf": "false", "runningApps": 1, "priorityOffset": 1,
            "children": [{"queuename": "root.a", "parent": "root"}], "properties": {"a": "b"},
        },
    ),
    "partition": (
        lambda item: taken(item),
        {"name": "default", "totalNodes": 1, "capacity": {"capacity": {"nvidia.com/gpu": 8}, "usedCapacity": {}},
         "applications": {"Running": 1}, "nodeSortingPolicy": {"type": "fair"}, "lastStateTransitionTime": 1},
    ),
    "user": (
        lambda item: taken(item),
        {"userName": "u", "queues": {"queuePath": "root", "resourceUsage": {"nvidia.com/gpu": 1},
                                     "children": [{"queuePath": "root.a"}], "runningApplications": ["a"]}},
    ),
    "event": (
        lambda item: taken(item),
        {"type": 2, "objectID": "a", "timestampNano": AT * 1000, "eventChangeType": 1, "eventChangeDetail": 204},
    ),
}  # fmt: skip
"""What reads a kind of object, and an object of it in which every part that is read is there."""


def taken(item: Json) -> list[tuple[str, Json]]:
    """Rows that yunikorn.take adds."""
    tables: dict[str, list[Json]] = {}
    yunikorn_files.add_rows(item, tables, AT)
    return [(table, row) for table, rows in tables.items() for row in rows]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON value, but its own."""
    found = [path] if path else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        found += places(child, (*path, key))
    return found


ODD: tuple[Any, ...] = (
    None, True, -1, 1 << 70, 0.5, float("nan"), "", "a", "\ud800", "1" * 40, "1e99", "-3", "9999999999999999999",
    "0001-01-01T00:00:00Z", [], {}, [[1]], [{"name": 1}], {"a": [1]}, {"nvidia.com/gpu": {"a": 1}},
    {"nvidia.com/gpu": "8k"}, {"\ud800": "\ud800"},
)  # fmt: skip
"""Values that do not belong where they are put."""


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_whole_object_gives_rows_of_the_schema(name: str) -> None:
    read, item = WHOLE[name]

    assert stored(read(copy.deepcopy(item))) > 0


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_anything_anywhere_is_refused_or_stored(name: str) -> None:
    """Every odd value in every place."""
    read, whole = WHOLE[name]
    refused, taken_rows = 0, list[tuple[str, Json]]()
    for path in places(whole):
        for odd in ODD:
            item = copy.deepcopy(whole)
            parent: Any = item
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = odd
            try:
                taken_rows += list(read(item))
            except Malformed:
                refused += 1

    assert refused
    assert stored(taken_rows)


def stored(rows: Iterable[tuple[str, Json]]) -> int:
    """How many rows Arrow takes in the schema of their table."""
    tables: dict[str, list[Json]] = {}
    for table, row in rows:
        assert set(row) <= {*TABLES[table].names, "application"}
        tables.setdefault(table, []).append(row)
    count = 0
    for table, listed in tables.items():
        for batch in table_batches(table, listed, "c1"):
            batch.rows.validate(full=True)
            count += batch.rows.num_rows
    return count


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8", 8), (8, 8), ("8k", 8000), ("1Ki", 1024), ("500m", 0.5), ("1e3", 1000), ("2E", 2 * 10**18), (".5", 0.5)],
)
def test_quantities(text: object, expected: float) -> None:
    assert expected == quantity(text, "q")


@pytest.mark.parametrize("text", [None, True, "", "eight", "8 GPUs", "1e", [], {}, "١", "9" * 30])
def test_what_is_no_quantity(text: object) -> None:
    with pytest.raises(Malformed, match="q is not a quantity"):
        quantity(text, "q")


@pytest.mark.parametrize(
    ("resources", "devices", "other"),
    [
        pytest.param({"cpu": "1", "memory": "1Gi"}, {}, {}, id="nothing of GPUs"),
        pytest.param({"nvidia.com/gpu": "0"}, {"": 0}, {}, id="none is a number"),
        pytest.param({"nvidia.com/gpu": None}, {}, {}, id="null is none"),
        pytest.param({"nvidia.com/mig-2g.20gb.me": 1}, {"2g.20gb+me": 1}, {}, id="a profile with media engines"),
        pytest.param({"nvidia.com/mig-1g.10gb.shared": 4}, {}, {"nvidia.com/mig-1g.10gb.shared": 4}, id="shared slices"),
        pytest.param({"volcano.sh/vgpu-number": "2"}, {}, {"volcano.sh/vgpu-number": 2}, id="virtual GPUs"),
        pytest.param(
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem": "1024"}, {}, {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024},
            id="beside memory of GPUs, GPUs are parts",
        ),
    ],
)  # fmt: skip
def test_devices_of_a_list(resources: Json, devices: dict[str, int], other: Json) -> None:
    assert (devices, other) == devices_of(resources)


def test_a_file_of_all_kinds_keeps_what_can_be_read() -> None:
    """As `kubectl get -A -o json` prints it: one broken object among others, and what waits is told once."""
    items = [
        {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", **WHOLE["Workload"][1]},
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": META | {"name": "w", "uid": "w"},
         "spec": {"podSets": [{"name": "main", "count": 2, "template": TEMPLATE}]}},
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": META | {"name": "odd"}, "spec": 7},
        {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", **WHOLE["ClusterQueue"][1]},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **WHOLE["PodGroup"][1]},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **WHOLE["volcano Job"][1]},
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **WHOLE["coscheduling"][1]},
    ]  # fmt: skip
    rejects = Rejects()
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    tables = parse_objects(text, Source("all.json", "c1", observed_us=AT), rejects)

    assert {"Workload: spec is not an object": 1} == rejects.counts
    assert [("lab/j", 16), ("lab/j", 2), ("lab/n", 8), ("lab/n", 1)] == [
        (row["job_id"], row["device_count"]) for row in tables["pending"]
    ]
    assert ["kueue", "kueue", "volcano", "volcano", "coscheduling"] == [row["scheduler"] for row in tables["workload"]]
    assert 2 == len(tables["queue"])
    assert pa.Table.from_pylist(tables["workload"]).num_rows


def test_a_list_of_who_waits_where() -> None:
    """What the visibility API answers: items without kind or version of their own."""
    summary = {
        "apiVersion": "visibility.kueue.x-k8s.io/v1beta2", "kind": "PendingWorkloadsSummary",
        "items": [WHOLE["PendingWorkload"][1]],
    }  # fmt: skip
    tables = parse_objects(json.dumps(summary), Source("p.json", "c1", observed_us=AT), Rejects())

    assert [("PendingWorkload", "lab/n", "lq")] == [(r["kind"], r["uid"], r["queue"]) for r in tables["workload"]]


def test_a_queue_is_as_old_as_the_dump_that_has_it() -> None:
    """Its condition changed hours before; an event of the same dump shows when that was made, also without nodes."""
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "q", "namespace": "lab", "uid": "q", "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": {"clusterQueue": "all"},
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "lab", "uid": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "lab", "name": "p"},
        "lastTimestamp": "2026-11-02T12:00:00Z",
    }
    dump = json.dumps({"apiVersion": "v1", "kind": "List", "items": [queue, event]})

    [row] = parse_objects(dump, Source("dump.json", "c1"), Rejects())["queue"]

    assert parse_rfc3339("2026-11-02T12:00:00Z") == row["observed_us"]
