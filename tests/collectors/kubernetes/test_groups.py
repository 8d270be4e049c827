"""Pods of a named group: one gang, one run and one waiting request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.files import parse_objects
from gpuwatch.collectors.kubernetes.owner import GROUP_KEYS, owner_of
from gpuwatch.core.model import Rejects, Source

Item = dict[str, Any]
UUID = "0a1b2c3d-0000-4000-8000-00000000000a"


def pod(name: str, place: str = "annotations", owner: str = "", node: str | None = None, **group: str) -> Item:
    references = [{"controller": True, "kind": owner, "name": f"the-{owner.lower()}", "uid": "c"}] if owner else []
    named = {place: {key.replace("__", "/"): value for key, value in group.items()}}
    state = {"running": {"startedAt": "2026-11-02T08:10:00Z"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-11-02T08:00:00Z",
            "ownerReferences": references,
            **named,
        },
        "spec": {
            "containers": [{"name": "x", "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Running", "containerStatuses": [{"state": state}]} if node else {"phase": "Pending"},
    }


def group(key: str, name: str = "gang") -> dict[str, str]:
    return {key: name}


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("key", GROUP_KEYS)
def test_pods_of_a_group_are_one_request_of_all_their_gpus(key: str, place: str) -> None:
    items = [pod(f"p{number}", place, **group(key)) for number in range(2)] + [pod("alone")]
    tables = parse_objects(json.dumps({"kind": "List", "items": items}), Source("f", "c1"), Rejects())

    assert {("ml/gang", 8, 2), ("ml/alone", 4, 1)} == {
        (row["job_id"], row["device_count"], row["node_count"]) for row in tables["pending"]
    }


def test_pods_of_a_group_are_one_run() -> None:
    first, second = (owner_of(pod(f"p{n}", **group("scheduling.k8s.io/group-name"))) for n in range(2))

    assert ("ml/gang", "group ml/gang") == (first.job_id, first.run_key) == (second.job_id, second.run_key)


def test_a_static_pod_is_its_own_workload() -> None:
    """Its controller is the node, which would make one workload of all static pods there."""
    owner = owner_of(pod("dcgm-n1", owner="Node"))

    assert ("ml/dcgm-n1", "uid-dcgm-n1", "dcgm-n1") == (owner.job_id, owner.run_key, owner.name)


def test_a_controller_keeps_its_name() -> None:
    owner = owner_of(pod("web-0", owner="StatefulSet", **group("scheduling.k8s.io/group-name")))

    assert ("ml/the-statefulset", "group ml/gang") == (owner.job_id, owner.run_key)


def test_a_gang_controller_stays_the_run() -> None:
    owner = owner_of(pod("t-0", owner="PyTorchJob", **group("scheduling.k8s.io/group-name")))

    assert ("ml/the-pytorchjob", "c") == (owner.job_id, owner.run_key)


@pytest.mark.parametrize("name", [f"podgroup-{UUID}", f"pg-web-0-{UUID}"])
def test_a_group_that_the_scheduler_made_for_one_pod_is_no_gang(name: str) -> None:
    owner = owner_of(pod("a", **group("scheduling.k8s.io/group-name", name)))

    assert ("ml/a", "uid-a") == (owner.job_id, owner.run_key)


def test_a_pod_that_gets_a_group_later_stays_one_claim() -> None:
    changes = ClusterChanges()
    changes.pod(pod("a", node="n1"), 1_793_700_000_000_000)
    changes.pod(pod("a", node="n1", **group("scheduling.k8s.io/group-name")), 1_793_700_060_000_000)

    assert {("ml/a", "uid-a")} == {(row["job_id"], row["run_key"]) for row in changes.take(0)["claim"]}
