"""Events of both APIs, and the counts in FailedScheduling messages."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpuwatch.clock import parse_rfc3339
from gpuwatch.collectors.kubernetes_events import event_row, parse_failed_scheduling, parse_preempted, parse_xids

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("GPUWATCH_SHARED", ROOT.parent / "shared"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("", {}, id="nothing said"),
        pytest.param("no nodes available to schedule pods", {}, id="no count at all"),
        pytest.param("0/3 nodes are available: 3 Insufficient nvidia.com/gpu", {"Insufficient nvidia.com/gpu": 3}, id="one"),
        pytest.param(
            "0/7 nodes are available: 3 Insufficient cpu, 4 node(s) had taint {a: b}, that the pod didn't tolerate. "
            "preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
            {"Insufficient cpu": 3, "node(s) had taint {a: b}, that the pod didn't tolerate": 4},
            id="a comma inside a reason, and the preemption tail is not counted",
        ),
        pytest.param("0/5 nodes are available: pod has unbound claims.", {"pod has unbound claims": 5}, id="all nodes"),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 cannot allocate all "
            "claims. no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
            {"node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }": 1, "cannot allocate all claims": 3},
            id="1.31 says first what deallocating claims would do",
        ),
        pytest.param(
            "0/3 nodes are available: 3 cannot allocate all claims. still not schedulable, preemption: 0/3 nodes are available: "
            "3 Preemption is not helpful for scheduling.",
            {"cannot allocate all claims": 3},
            id="1.34 says that it is still not schedulable",
        ),
        pytest.param("all nodes are unavailable: 2 Insufficient nvidia.com/gpu.", {"Insufficient nvidia.com/gpu": 2}, id="Volcano"),
        pytest.param("all nodes are unavailable: queue is closed.", {}, id="a reason of an unknown number of nodes is not counted"),
    ],
)  # fmt: skip
def test_failed_scheduling(message: str, expected: dict[str, int]) -> None:

    assert expected == parse_failed_scheduling(message)


def test_recorded_messages() -> None:
    file = SHARED / "wire/kubernetes/failed_scheduling_messages.txt"
    if not file.is_file():
        pytest.skip(f"{file} is absent: set GPUWATCH_SHARED")
    got = [parse_failed_scheduling(line) for line in file.read_text().splitlines()]

    assert [
        {"Insufficient nvidia.com/gpu": 3, "node(s) didn't match Pod's node affinity/selector": 4},
        {"Insufficient nvidia.com/gpu": 3},
        {"Insufficient nvidia.com/gpu": 1},
        {},
    ] == got


def test_both_event_apis_give_the_same_columns() -> None:
    items = json.loads((ROOT / "tests/data/k8s/events.json").read_text())["items"]
    rows = [event_row(item) for item in items]
    first = [parse_rfc3339(t) for t in ("2026-11-02T11:00:01Z", "2026-11-02T11:00:03.250001Z")]
    last = [parse_rfc3339(t) for t in ("2026-11-02T11:20:00Z", "2026-11-02T11:10:00Z")]

    assert [("ev-1", "big-0", 5, first[0], last[0]), ("ev-2", "big-1", 3, first[1], last[1])] == [
        (r["event_id"], r["name"], r["count"], r["first_us"], r["last_us"]) for r in rows
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("Back-off restarting failed container", None, id="another message"),
        pytest.param("Preempted by a pod on node gpu-3", ("a pod", "gpu-3"), id="since 1.24 the pod is not named"),
        pytest.param("Preempted by pod 0f3a on node gpu-3", ("pod 0f3a", "gpu-3"), id="since 1.27 by its UID"),
        pytest.param("Preempted by lab/big on node gpu-3", ("lab/big", "gpu-3"), id="before by its name"),
    ],
)
def test_who_took_the_place(message: str, expected: tuple[str, str] | None) -> None:

    assert expected == parse_preempted(message)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("Node n1 status is now: NodeNotReady", [], id="no GPU error"),
        pytest.param("exit code 79", [], id="a number alone is no XID"),
        pytest.param(
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
            [("0000:3b:00", 79)],
            id="as the kernel says it",
        ),
        pytest.param(
            "GPU error: Xid: 48 detected; Xid 63", [(None, 48), (None, 63)], id="without an address, two of them"
        ),
    ],
)
def test_gpu_errors_in_messages(message: str, expected: list[tuple[str | None, int]]) -> None:

    assert expected == parse_xids(message)
