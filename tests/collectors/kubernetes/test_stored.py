"""What went while nobody watched: queues and workloads that the store has open and a first list does not have."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.kinds import kinds
from gpuwatch.collectors.kubernetes.resume import kind_of_row
from gpuwatch.core.clock import SECOND_US

T0_US = 1_793_577_600_000_000
Json = dict[str, Any]
KUEUE = "kueue.x-k8s.io"


def us(seconds: float) -> int:
    return T0_US + round(seconds * SECOND_US)


def gang(uid: str = "old", **words: Any) -> Json:
    """A Kueue Workload that ran when it was last heard of, 50 s after the world began."""
    row = {"scheduler": "kueue", "kind": "Workload", "uid": uid, "namespace": "lab", "state": "running"}
    return row | {"start_us": us(10), "end_us": None, "observed_us": us(50), "cluster": "c1"} | words


def queue(name: str = "old", **words: Any) -> Json:
    row = {"scheduler": "kueue", "kind": "local_queue", "name": name, "namespace": "lab", "flavor": None}
    return row | {"state": "Active", "observed_us": us(40), "cluster": "c1"} | words


def workload(uid: str = "old") -> Json:
    return {"metadata": {"uid": uid, "name": uid, "namespace": "lab"}, "spec": {"podSets": []}}


def closed(table: str, *rows: Json, items: tuple[Json, ...] = (), kind: str = "", **words: Any) -> list[Json]:
    """Rows that a first list of these items says are gone, 100 s after the world began."""
    book, read = ClusterChanges(), kinds()[KUEUE, kind or {"queue": "LocalQueue", "workload": "Workload"}[table]]
    alive_us = book.remember_objects(table, rows)
    uids = {book.object(read, item, us(100)) for item in items} | words.get("unread", set())
    book.objects_listed(read, uids, alive_us, us(100), words.get("namespace"))
    return [row for row in book.take(us(100)).get(table, []) if row["state"] == "deleted"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param([], {}, id="nothing was open"),
        pytest.param([gang()], {"items": (workload(),)}, id="it is still there"),
        pytest.param([gang()], {"unread": {"old"}}, id="it is there, and cannot be read"),
        pytest.param([gang()], {"namespace": "sales"}, id="a list of another namespace"),
        pytest.param([gang()], {"kind": "ClusterQueue"}, id="a list of another kind"),
        pytest.param([gang(scheduler="volcano", kind="PodGroup")], {}, id="another scheduler's"),
        pytest.param([gang(scheduler="yunikorn", kind="Application")], {}, id="another source's"),
        pytest.param([gang(scheduler="slurm", kind="Job")], {}, id="a Slurm job is no Job"),
    ],
)
def test_nothing_is_closed(rows: list[Json], words: dict[str, Any]) -> None:
    assert [] == closed("workload", *rows, **words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param({}, us(50), id="when anything was last heard"),
        pytest.param({"observed_us": us(900)}, us(100), id="never after the list: a clock ran ahead"),
        pytest.param({"observed_us": us(0)}, us(10), id="never before it began"),
        pytest.param({"end_us": us(20)}, us(20), id="at the end it told itself"),
    ],
)
def test_a_workload_that_went_unseen_ended(words: Json, expected: int) -> None:
    found = closed("workload", gang(**words), items=(workload("new"),))

    assert [("old", expected, us(100))] == [(row["uid"], row["end_us"], row["observed_us"]) for row in found]


def test_it_is_closed_once() -> None:
    book, read = ClusterChanges(), kinds()[KUEUE, "Workload"]
    alive_us = book.remember_objects("workload", [gang()])
    for at in (100, 200):
        book.objects_listed(read, set(), alive_us, us(at), None)

    assert [us(100)] == [row["observed_us"] for row in book.take(us(200))["workload"]]


def test_a_queue_that_went_unseen_is_no_more() -> None:
    there = {"metadata": {"uid": "q", "name": "new", "namespace": "lab"}, "spec": {"clusterQueue": "cq"}}
    found = closed("queue", queue(), queue("new"), queue("old", flavor="h100"), items=(there,))

    assert [("old", None), ("old", "h100")] == [(row["name"], row["flavor"]) for row in found]


@pytest.mark.parametrize(
    ("scheduler", "kind", "table", "expected"),
    [
        ("kueue", "Workload", "workload", (KUEUE, "Workload")),
        ("kubernetes", "Workload", "workload", ("scheduling.k8s.io", "Workload")),
        ("volcano", "PodGroup", "workload", ("scheduling.volcano.sh", "PodGroup")),
        ("coscheduling", "PodGroup", "workload", ("scheduling.x-k8s.io", "PodGroup")),
        ("kubernetes", "PodGroup", "workload", ("scheduling.k8s.io", "PodGroup")),
        ("volcano", "Job", "workload", ("batch.volcano.sh", "Job")),
        ("kubernetes", "Job", "workload", ("batch", "Job")),
        ("kubernetes", "PyTorchJob", "workload", ("kubeflow.org", "PyTorchJob")),
        ("ray", "RayJob", "workload", ("ray.io", "RayJob")),
        ("ray", "Job", "workload", None),
        ("kueue", "PendingWorkload", "workload", None),
        ("kueue", "workload_priority_class", "queue", (KUEUE, "WorkloadPriorityClass")),
        ("kueue", "cluster_queue", "queue", (KUEUE, "ClusterQueue")),
        ("volcano", "queue", "queue", ("scheduling.volcano.sh", "Queue")),
        ("kubernetes", "namespace", "queue", ("", "Namespace")),
        ("kubernetes", "resource_quota", "queue", ("", "ResourceQuota")),
        ("kubernetes", "priority_class", "queue", ("scheduling.k8s.io", "PriorityClass")),
        ("slurm", "partition", "queue", None),
    ],
)
def test_whose_rows_these_are(scheduler: str, kind: str, table: str, expected: tuple[str, str] | None) -> None:
    found = kind_of_row(table, {"scheduler": scheduler, "kind": kind})

    assert expected == (None if found is None else (found.group, found.kind))
