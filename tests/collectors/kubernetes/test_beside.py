"""Pods, claims, slices and nodes in files of their own: imported together they are what one List of them is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.files import DRA_UNKNOWN
from gpuwatch.imports.files import import_paths
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.collectors.kubernetes.test_dra import A, B, Json, claim, gpu, pod, resource_slice

TOGETHER: dict[str, tuple[Json, ...]] = {
    "pods": (pod("a", "c"), pod("b", plugin=1)),
    "claims": (claim("c", "gpu-0", "gpu-1"),),
    "slices": (resource_slice(gpu("gpu-0", A), gpu("gpu-1", B)),),
    "nodes": ({"kind": "Node", "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}},),
}


def stored_rows(store: Store) -> list[tuple[Any, ...]]:
    """What the store has of devices that pods held, of nodes and files, each once."""
    return [
        *store.sql(
            "select distinct pod, kind, profile, device_count, gpus, start_us, end_us from claim "
            "where device_count > 0 order by all"
        ),
        *store.sql("select distinct node, devices, gpu_model, labels from node order by all"),
        *store.sql("select reason, count from reject order by all"),
    ]


def load(files: Path, *calls: Sequence[str]) -> Store:
    """A store into which each call imports the files it names."""
    store, state = Store.open(None), State.open("sqlite://")
    for names in calls:
        for name in names:
            (files / f"{name}.json").write_text(json.dumps({"kind": "List", "items": TOGETHER[name]}))
        import_paths(store, state, "k8s-json", [files / f"{name}.json" for name in names], cluster="c1", now_us=0)
    state.close()
    return store


@pytest.fixture
def whole(tmp_path: Path) -> list[tuple[Any, ...]]:
    """What one List of everything gives."""
    store, state = Store.open(None), State.open("sqlite://")
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": sum(TOGETHER.values(), ())}))
    import_paths(store, state, "k8s-json", [tmp_path / "all.json"], cluster="c1", now_us=0)
    state.close()
    expected = stored_rows(store)
    assert 2 == sum(1 for row in expected if row[0] in ("a", "b")) and ("a", f"{A},{B}") == (
        expected[0][0],
        expected[0][4],
    )
    return expected


@pytest.mark.parametrize("order", list(permutations(TOGETHER)), ids=" then ".join)
def test_files_of_one_import_give_what_one_list_does(
    tmp_path: Path, whole: list[tuple[Any, ...]], order: tuple[str, ...]
) -> None:
    assert whole == stored_rows(load(tmp_path, order))


def test_pods_alone_are_incomplete_until_the_others_are_named_with_them(
    tmp_path: Path, whole: list[tuple[Any, ...]]
) -> None:
    store = load(tmp_path, ["pods"], ["pods"], ["claims"], ["nodes", "slices"])

    assert [("b",)] == store.sql("select distinct pod from claim where device_count > 0")
    assert [(DRA_UNKNOWN, 1)] == store.sql("select reason, count from reject")

    store = load(tmp_path, ["pods"], ["claims"], ["nodes", "slices"], tuple(TOGETHER))

    assert whole == stored_rows(store)


def test_a_file_speaks_for_itself_before_another_one_does(tmp_path: Path) -> None:
    """Two dumps of one cluster: what a node was called in the first is not what the second calls it."""
    for day in "12":
        node = {"kind": "Node", "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": day}}}
        items = [node, resource_slice(gpu("gpu-0", A)), claim("c", "gpu-0", pods=(f"p{day}",)), pod(f"p{day}", "c")]
        (tmp_path / f"{day}.json").write_text(json.dumps({"kind": "List", "items": items}))
    store, state = Store.open(None), State.open("sqlite://")
    import_paths(store, state, "k8s-json", sorted(tmp_path.iterdir()), cluster="c1", now_us=0)
    state.close()

    assert [("p1", A), ("p2", A)] == store.sql("select pod, gpus from claim order by all")
    assert ["1", "2"] == [
        json.loads(row[0])["topology.kubernetes.io/zone"] for row in store.sql("select labels from node order by all")
    ]


def test_what_waits_in_a_dump_waited_still_when_its_nodes_spoke_last(tmp_path: Path) -> None:
    """Pods and queues tell when they changed last; the nodes of the same dump tell when it was made."""
    heard = "2026-11-03T12:00:00Z"
    node = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heard}],
        },
    }
    waiting: Json = {
        "kind": "Pod",
        "metadata": {"name": "w", "uid": "u", "namespace": "ml", "creationTimestamp": "2026-11-03T09:00:00Z"},
        "spec": {"containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Pending"},
    }
    for name, items in {"pods": [waiting], "nodes": [node], "list": [waiting, node]}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))

    for names in (["pods", "nodes"], ["list"]):
        with Store.open(None) as store:
            paths = [tmp_path / f"{name}.json" for name in names]
            import_paths(store, State.open("sqlite://"), "k8s-json", paths, cluster="c1", now_us=1_793_800_000_000_000)
            waited = store.sql("select submit_us, evidence_us from pending")
        assert [(1_793_696_400_000_000, 1_793_707_200_000_000)] == waited
