"""Kueue's objects in both versions: what is asked, how it waits, is admitted, evicted and placed."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.collectors.kubernetes.schedulers.kueue import workload
from gpuwatch.collectors.kubernetes.schedulers.kueue_queues import (
    cluster_queue,
    cohort,
    local_queue,
    pending_workload,
    priority_class,
    resource_flavor,
)
from gpuwatch.collectors.kubernetes.schedulers.kueue_topology import MAX_DOMAINS, placements
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import parse_rfc3339

SHARED = Path(os.environ.get("GPUWATCH_SHARED") or Path(__file__).parents[4] / "shared") / "wire/schedulers/kueue"
AT = 1_793_577_600_000_000
Json = dict[str, Any]


def condition(kind: str, status: str, at: str, reason: str = "R", message: str = "") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": at, "reason": reason, "message": message}


def gang(
    *conditions: Json, count: int = 4, gpus: Json | None = None, owner: str | None = "PyTorchJob", **parts: Any
) -> Json:
    """A Workload of one pod set, eight GPUs a pod unless told."""
    resources = {"nvidia.com/gpu": 8} if gpus is None else gpus
    metadata: Json = {
        "name": "wl", "namespace": "lab", "uid": "u1", "creationTimestamp": "2026-11-02T00:00:00Z",
        "ownerReferences": [{"kind": owner, "name": "train", "uid": "u0", "controller": True}] if owner else [],
    }  # fmt: skip
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": resources}}]}}
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": count, "template": template}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": metadata,
        "spec": spec | parts.pop("spec", {}),
        "status": {"conditions": list(conditions)} | parts.pop("status", {}),
    }


def read(item: Json) -> tuple[Columns, list[Columns]]:
    """(workload row, pending rows)."""
    rows = list(workload(item, AT))
    assert ["workload"] == [table for table, _ in rows if table == "workload"]
    return next(row for table, row in rows if table == "workload"), [row for table, row in rows if table == "pending"]


QUOTA = condition("QuotaReserved", "True", "2026-11-02T00:01:00Z", "QuotaReserved")
WAIT = condition("QuotaReserved", "False", "2026-11-02T00:00:01Z", "WaitingForQuota", "8 more needed")
ADMITTED = condition("Admitted", "True", "2026-11-02T00:02:00Z", "Admitted")
READY = condition("PodsReady", "True", "2026-11-02T00:03:00Z", "PodsReady")
EVICTED = condition("Evicted", "True", "2026-11-02T00:04:00Z", "Preempted", "for a higher one")
FINISHED = condition("Finished", "True", "2026-11-02T01:00:00Z", "Succeeded")


@pytest.mark.parametrize(
    ("item", "waits"),
    [
        pytest.param(gang(QUOTA), 0, id="a reserved quota is no wait for quota"),
        pytest.param(gang(QUOTA, ADMITTED, READY), 0, id="what runs does not wait"),
        pytest.param(gang(QUOTA, ADMITTED, FINISHED), 0, id="what is over does not wait"),
        pytest.param(gang(WAIT, spec={"active": False}), 0, id="what was switched off does not wait"),
        pytest.param(gang(WAIT, owner="Pod"), 0, id="plain pods exist and tell their own wait"),
        pytest.param(gang(WAIT, owner=None), 0, id="nobody knows whether pods exist of what has no owner"),
        pytest.param(gang(WAIT, gpus={}), 0, id="a gang without GPUs waits for none"),
        pytest.param(gang(WAIT, gpus={"nvidia.com/gpu.shared": 2}), 0, id="replicas of a shared GPU are no GPUs"),
        pytest.param(gang(WAIT), 1, id="a suspended job waits as a whole"),
        pytest.param(gang(), 1, id="a workload that Kueue has not looked at waits"),
        pytest.param(gang(EVICTED), 1, id="an evicted one waits again"),
        pytest.param(gang(WAIT, gpus={"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2}), 2, id="one row a kind"),
    ],
)
def test_what_waits_is_reported_once(item: Json, waits: int) -> None:
    assert waits == len(read(item)[1])


def test_a_waiting_gang_is_one_request_of_its_job() -> None:
    _, (row,) = read(gang(WAIT))

    assert {
        "scheduler": "kubernetes",
        "job_id": "lab/train",
        "submit_us": parse_rfc3339("2026-11-02T00:00:00Z"),
        "evidence_us": AT,
        "device_count": 32,
        "profile": None,
        "node_count": 4,
        "user_name": None,
        "namespace": "lab",
        "queue": "lq",
        "reason": "WaitingForQuota",
    } == row


@pytest.mark.parametrize(
    ("item", "state", "reason"),
    [
        pytest.param(gang(), "pending", None, id="nothing said yet"),
        pytest.param(gang(WAIT), "pending", "WaitingForQuota", id="no quota"),
        pytest.param(
            gang(condition("QuotaReserved", "False", "2026-11-02T00:00:01Z", "Inadmissible", "no such queue")),
            "inadmissible",
            "Inadmissible",
            id="a queue that is not there",
        ),
        pytest.param(gang(QUOTA), "reserved", "QuotaReserved", id="waits for admission checks"),
        pytest.param(gang(QUOTA, ADMITTED), "admitted", "Admitted", id="admitted"),
        pytest.param(gang(QUOTA, ADMITTED, READY), "running", "PodsReady", id="all pods run"),
        pytest.param(gang(WAIT, EVICTED), "evicted", "Preempted", id="preempted, and waits again"),
        pytest.param(
            gang(QUOTA, ADMITTED, condition("Evicted", "False", "2026-11-02T00:09:00Z", "QuotaReserved")),
            "admitted",
            "Admitted",
            id="admitted again after an eviction",
        ),
        pytest.param(gang(QUOTA, ADMITTED, READY, FINISHED), "finished", "Succeeded", id="over"),
    ],
)
def test_state_and_reason(item: Json, state: str, reason: str | None) -> None:
    row, _ = read(item)

    assert (state, reason) == (row["state"], row["reason"])


def test_instants_are_those_of_the_conditions() -> None:
    row, _ = read(gang(QUOTA, ADMITTED, READY, FINISHED))
    names = ("submit_us", "reserved_us", "admitted_us", "start_us", "evicted_us", "end_us")
    hours = ("00:00", "00:01", "00:02", "00:03", None, "01:00")

    assert [None if h is None else parse_rfc3339(f"2026-11-02T{h}:00Z") for h in hours] == [row[n] for n in names]


def test_an_admitted_workload_is_what_it_was_given() -> None:
    """Partial admission: eight pods were asked for, six admitted."""
    given = {
        "name": "main", "count": 6, "flavors": {"cpu": "any", "nvidia.com/gpu": "h100"},
        "resourceUsage": {"cpu": "6", "nvidia.com/gpu": "48"},
    }  # fmt: skip
    status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [given]}}
    item = gang(QUOTA, ADMITTED, count=8, status=status)
    item["spec"]["podSets"][0]["minCount"] = 4
    row, _ = read(item)

    assert (6, 4, 48, "h100", "cq") == tuple(
        row[n] for n in ("pod_count", "min_count", "device_count", "gpu_type", "cluster_queue")
    )
    assert [{"name": "main", "count": 6, "asked": 8, "devices": {"": 48}, "flavors": ["h100"]}] == json.loads(
        row["detail"]
    )["pod_sets"]


def launcher(*conditions: Json, **status: Any) -> Json:
    """An MPIJob: a launcher without GPUs and eight workers of four, at least four of them; `status` adds to it."""
    item = gang(*conditions, status=status)
    worker = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "4"}}}]}}
    item["spec"]["podSets"] = [
        {"name": "launcher", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
        {"name": "worker", "count": 8, "minCount": 4, "template": worker},
    ]
    return item


DONE = [{"name": "worker", "count": 3}]
GIVEN = {"clusterQueue": "cq", "podSetAssignments": [
    {"name": "launcher", "count": 1, "resourceUsage": {"cpu": "1"}},
    {"name": "worker", "count": 6, "flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": "24"}},
]}  # fmt: skip
REQUESTS = [{"name": "launcher", "resources": {"cpu": "1"}}, {"name": "worker", "resources": {"nvidia.com/gpu": "20"}}]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(launcher(WAIT), (9, 5, 32), id="it waits for all of its pods"),
        pytest.param(launcher(QUOTA, ADMITTED, admission=GIVEN), (7, 5, 24), id="admitted in part"),
        pytest.param(
            launcher(QUOTA, ADMITTED, admission=GIVEN, reclaimablePods=DONE), (4, 2, 12), id="three of six workers have ended"
        ),
        pytest.param(launcher(WAIT, EVICTED, reclaimablePods=DONE), (6, 2, 20), id="evicted: it asks for the others only"),
        pytest.param(
            launcher(WAIT, EVICTED, reclaimablePods=DONE, resourceRequests=REQUESTS), (6, 2, 20), id="evicted, as Kueue counts"
        ),
        pytest.param(
            launcher(QUOTA, ADMITTED, FINISHED, admission=GIVEN, reclaimablePods=[{"name": "worker", "count": 6}]),
            (7, 5, 24),
            id="over: what it was given",
        ),
    ],
)  # fmt: skip
def test_pods_that_have_ended_ask_for_nothing(item: Json, expected: tuple[int, int, int]) -> None:
    row, _ = read(item)

    assert expected == tuple(row[name] for name in ("pod_count", "min_count", "device_count"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"priorityClassName": "high", "priority": 9}, ("high", 9), id="v1beta1 names the class"),
        pytest.param({"priorityClassRef": {"name": "high"}, "priority": -1}, ("high", -1), id="v1beta2 refers to it"),
        pytest.param({}, (None, None), id="none"),
    ],
)
def test_priority(spec: Json, expected: tuple[str | None, int | None]) -> None:
    row, _ = read(gang(spec=spec))

    assert expected == (row["priority_class"], row["priority"])


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(gang(), (None, None), id="a workload nobody looked at"),
        pytest.param(gang(WAIT), (0, 0), id="one that was never evicted"),
        pytest.param(gang(EVICTED), (None, None), id="evicted, and nobody counts"),
        pytest.param(
            gang(
                WAIT,
                status={
                    "schedulingStats": {
                        "evictions": [{"reason": "Preempted", "count": 3}, {"reason": "PodsReadyTimeout", "count": 2}]
                    }
                },
            ),
            (5, 3),
            id="counted",
        ),
    ],
)
def test_evictions_and_preemptions(item: Json, expected: tuple[int | None, int | None]) -> None:
    row, _ = read(item)

    assert expected == (row["evictions"], row["preemptions"])


@pytest.mark.parametrize(
    ("references", "expected"),
    [
        pytest.param([], None, id="no owner"),
        pytest.param([{"kind": "JobSet", "name": "js", "uid": "1", "controller": True}], "lab/js", id="a job set"),
        pytest.param([{"kind": "Job", "name": "j", "uid": "1"}], "lab/j", id="an owner that is no controller"),
        pytest.param([{"kind": "Pod", "name": "p", "uid": "1"}], "lab/p", id="a single pod"),
        pytest.param(
            [{"kind": "Pod", "name": "web-7c9bf5d8b6-x2x2z", "uid": "1"}], "lab/web", id="a pod of a Deployment"
        ),
        pytest.param([{"kind": "Pod", "name": n, "uid": n} for n in "ab"], None, id="a group of pods has no one job"),
    ],
)
def test_the_job_is_the_one_that_its_pods_claim(references: list[Json], expected: str | None) -> None:
    item = gang()
    item["metadata"]["ownerReferences"] = references

    assert expected == read(item)[0]["job_id"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({}, (0, None), id="none asked for"),
        pytest.param({"nvidia.com/mig-1g.10gb": 2}, (8, "1g.10gb"), id="slices"),
        pytest.param({"nvidia.com/gpu.shared": 7}, (None, None), id="replicas: how many GPUs, nobody says"),
        pytest.param({"nvidia.com/gpu": 2, "nvidia.com/gpucores": 20}, (None, None), id="parts of GPUs are no GPUs"),
        pytest.param(
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}, (8, None), id="both kinds have no one profile"
        ),
    ],
)
def test_devices(resources: Json, expected: tuple[int | None, str | None]) -> None:
    row, _ = read(gang(gpus=resources))

    assert expected == (row["device_count"], row["profile"])


def test_a_dra_workload_does_not_say_how_many() -> None:
    item = gang(gpus={})
    item["spec"]["podSets"][0]["template"]["spec"]["resourceClaims"] = [{"name": "gpu"}]

    assert read(item)[0]["device_count"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"metadata": {}}, "metadata has no name", id="no name"),
        pytest.param({"spec": {}}, "has no spec", id="nothing is asked for"),
        pytest.param({"spec": []}, "spec is not an object", id="a list for an object"),
        pytest.param({"status": {"conditions": [1]}}, "conditions is not a list of objects", id="a number"),
        pytest.param(
            {"status": {"conditions": [condition("Admitted", "True", "tomorrow")]}}, "RFC 3339", id="no time"
        ),
        pytest.param({"spec": {"podSets": [{"count": "many"}]}}, "count is not a whole number", id="a word for a count"),
        pytest.param({"spec": {"priority": "high"}}, "priority is not a whole number", id="a word for a priority"),
        pytest.param(
            {"status": {"admission": {"podSetAssignments": [{"name": "m", "resourceUsage": {"nvidia.com/gpu": "1.5"}}]}},
             "spec": {"podSets": [{"name": "m"}]}},
            "nvidia.com/gpu is not a count of devices",
            id="half a GPU",
        ),
    ],
)  # fmt: skip
def test_an_odd_object_is_refused_with_its_reason(change: Json, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        list(workload(gang() | change, AT))


# Queues ------------------------------------------------------------------------------------------------------------


def quota(name: str, *resources: Json) -> Json:
    return {"name": name, "resources": list(resources)}


def queue_of(*flavors: Json, **parts: Any) -> Json:
    spec = {"resourceGroups": [{"coveredResources": [], "flavors": list(flavors)}]} | parts.pop("spec", {})
    return {"metadata": {"name": "cq"}, "spec": spec, "status": parts.pop("status", {})}


def rows_of(item: Json) -> list[Columns]:
    return [row for _, row in cluster_queue(item, AT)]


def amounts(row: Columns) -> dict[str, Any]:
    names = ("quota", "quota_max", "lend_max", "used", "borrowed")
    return {name: json.loads(row[name]) for name in names if row[name] is not None}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(queue_of(), {}, id="no quota of GPUs: nothing is known, not zero"),
        pytest.param(
            queue_of(quota("f", {"name": "nvidia.com/gpu", "nominalQuota": 16})),
            {"quota": {"": 16}, "quota_max": {"": 16}},
            id="without a cohort the quota is the most, and nothing is lent",
        ),
        pytest.param(
            queue_of(quota("f", {"name": "nvidia.com/gpu", "nominalQuota": "16"}), spec={"cohort": "all"}),
            {"quota": {"": 16}, "lend_max": {"": 16}},
            id="in a cohort there is no most, and all is lent",
        ),
        pytest.param(
            queue_of(
                quota("f", {"name": "nvidia.com/gpu", "nominalQuota": 16, "borrowingLimit": 4, "lendingLimit": 2}),
                spec={"cohortName": "all"},
            ),
            {"quota": {"": 16}, "quota_max": {"": 20}, "lend_max": {"": 2}},
            id="limits of borrowing and lending",
        ),
        pytest.param(
            queue_of(
                quota("a", {"name": "nvidia.com/gpu", "nominalQuota": 8, "borrowingLimit": 0}),
                quota("b", {"name": "nvidia.com/gpu", "nominalQuota": 4}),
                spec={"cohortName": "all"},
            ),
            {"quota": {"": 12}, "lend_max": {"": 12}},
            id="one flavor without a limit: no limit of all",
        ),
        pytest.param(
            queue_of(
                quota(
                    "f", {"name": "nvidia.com/gpu", "nominalQuota": 8}, {"name": "nvidia.com/mig-1g.10gb", "nominalQuota": 7}
                )
            ),
            {"quota": {"": 8, "1g.10gb": 7}, "quota_max": {"": 8, "1g.10gb": 7}},
            id="GPUs and slices",
        ),
        pytest.param(
            queue_of(quota("f", {"name": "nvidia.com/gpu.shared", "nominalQuota": 10})), {}, id="replicas are no GPUs"
        ),
    ],
)  # fmt: skip
def test_quota_of_a_cluster_queue(item: Json, expected: Json) -> None:
    assert expected == amounts(rows_of(item)[0])


def test_use_and_borrowing_by_flavor() -> None:
    record = {"name": "nvidia.com/gpu", "total": "10", "borrowed": "2"}
    item = queue_of(
        quota("a", {"name": "nvidia.com/gpu", "nominalQuota": 8}),
        quota("b", {"name": "nvidia.com/gpu", "nominalQuota": 4}),
        spec={"cohortName": "all", "fairSharing": {"weight": "500m"}},
        status={
            "flavorsUsage": [quota("a", record), quota("b", record | {"total": 1, "borrowed": 0})],
            "pendingWorkloads": 3, "admittedWorkloads": 2,
        },
    )  # fmt: skip
    whole, a, b = rows_of(item)

    assert ("all", 0.5, 3, 2) == tuple(whole[n] for n in ("parent", "weight", "pending_count", "running_count"))
    assert ({"": 11}, {"": 2}) == (json.loads(whole["used"]), json.loads(whole["borrowed"]))
    assert [("a", '{"":10}'), ("b", '{"":1}')] == [(row["flavor"], row["used"]) for row in (a, b)]


def test_other_names_of_gpus_are_kept_as_they_were_written() -> None:
    """A renamed resource is not known to be whole GPUs; it is told, not counted."""
    row = rows_of(queue_of(quota("a100", {"name": "nvidia.com/gpu-a100", "nominalQuota": 8})))[0]

    assert {"other": {"a100": {"quota": {"nvidia.com/gpu-a100": 8}}}} == json.loads(row["detail"])


@pytest.mark.parametrize(
    ("spec", "active", "expected"),
    [
        pytest.param({}, None, None, id="nobody says"),
        pytest.param({"stopPolicy": "None"}, "True", "Active", id="active"),
        pytest.param({"stopPolicy": "HoldAndDrain"}, "True", "HoldAndDrain", id="stopped"),
        pytest.param({}, "False", "Inactive: FlavorNotFound", id="inactive, and why"),
    ],
)
def test_state_of_a_queue(spec: Json, active: str | None, expected: str | None) -> None:
    result = [condition("Active", active, "2026-11-02T00:00:00Z", "FlavorNotFound")] if active else []

    assert expected == rows_of(queue_of(spec=spec, status={"conditions": result}))[0]["state"]


@pytest.mark.parametrize("key", ["flavorsUsage", "flavorUsage"])
def test_a_local_queue_in_both_spellings(key: str) -> None:
    used = [quota("h100", {"name": "nvidia.com/gpu", "total": "3"})]
    item = {
        "metadata": {"name": "lq", "namespace": "lab"},
        "spec": {"clusterQueue": "cq"},
        "status": {key: used, "pendingWorkloads": 1, "admittedWorkloads": 2},
    }
    rows = [row for _, row in local_queue(item, AT)]

    assert [("lq", "lab", "cq", None, '{"":3}'), ("lq", "lab", "cq", "h100", '{"":3}')] == [
        tuple(row.get(n) for n in ("name", "namespace", "parent", "flavor", "used")) for row in rows
    ]
    assert 1 == rows[0]["pending_count"]


@pytest.mark.parametrize("key", ["parent", "parentName"])
def test_a_cohort_and_the_one_above_it(key: str) -> None:
    rows = list(cohort({"metadata": {"name": "c"}, "spec": {key: "root"}}, AT))

    assert [("cohort", "c", "root")] == [(row["kind"], row["name"], row["parent"]) for _, row in rows]


def test_a_flavor_says_which_nodes() -> None:
    item = {"metadata": {"name": "h100"}, "spec": {"nodeLabels": {"gpu": "h100"}, "topologyName": "t"}}
    ((_, row),) = resource_flavor(item, AT)

    assert ("h100", {"node_labels": {"gpu": "h100"}, "topology": "t"}) == (row["flavor"], json.loads(row["detail"]))


def test_a_flavor_whose_labels_are_one_text_is_refused() -> None:
    """As in a manifest whose quotation marks stand too far out."""
    with pytest.raises(Malformed, match="nodeLabels is not an object"):
        list(resource_flavor({"metadata": {"name": "f"}, "spec": {"nodeLabels": "group: tas"}}, AT))


def test_a_priority_class() -> None:
    ((_, row),) = priority_class({"metadata": {"name": "high"}, "value": 1000}, AT)

    assert ("workload_priority_class", "high", 1000) == (row["kind"], row["name"], row["priority"])


# Topology ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        pytest.param({}, [], id="none"),
        pytest.param({"levels": ["rack"]}, [], id="levels and no domain"),
        pytest.param(
            {"levels": ["block", "rack"], "domains": [{"values": ["b1", "r1"], "count": 4}]},
            [{"domain": "r1", "count": 4, "levels": [["block", "b1"], ["rack", "r1"]]}],
            id="v1beta1",
        ),
        pytest.param(
            {
                "levels": ["block", "kubernetes.io/hostname"],
                "slices": [
                    {
                        "domainCount": 2,
                        "valuesPerLevel": [{"universal": "b1"}, {"individual": {"prefix": "n", "roots": ["1", "2"]}}],
                        "podCounts": {"individual": [4, 2]},
                    }
                ],
            },
            [
                {"node": "n1", "count": 4, "levels": [["block", "b1"], ["kubernetes.io/hostname", "n1"]]},
                {"node": "n2", "count": 2, "levels": [["block", "b1"], ["kubernetes.io/hostname", "n2"]]},
            ],
            id="v1beta2",
        ),
    ],
)
def test_where_pods_were_placed(assignment: Json, expected: list[Json]) -> None:
    assert expected == placements(assignment)


names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(names, names, st.integers(1, 64)), min_size=1, max_size=20), st.integers(1, 20))
def test_both_forms_say_the_same(domains: list[tuple[str, str, int]], cut: int) -> None:
    """The list of v1beta1 and the slices of v1beta2, cut anywhere, with prefixes and suffixes where there are some."""
    levels = ["block", "kubernetes.io/hostname"]
    listed = {"levels": levels, "domains": [{"values": [b, n], "count": c} for b, n, c in domains]}
    pieces = [part for part in (domains[:cut], domains[cut:]) if part]
    packed = {"levels": levels, "slices": [squeezed(part) for part in pieces]}

    assert placements(listed) == placements(packed)


def squeezed(part: list[tuple[str, str, int]]) -> Json:
    """Domains as Kueue compresses them."""
    columns = [[domain[at] for domain in part] for at in (0, 1)]
    counts = [count for _, _, count in part]
    same = len(set(counts)) == 1
    return {
        "domainCount": len(part),
        "valuesPerLevel": [one_level(column) for column in columns],
        "podCounts": {"universal": counts[0]} if same else {"individual": counts},
    }


def one_level(column: list[str]) -> Json:
    if len(set(column)) == 1:
        return {"universal": column[0]}
    prefix = os.path.commonprefix(column)
    rests = [value.removeprefix(prefix) for value in column]
    suffix = os.path.commonprefix([rest[::-1] for rest in rests])[::-1]
    roots = [rest[: len(rest) - len(suffix)] for rest in rests]
    return {"individual": {"prefix": prefix, "suffix": suffix, "roots": roots}}


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        pytest.param({"levels": "rack"}, "levels is not a list", id="levels are a text"),
        pytest.param({"levels": ["a"], "domains": [{"values": ["x", "y"], "count": 1}]}, "expected one value per level", id="too many"),
        pytest.param({"domains": [{"values": [], "count": 1}]}, "expected one value per level", id="a domain without levels"),
        pytest.param(
            {"levels": ["a"], "slices": [{"domainCount": 2, "valuesPerLevel": [{"individual": {"roots": ["x"]}}]}]},
            "expected one root per domain",
            id="a root is missing",
        ),
        pytest.param(
            {
                "levels": ["a"],
                "slices": [{"domainCount": 1 << 30, "valuesPerLevel": [{"universal": "x"}], "podCounts": {"universal": 1}}],
            },
            f"more than {MAX_DOMAINS}",
            id="a slice that would fill the memory",
        ),
        pytest.param({"levels": ["a"], "domains": [{"values": [{}], "count": 1}]}, "not a text", id="an object as name"),
        pytest.param({"levels": ["a"], "domains": [{"values": ["x"], "count": -1}]}, "whole number", id="less than none"),
    ],
)  # fmt: skip
def test_a_broken_placement_is_refused(assignment: Json, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        placements(assignment)


# Recorded objects --------------------------------------------------------------------------------------------------


def recorded(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there: recorded objects of Kueue are beside the checkout or at GPUWATCH_SHARED")
    return path


def manifests(name: str) -> list[Json]:
    yaml = pytest.importorskip("yaml")
    return [item for item in yaml.safe_load_all(recorded(name).read_text("utf-8")) if item]


HANDLERS = {
    "Workload": workload,
    "ClusterQueue": cluster_queue,
    "LocalQueue": local_queue,
    "Cohort": cohort,
    "ResourceFlavor": resource_flavor,
    "WorkloadPriorityClass": priority_class,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("quota_objects.yaml", {"cluster_queue team-cluster-queue None": None}),
        (
            "sample-gpu-queues.yaml",
            {
                "resource_flavor tas-flavor tas-flavor": None,
                "cluster_queue tas-cluster-queue None": '{"":16}',
                "cluster_queue tas-cluster-queue tas-flavor": '{"":16}',
                "local_queue tas-user-queue None": None,
            },
        ),
        (
            "time_sliced_gang_objects.yaml",
            {
                "resource_flavor l40s-slice l40s-slice": None,
                "cluster_queue gpu-cluster-queue None": None,
                "cluster_queue gpu-cluster-queue l40s-slice": None,
                "local_queue gpu-local-queue None": None,
            },
        ),
        ("hami_objects.yaml", {"cluster_queue vgpu-cluster-queue None": None}),
        (
            "manager-setup.yaml",
            {
                "resource_flavor tas-flavor tas-flavor": None,
                "cluster_queue cluster-queue None": None,
                "local_queue user-queue None": None,
            },
        ),
    ],
)
def test_recorded_queues(name: str, expected: dict[str, str | None]) -> None:
    """(kind, name, flavor) -> quota of every queue of a file; flavors with nothing but other resources are told."""
    found = {
        f"{row['kind']} {row['name']} {row.get('flavor')}": row.get("quota")
        for item in manifests(name)
        if item.get("kind") in HANDLERS
        for _, row in HANDLERS[item["kind"]](item, AT)
    }

    assert expected == {key: found.get(key, "missing") for key in expected}
    assert {key.split()[1] for key in expected} == {key.split()[1] for key in found}


@pytest.mark.parametrize(
    ("name", "nodes"), [("01", {"kind-worker": 7, "kind-worker2": 3}), ("02", {"kind-worker2": 4, "kind-worker8": 2})]
)
def test_recorded_placements(name: str, nodes: dict[str, int]) -> None:
    document = json.loads(recorded(f"tas_setup_objects_{name}.json").read_text("utf-8"))

    assert nodes == {place["node"]: place["count"] for place in placements(document)}


def test_recorded_assignments_of_both_versions_agree() -> None:
    """The documentation shows the same placement in the old form and in the new."""
    listed = [item["topologyAssignment"] for item in manifests("tas_objects.yaml") if "topologyAssignment" in item]
    old, _, new, large = listed

    assert placements(old) == placements(new)
    assert 12 == sum(place["count"] for place in placements(large))


def test_recorded_manifest_with_misplaced_quotation_marks() -> None:
    """Its node labels are one text: that flavor is refused, the rest of the file is read."""
    flavor = next(item for item in manifests("tas_objects.yaml") if item.get("kind") == "ResourceFlavor")
    with pytest.raises(Malformed, match="nodeLabels"):
        list(resource_flavor(flavor, AT))


def test_recorded_conditions() -> None:
    """The states that the troubleshooting page shows, in its order."""
    listed = [item["status"] for item in manifests("troubleshooting_objects.yaml") if "status" in item]
    states = []
    for status in listed:
        kept = {key: value for key, value in status.items() if key in ("conditions",)}
        row, _ = read(gang() | {"status": kept})
        states.append((row["state"], row["reason"]))

    assert [
        ("pending", "Pending"), ("reserved", "QuotaReserved"), ("inadmissible", "Inadmissible"), ("evicted", "Preempted"),
    ] == states  # fmt: skip


@pytest.mark.parametrize("number", range(1, 7))
def test_recorded_places_in_the_queue(number: int) -> None:
    items = json.loads(recorded(f"pending_workloads_{number:02}.json").read_text("utf-8"))["items"]
    rows = [row for item in items for _, row in pending_workload(item, AT)]

    assert [item["positionInClusterQueue"] for item in items] == [
        json.loads(row["detail"])["position_in_cluster_queue"] for row in rows
    ]
    assert [f"default/{item['metadata']['ownerReferences'][0]['name']}" for item in items] == [
        row["job_id"] for row in rows
    ]


def test_every_field_of_the_recorded_list_is_read_or_known() -> None:
    """Each status field of workload_fields.csv is one that is read, or named here as left out on purpose."""
    with recorded("workload_fields.csv").open(encoding="utf-8") as file:
        paths = {row["path"] for row in csv.DictReader(file) if row["path"].count(".") == 2}
    read_here = {
        ".spec.active", ".spec.maximumExecutionTimeSeconds", ".spec.podSets", ".spec.preemptionGates", ".spec.priority",
        ".spec.priorityClassName", ".spec.priorityClassRef", ".spec.queueName", ".status.admission",
        ".status.admissionChecks", ".status.clusterName", ".status.conditions", ".status.reclaimablePods",
        ".status.requeueState", ".status.resourceRequests", ".status.schedulingStats", ".status.unhealthyNodes",
    }  # fmt: skip
    left_out = {
        ".spec.priorityClassSource", ".status.accumulatedPastExexcutionTimeSeconds",
        ".status.accumulatedPastExecutionTimeSeconds", ".status.nominatedClusterNames", ".status.preemptionGates",
    }  # fmt: skip

    assert set() == {path for path in paths if path.count("[") == 0} - read_here - left_out
