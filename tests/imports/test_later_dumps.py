"""Two dumps of one cluster: a pod that the later one does not list is gone, and was there up to the earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.imports.forget import forget, imports
from tests.worlds.import_desk import NOW_US, Desk

DAY = "2025-11-25T{:02}:00:00Z"
Json = dict[str, Any]


def pod(name: str, namespace: str = "lab", node: str = "n1", start: int = 0, gpus: int = 2, **labels: str) -> Json:
    """A pod that runs since an hour of the day."""
    at = DAY.format(start)
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}}
    running = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": at}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": at,
            "labels": labels,
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {
            "phase": "Running",
            "startTime": at,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}],
            "containerStatuses": [running],
        },
    }


def node(at: int, name: str = "n1") -> Json:
    """A node whose kubelet reported at an hour of the day, as the newest does in a dump of that hour."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2025-10-01T00:00:00Z"},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": DAY.format(at)}],
        },
    }


def daemon(name: str = "proxy", node: str = "n1") -> Json:
    """A pod without GPUs in another namespace, which a list of all namespaces has."""
    return pod(name, "kube-system", node, gpus=0, app=name)


class Dumps(Desk):
    """What kubectl printed."""

    def load(self, *items: Json | str) -> None:
        self.put("k8s-json", json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    def hours(self) -> dict[str, float]:
        """GPU-hours of each pod."""
        return self.hours_by("name")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Dumps]:
    with closing(Dumps(tmp_path)) as made:
        yield made


FIRST = (node(2), daemon(), pod("stays"), pod("gone"))
"""Two pods of two GPUs each at two o'clock."""


@pytest.mark.parametrize(
    "later",
    [
        pytest.param((node(10), daemon(), pod("stays")), id="all namespaces"),
        pytest.param((node(10), pod("stays")), id="one namespace, with the nodes"),
        pytest.param((pod("stays"), pod("new", start=10, gpus=0)), id="one namespace alone"),
    ],
)
def test_a_pod_that_a_later_dump_does_not_list_ended_with_the_earlier_one(desk: Dumps, later: Sequence[Json]) -> None:
    desk.load(*FIRST)
    desk.load(*later)

    assert {"gone": 4.0, "stays": 20.0} == desk.hours()
    assert [("gone", True, True, None), ("stays", False, False, "Running")] == desk.store.sql(
        "select name, ended, end_estimated, state from run order by name"
    )


def test_the_last_pod_of_a_namespace_and_of_a_node_is_missed_as_well(desk: Dumps) -> None:
    desk.load(node(2), node(2, "n2"), daemon(), daemon("proxy2", "n2"), pod("gone", "solo", "n2"))
    desk.load(node(10), node(10, "n2"), daemon(), daemon("proxy2", "n2"), pod("stays", start=4))

    assert {"gone": 4.0, "stays": 12.0} == desk.hours()


def test_the_gpus_of_a_pod_that_is_gone_are_free_for_the_next(desk: Dumps) -> None:
    """Eight GPUs: without the end, the pods of the second dump would hold ten."""
    desk.load(*FIRST)
    desk.load(node(10), daemon(), pod("stays"), pod("next", start=6, gpus=6))

    assert {"gone": 4.0, "next": 24.0, "stays": 20.0} == desk.hours()


def test_the_order_of_imports_does_not_matter(desk: Dumps) -> None:
    desk.load(node(10), daemon(), pod("stays"))
    desk.load(*FIRST)

    assert {"gone": 4.0, "stays": 20.0} == desk.hours()


def test_a_pod_that_is_listed_again_ran_on(desk: Dumps) -> None:
    desk.load(*FIRST)
    desk.load(node(6), daemon(), pod("stays"))
    assert {"gone": 4.0, "stays": 12.0} == desk.hours()
    desk.load(node(10), daemon(), pod("stays"), pod("gone"))

    assert {"gone": 20.0, "stays": 20.0} == desk.hours()


def test_an_import_that_is_taken_back_ends_nothing(desk: Dumps) -> None:
    desk.load(*FIRST)
    desk.load(node(10), daemon(), pod("stays"))
    assert {"gone": 4.0, "stays": 20.0} == desk.hours()
    forget(desk.store, max(one["id"] for one in imports(desk.store)), NOW_US)

    assert {"gone": 4.0, "stays": 4.0} == desk.hours()
    assert [("gone", False), ("stays", False)] == desk.store.sql("select name, ended from run order by name")


@pytest.mark.parametrize(
    "later",
    [
        pytest.param((node(10), pod("x", "other", start=9), pod("y", "other", start=9)), id="another namespace"),
        pytest.param(
            (node(10), node(10, "n2"), daemon("proxy2", "n2"), pod("x", node="n2", start=9)), id="another node"
        ),
        pytest.param((node(10), pod("stays", app="a"), pod("x", start=9, app="a", team="b")), id="a label selector"),
        pytest.param((pod("x", start=10),), id="one pod by its name"),
        pytest.param(
            (node(10), daemon(), pod("stays"), pod("gone") | {"spec": {"nodeName": "n1", "containers": "?"}}),
            id="a pod that cannot be read",
        ),
    ],
)
def test_a_pod_runs_on_where_the_later_dump_may_not_show_it(desk: Dumps, later: Sequence[Json]) -> None:
    desk.load(*FIRST)
    desk.load(*later)

    assert 20.0 == desk.hours()["gone"]
    assert [(False,)] == desk.store.sql("select ended from run where name = 'gone'")
