"""CPUs and memory that pods ask for and nodes offer: what cannot be read first."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.node_rule import Used, node_room, pod_room

GIB = 1 << 30


def box(cpu: object = None, memory: object = None, kind: str = "requests", **more: object) -> dict[str, Any]:
    amounts = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"resources": {kind: amounts}, **more}


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        pytest.param({"containers": [box("a lot", "1Gi")]}, {"memory_bytes": GIB}, id="what is no quantity"),
        pytest.param({"containers": [box(1e40)]}, {"memory_bytes": 0}, id="more than there can be"),
        pytest.param({"containers": [{}]}, {"cpu_milli": 0, "memory_bytes": 0}, id="a pod that asks for nothing"),
        pytest.param(
            {"containers": [box("500m", "1Gi"), box(2, "512Mi")]},
            {"cpu_milli": 2500, "memory_bytes": 3 * GIB // 2},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [box(4, kind="limits")]}, {"cpu_milli": 4000, "memory_bytes": 0}, id="a limit is a request"
        ),
        pytest.param(
            {
                "initContainers": [box(8), box(1, restartPolicy="Always")],
                "containers": [box(2)],
                "overhead": {"cpu": "250m"},
            },
            {"cpu_milli": 8250, "memory_bytes": 0},
            id="an init container, a sidecar and overhead",
        ),
    ],
)
def test_a_pod_has_what_it_asks_for(spec: dict[str, Any], columns: dict[str, int]) -> None:
    assert columns == pod_room({"spec": spec})


def test_a_node_offers_what_is_allocatable() -> None:
    assert {} == node_room({"status": {}})
    assert {"cpu_milli": 63_500} == node_room({"status": {"allocatable": {"cpu": "63500m", "memory": "?"}}})
    assert {"memory_bytes": 2 * GIB} == node_room({"status": {"allocatable": {"memory": "2Gi"}}})


def test_all_pods_of_a_node_use_it_but_those_that_ended() -> None:
    used = Used()
    for phase, node in (("Running", "n1"), ("Pending", "n1"), ("Failed", "n1"), ("Pending", None), ("Running", "n2")):
        used.take({"spec": {"nodeName": node, "containers": [box(2, "1Gi")]}, "status": {"phase": phase}})

    assert {"cpu_milli_used": 4000, "memory_bytes_used": 2 * GIB} == used.of("n1")
    assert {"cpu_milli_used": 0, "memory_bytes_used": 0} == used.of("n3")
