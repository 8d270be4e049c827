"""CPUs and memory of all pods of a node, from the pods that a watch brings: where they are not known first."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.collectors.kubernetes import node_changes
from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.feeds import Pods
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import rfc3339
from gpuwatch.topology.node_records import room_before, room_sources
from tests.collectors.kubernetes.test_live import Json, news, node, pod, us
from tests.worlds.world import CLUSTER, World

GIB = 1 << 30


def host(name: str = "n1", gpus: int = 8) -> Json:
    """A node with 64 CPUs and 256 GiB for pods."""
    found = node(name)
    found["status"]["capacity"] = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return found | {"status": found["status"] | {"allocatable": {"cpu": "64", "memory": "256Gi"}}}


def box(name: str, cpus: int, gpus: int = 0, on: str | None = "n1", **status: Any) -> Json:
    """A pod that runs with so many CPUs, a GiB for each and so many GPUs."""
    found = pod(name, count=gpus)
    asked = {"cpu": str(cpus), "memory": f"{cpus}Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    found["spec"] = {"containers": [{"name": "m", "resources": {"requests": asked, "limits": asked}}]}
    found["spec"] |= {"nodeName": on} if on else {}
    return found | {"status": found["status"] | status}


def listed(book: ClusterChanges, *items: Json, at: float = 0, namespace: str | None = None) -> None:
    feed = Pods(book)
    found = {key for item in items if (key := feed.take(item, us(at)))}
    feed.listed(found, None, us(at), namespace)


def used(book: ClusterChanges, at: float) -> list[tuple[Any, Any]]:
    """CPUs and GiB of the node rows that are written."""
    return [
        (row.get("cpu_milli_used") and row["cpu_milli_used"] / 1000, row.get("memory_bytes_used", 0) / GIB)
        if "cpu_milli_used" in row
        else (None, None)
        for row in news(book, at, "node")
    ]


def fresh(*items: Json, at: float = 0) -> ClusterChanges:
    """A cluster with one node whose pods were listed; what was written so far is taken."""
    book = ClusterChanges()
    book.node(host(), us(at))
    listed(book, *items, at=at)
    book.take(us(at))
    return book


def test_nothing_is_known_before_all_pods_are_listed() -> None:
    book = ClusterChanges()
    book.node(host(), us(0))
    book.pod(box("a", 4), us(0))

    assert [(None, None)] == used(book, 0)
    assert [] == used(book, 600), "and no row is written again"


def test_pods_of_one_namespace_are_not_those_of_a_node() -> None:
    book = ClusterChanges()
    book.node(host(), us(0))
    listed(book, box("a", 4), namespace="lab")

    assert [(None, None)] == used(book, 0)


def test_more_pods_than_are_kept_are_not_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_changes, "MAX_PODS", 2)
    book = ClusterChanges()
    book.node(host(), us(0))
    listed(book, box("a", 4), box("b", 4), box("c", 4))

    assert [(None, None)] == used(book, 0)

    listed(book, box("a", 4), at=600)

    assert [(4, 4)] == used(book, 600), "a complete list of fewer ends that"


def test_a_node_without_gpus_is_not_written() -> None:
    book = ClusterChanges()
    book.node(host(gpus=0), us(0))
    listed(book, box("a", 4))

    assert [] == used(book, 0)


def test_an_amount_that_cannot_be_read_makes_its_sum_unknown() -> None:
    odd = box("a", 4)
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "a lot"
    book = ClusterChanges()
    book.node(host(), us(0))
    listed(book, odd, box("b", 2))
    [row] = news(book, 0, "node")[-1:]

    assert ("cpu_milli_used" in row, row["memory_bytes_used"]) == (False, 6 * GIB)


def test_all_pods_of_a_node_add_up_but_those_that_ended_or_wait() -> None:
    book = ClusterChanges()
    book.node(host(), us(0))
    listed(
        book,
        box("a", 4),
        box("gpu", 8, 1),
        box("other", 16, on="n2"),
        box("done", 32, phase="Succeeded"),
        box("no", 2, on=None),
    )

    assert [(None, None), (12, 12)] == used(book, 0)


def test_pods_that_come_and_go_are_written_after_some_minutes() -> None:
    book = fresh(box("a", 4))
    book.pod(box("b", 2), us(60))

    assert [] == used(book, 60), "five minutes have not passed"
    assert [(6, 6)] == used(book, 320)
    assert [] == used(book, 700)

    book.pod_deleted(box("a", 4), us(710), us(710))
    book.pod(box("b", 2, phase="Failed"), us(711))

    assert [(0, 0)] == used(book, 720)

    book.pod(box("c", 1), us(1030))
    book.pod_deleted(box("c", 1), us(1040), us(1040))

    assert [] == used(book, 1100), "the sum is what it was"


def test_a_pod_with_gpus_counts_while_its_claim_runs() -> None:
    """What others have is the difference, whatever the moment."""
    book = fresh(box("a", 4), box("gpu", 8, 1))
    ended = {
        "containerStatuses": [
            {"name": "m", "state": {"terminated": {"startedAt": rfc3339(us(0)), "finishedAt": rfc3339(us(600))}}}
        ]
    }
    book.pod(box("gpu", 8, 1, phase="Succeeded", **ended), us(601))
    book.pod(box("b", 1), us(602))

    assert [(5, 5)] == used(book, 620)


def test_a_relist_forgets_what_went_meanwhile_and_a_restart_has_the_same_sum() -> None:
    book = fresh(box("a", 4), box("b", 8))
    listed(book, box("b", 8), box("c", 1), at=900)

    assert [(9, 9)] == used(book, 900)

    again = ClusterChanges()
    again.node(host(), us(1000))
    listed(again, box("b", 8), box("c", 1), at=1000)

    assert (9, 9) == used(again, 1000)[-1]


def test_a_node_that_changes_keeps_its_sum_and_one_that_goes_is_forgotten() -> None:
    book = fresh(box("a", 4))
    changed = host()
    changed["metadata"]["labels"] = {"zone": "b"}
    book.node(changed, us(60))

    assert [(4, 4)] == used(book, 60)

    book.node_deleted("n1", us(120), us(120))
    book.take(us(120))

    assert [] == used(book, 900)


def test_free_cpus_of_a_live_cluster_are_known() -> None:
    """Of 64 CPUs, 8 are of a pod with a GPU and 4 of one without, which goes; then the other ends."""
    book, world = ClusterChanges(), World()
    book.node(host(), us(0))
    ended = {
        "containerStatuses": [
            {"name": "m", "state": {"terminated": {"startedAt": rfc3339(us(0)), "finishedAt": rfc3339(us(1800))}}}
        ]
    }
    listed(book, box("a", 4), box("gpu", 8, 1))
    rows = [book.take(us(20))]
    listed(book, box("gpu", 8, 1), at=900)
    rows.append(book.take(us(920)))
    book.pod(box("gpu", 8, 1, phase="Succeeded", **ended), us(1801))
    rows.append(book.take(us(1801)))
    with world.store:
        for tables in rows:
            for table, some in tables.items():
                for records in table_batches(table, some, CLUSTER):
                    world.store.append(records)
        world.book()
        facts = room_sources(world.store, CLUSTER, us(0), us(960))
        rooms = [room_before(world.store, CLUSTER, us(at))["n1"] for at in (100, 960, 1900)]

    assert (False, False) == (facts["kubernetes"]["nodes_lack"], facts["kubernetes"]["others_lack"])
    assert [(52_000, 244 * GIB), (56_000, 248 * GIB), (64_000, 256 * GIB)] == rooms
