"""Nodes as rows: devices under MIG and sharing, and states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.clock import parse_rfc3339
from gpuwatch.collectors.kubernetes_nodes import node_row

DATA = Path(__file__).parents[1] / "data" / "k8s"


def row_of(name: str) -> dict[str, Any] | None:
    nodes = json.loads((DATA / "nodes.json").read_text())["items"]
    return node_row(next(n for n in nodes if n["metadata"]["name"] == name), observed_us=5)


def test_a_node_without_gpus_gives_no_row() -> None:

    assert row_of("cpu") is None


@pytest.mark.parametrize(
    ("name", "model", "devices", "sharing", "replicas"),
    [
        pytest.param("n1", "NVIDIA-H100-80GB-HBM3", {"": 8}, "none", None, id="whole GPUs"),
        pytest.param(
            "mig-mixed",
            "NVIDIA-H100-80GB-HBM3",
            {"1g.10gb": 2, "1g.10gb+me": 1, "3g.40gb": 1},
            "none",
            None,
            id="mixed strategy: nvidia.com/gpu is 0 and the slices count",
        ),
        pytest.param("mig-single", "A100-SXM4-40GB", {"1g.5gb": 7}, "none", None, id="single strategy: slices of one profile"),
        pytest.param("sliced", "Tesla-T4", {"": 4}, "time-slicing", 4, id="16 replicas are 4 GPUs"),
        pytest.param("renamed", "Tesla-T4", {"": 4}, "time-slicing", 4, id="gpu.shared replicas are 4 GPUs"),
        pytest.param("mps", "Tesla-T4", {"": 2}, "mps", 10, id="without a count label the replicas divide"),
        pytest.param("plugin-down", "NVIDIA-H100-80GB-HBM3", {"": 8}, "none", None, id="a silent device plugin loses no GPU"),
    ],
)  # fmt: skip
def test_devices(name: str, model: str, devices: dict[str, int], sharing: str, replicas: int | None) -> None:
    row = row_of(name)

    assert row is not None
    assert (model, devices, sharing, replicas) == (
        row["gpu_model"],
        json.loads(row["devices"]),
        row["sharing"],
        row["replicas"],
    )


@pytest.mark.parametrize(
    ("name", "state", "since", "reason"),
    [
        pytest.param("n1", "up", "06:00:00", None, id="ready"),
        pytest.param("n2", "drain", "07:30:00", "cordoned", id="cordoned since its taint"),
        pytest.param("n3", "down", "07:00:00", "NodeStatusUnknown", id="not ready outranks cordoned"),
    ],
)
def test_state(name: str, state: str, since: str, reason: str | None) -> None:
    row = row_of(name)

    assert row is not None
    assert (state, parse_rfc3339(f"2026-11-02T{since}Z"), reason) == (row["state"], row["since_us"], row["reason"])


def test_pool_time_and_the_labels_that_matter() -> None:
    row = row_of("n1")

    assert row is not None
    assert ("a", parse_rfc3339("2026-11-02T12:00:00Z")) == (row["pool"], row["observed_us"])
    assert ["nodepool", "nvidia.com/gpu.count", "nvidia.com/gpu.product", "topology.kubernetes.io/zone"] == list(
        json.loads(row["labels"])
    )


def test_a_node_without_conditions_has_no_known_state() -> None:
    row = node_row({"metadata": {"name": "x"}, "status": {"capacity": {"nvidia.com/gpu": 2}}}, observed_us=5)

    assert row is not None
    assert (None, 5) == (row["state"], row["observed_us"])
