"""Volcano's PodGroups, Jobs and Queues, and the PodGroups of coscheduling and of Kubernetes itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.schedulers import coscheduling, volcano
from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import parse_rfc3339

SHARED = Path(os.environ.get("GPUWATCH_SHARED") or Path(__file__).parents[4] / "shared") / "wire/schedulers/volcano"
AT = 1_793_577_600_000_000
Json = dict[str, Any]


def named(spec: Json, status: Json | None = None, **metadata: Any) -> Json:
    record = {"name": "g", "namespace": "lab", "uid": "u1", "creationTimestamp": "2026-11-02T00:00:00Z"} | metadata
    return {"metadata": record, "spec": spec, "status": status or {}}


def condition(kind: str, at: str, reason: str, message: str = "", status: str = "True") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": at, "reason": reason, "message": message}


def one(rows: Any) -> Columns:
    ((_, row),) = rows
    return dict(row)


def task(replicas: int, **resources: int) -> Json:
    limits = {name.replace("__", "/").replace("_", "."): count for name, count in resources.items()}
    return {
        "name": "t",
        "replicas": replicas,
        "template": {"spec": {"containers": [{"resources": {"limits": limits}}]}},
    }


def job(status: Json | None = None, *tasks: Json, **spec: Any) -> Json:
    result = list(tasks) or [task(4, nvidia_com__gpu=8)]
    return named({"queue": "train", "minAvailable": 3, "tasks": result} | spec, status)


REFUSED = condition("Unschedulable", "2026-11-02T00:02:00Z", "NotEnoughResources", "3/4 tasks in gang unschedulable")
PLACED = condition("Scheduled", "2026-11-02T00:05:00Z", "tasks in gang are ready to be scheduled")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, ("pending", None, None), id="just made"),
        pytest.param(
            {"phase": "Pending", "conditions": [REFUSED]}, ("pending", "NotEnoughResources", None), id="waits"
        ),
        pytest.param({"phase": "Inqueue"}, ("reserved", None, None), id="let in, waits for nodes"),
        pytest.param(
            {"phase": "Running", "conditions": [REFUSED | {"status": "False"}, PLACED]},
            ("running", PLACED["reason"], "00:05"),
            id="runs",
        ),
        pytest.param(
            {"phase": "Unknown", "conditions": [REFUSED, PLACED]},
            ("admitted", "NotEnoughResources", None),
            id="a part of it runs and the rest finds no place",
        ),
        pytest.param(
            {"phase": "Completed", "conditions": [PLACED]}, ("finished", PLACED["reason"], "00:05"), id="over"
        ),
    ],
)
def test_phases_of_a_pod_group(status: Json, expected: tuple[str, str | None, str | None]) -> None:
    row = one(volcano.pod_group(named({"minMember": 4}, status), AT))
    start = None if expected[2] is None else parse_rfc3339(f"2026-11-02T{expected[2]}:00Z")

    assert (expected[0], expected[1], start) == (row["state"], row["reason"], row["start_us"])


def test_a_pod_group_asks_for_the_least_it_starts_with() -> None:
    spec = {"minMember": 4, "minResources": {"cpu": "1000m", "nvidia.com/gpu": "32"}, "queue": "train"}
    owner = [{"kind": "Job", "name": "llm", "uid": "u0", "controller": True}]
    row = one(volcano.pod_group(named(spec, ownerReferences=owner), AT))

    assert (4, 32, "train", "lab/llm") == tuple(row[n] for n in ("min_count", "device_count", "queue", "job_id"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minMember": 2}, None, id="nothing told of resources: unknown"),
        pytest.param({"minResources": {"cpu": "1"}}, 0, id="resources without GPUs: none"),
        pytest.param({"minResources": {"volcano.sh/vgpu-number": "2"}}, None, id="parts of GPUs: unknown"),
    ],
)
def test_devices_of_a_pod_group(spec: Json, expected: int | None) -> None:
    assert expected == one(volcano.pod_group(named(spec), AT))["device_count"]


@pytest.mark.parametrize(
    ("item", "waits"),
    [
        pytest.param(job({"state": {"phase": "Running"}, "running": 4}), [], id="runs"),
        pytest.param(job({"state": {"phase": "Pending"}, "pending": 4}), [], id="its pods exist, and tell it themselves"),
        pytest.param(job({"state": {"phase": "Aborted"}}), [], id="stopped"),
        pytest.param(job({}, task(2)), [], id="without GPUs"),
        pytest.param(job({"state": {"phase": "Pending"}}), [(32, None)], id="waits, and no pod is there"),
        pytest.param(job(), [(32, None)], id="just made"),
        pytest.param(
            job({}, {"replicas": 2, "template": {"spec": {"containers": [
                {"resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2}}}
            ]}}}),
            [(2, None), (4, "1g.10gb")],
            id="one request a kind of device",
        ),
    ],
)  # fmt: skip
def test_a_job_waits_only_while_it_has_no_pods(item: Json, waits: list[tuple[int, str | None]]) -> None:
    rows = [row for table, row in volcano.job(item, AT) if table == "pending"]

    assert waits == [(row["device_count"], row["profile"]) for row in rows]
    assert {"lab/g"} >= {row["job_id"] for row in rows}


def test_a_job_over_its_life() -> None:
    history = [
        {"status": "Pending", "lastTransitionTime": "2026-11-02T00:00:01Z"},
        {"status": "Running", "lastTransitionTime": "2026-11-02T00:10:00Z"},
        {"status": "Completed", "lastTransitionTime": "2026-11-02T02:00:00Z"},
    ]
    state = {"phase": "Completed", "lastTransitionTime": "2026-11-02T02:00:00Z"}
    (_, row), *more = volcano.job(job({"state": state, "conditions": history, "succeeded": 4}), AT)

    assert [] == more
    assert ("finished", 4, 3, 32) == tuple(row[n] for n in ("state", "pod_count", "min_count", "device_count"))
    assert [parse_rfc3339(f"2026-11-02T{t}:00Z") for t in ("00:10", "02:00")] == [row["start_us"], row["end_us"]]


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing told, nothing known"),
        pytest.param(
            {"capability": {"nvidia.com/gpu": 16}, "deserved": {"nvidia.com/gpu": 8}}, {"allocated": {"cpu": "1"}},
            {"quota": {"": 8}, "quota_max": {"": 16}, "lend_max": {"": 8}, "used": {"": 0}},
            id="none of them in use",
        ),
        pytest.param(
            {"deserved": {"nvidia.com/gpu": 8}, "guarantee": {"resource": {"nvidia.com/gpu": 2}}},
            {"allocated": {"nvidia.com/gpu": "11"}},
            {"quota": {"": 8}, "lend_max": {"": 6}, "used": {"": 11}, "borrowed": {"": 3}},
            id="more in use than it deserves is borrowed, less than its guarantee is never lent",
        ),
        pytest.param(
            {"guarantee": {"nvidia.com/gpu": 2}}, {}, {"quota": {"": 2}}, id="a guarantee alone, as manifests write it"
        ),
        pytest.param(
            {"deserved": {"nvidia.com/gpu": 8}, "reclaimable": False}, {}, {"quota": {"": 8}}, id="nothing is reclaimed"
        ),
        pytest.param(
            {"capability": {"deviceclass/gpu.nvidia.com": "8"}}, {}, {"quota_max": {"": 8}}, id="devices of DRA"
        ),
    ],
)  # fmt: skip
def test_quota_of_a_queue(spec: Json, status: Json, expected: Json) -> None:
    row = one(volcano.queue(named(spec, status), AT))
    names = ("quota", "quota_max", "lend_max", "used", "borrowed")

    assert expected == {n: json.loads(row[n]) for n in names if row[n] is not None}


def test_counts_and_words_of_a_queue() -> None:
    spec = {"weight": 4, "priority": 2, "parent": "root", "reclaimable": True}
    status = {"state": "Open", "pending": 3, "inqueue": 1, "running": 5}
    row = one(volcano.queue(named(spec, status), AT))

    assert ("root", "Open", 4.0, 2, 4, 5, '{"reclaimable":true}') == tuple(
        row[n] for n in ("parent", "state", "weight", "priority", "pending_count", "running_count", "preemption")
    )


def deep(depth: int) -> Json:
    """Objects inside each other; one broken object must not stop a source."""
    item: Json = {}
    for _ in range(depth):
        item = {"a": item}
    return item


@pytest.mark.parametrize(
    ("read", "item"),
    [
        pytest.param(volcano.pod_group, named({"minMember": "all"}), id="a word for a count"),
        pytest.param(volcano.pod_group, named({"minResources": {"nvidia.com/gpu": "-1"}}), id="less than no GPU"),
        pytest.param(volcano.queue, named({"capability": ["x"]}), id="a list for an object"),
        pytest.param(volcano.queue, named({"weight": "heavy"}), id="a word for a weight"),
        pytest.param(volcano.queue, named({"weight": 1e999}), id="a weight that is no number to JSON"),
        pytest.param(volcano.queue, named({"weight": 10**400}), id="a weight beyond every number"),
        pytest.param(volcano.queue, named({"affinity": deep(5000)}), id="an object as deep as nobody wrote"),
        pytest.param(volcano.queue, named({"affinity": {"a": 1e999}}), id="no number in what is kept as told"),
        pytest.param(volcano.job, named({"tasks": {"replicas": 1}}), id="an object for a list"),
        pytest.param(coscheduling.pod_group, {"metadata": {}}, id="no name"),
    ],
)
def test_an_odd_object_is_refused(read: Any, item: Json) -> None:
    with pytest.raises(Malformed):
        list(read(item, AT))


# Coscheduling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        pytest.param(None, "pending", id="just made"),
        pytest.param("Scheduling", "pending", id="looks for places"),
        pytest.param("Running", "running", id="runs"),
        pytest.param("Failed", "finished", id="failed"),
        pytest.param("Sleeping", None, id="a word that is not known"),
    ],
)
def test_phases_of_coscheduling(phase: str | None, state: str | None) -> None:
    status = {"phase": phase, "occupiedBy": "lab/llm", "scheduled": 1} if phase else {}
    spec = {"minMember": 2, "minResources": {"nvidia.com/gpu": 16}}
    row = one(coscheduling.pod_group(named(spec, status), AT))

    assert (state, 2, 16) == (row["state"], row["min_count"], row["device_count"])
    assert ("lab/llm" if phase else None) == row["job_id"]


def test_pods_of_coscheduling_tell_their_own_wait() -> None:
    rows = coscheduling.pod_group(named({"minMember": 2, "minResources": {"nvidia.com/gpu": 16}}), AT)

    assert ["workload"] == [table for table, _ in rows]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, (None, None), id="not looked at"),
        pytest.param(
            {"conditions": [condition("PodGroupScheduled", "2026-11-02T00:01:00Z", "Unschedulable", status="False")]},
            ("pending", "Unschedulable"), id="no place for all",
        ),
        pytest.param(
            {"conditions": [condition("PodGroupScheduled", "2026-11-02T00:01:00Z", "Scheduled")]},
            ("admitted", "Scheduled"), id="placed",
        ),
    ],
)  # fmt: skip
def test_kubernetes_own_pod_group(status: Json, expected: tuple[str | None, str | None]) -> None:
    item = named({"schedulingPolicy": {"gang": {"minCount": 4}}}, status)
    row = one(coscheduling.core_pod_group(item, AT))

    assert ("kubernetes", 4, *expected) == tuple(row[n] for n in ("scheduler", "min_count", "state", "reason"))


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param({"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 4}}}]}, id="v1alpha1"),
        pytest.param(
            {"podGroupTemplates": [{"name": "w", "schedulingPolicy": {"gang": {"minCount": 4}}}]}, id="v1alpha2"
        ),
    ],
)
def test_kubernetes_own_workload(groups: Json) -> None:
    spec = {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "llm"}} | groups
    row = one(coscheduling.core_workload(named(spec), AT))

    assert ("lab/llm", 4) == (row["job_id"], row["min_count"])


# Recorded objects --------------------------------------------------------------------------------------------------


def manifests(name: str) -> list[Json]:
    yaml = pytest.importorskip("yaml")
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there: recorded objects of Volcano are beside the checkout or at GPUWATCH_SHARED")
    return [item for item in yaml.safe_load_all(path.read_text("utf-8")) if isinstance(item, dict)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "capacity_dra_objects.yaml",
            {
                "gpu-team": ('{"":4}', '{"":8}'),
                "vgpu-team": (None, None),
                "ml-team": (None, '{"":12}'),
            },
        ),
        ("capacity_objects.yaml", {"queue1": (None, None), "queue2": (None, None)}),
        (
            "queues.yaml",
            dict.fromkeys(("root-eng-prod", "root-eng-dev", "root-sci-prod", "root-sci-dev"), (None, None)),
        ),
    ],
)
def test_recorded_queues(name: str, expected: dict[str, tuple[str | None, str | None]]) -> None:
    rows = [one(volcano.queue(item, AT)) for item in manifests(name) if item.get("kind") == "Queue"]

    assert expected == {row["name"]: (row["quota"], row["quota_max"]) for row in rows}


def test_recorded_hierarchy() -> None:
    rows = [one(volcano.queue(item, AT)) for item in manifests("queues.yaml")]

    assert {"root/eng", "root/sci"} == {row["parent"] for row in rows}


def test_recorded_jobs() -> None:
    items = [i for n in ("network_topology_objects.yaml", "dra_quota_objects.yaml") for i in manifests(n)]
    rows = [dict(row) for i in items if i.get("kind") == "Job" for _, row in volcano.job(i, AT)]

    assert [(8, 4, 0), (8, 4, 0), (2, 2, 0), (1, 1, None), (2, 2, None)] == [
        (row["pod_count"], row["min_count"], row["device_count"]) for row in rows
    ]


def test_recorded_pod_group() -> None:
    row = one(volcano.pod_group(manifests("podgroup.yaml")[0], AT))

    assert ("test-pg", "default", 1, 0) == tuple(row[n] for n in ("name", "queue", "min_count", "device_count"))
