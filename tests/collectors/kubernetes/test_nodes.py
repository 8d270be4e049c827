"""Nodes as rows: devices under MIG and sharing, and states."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.kubernetes.nodes import node_row
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.rates.list_prices import list_prices
from gpuwatch.rates.matching import match_models

DATA = Path(__file__).parents[2] / "data" / "k8s"
SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))


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


def made(
    labels: dict[str, str] | None = None, conditions: list[dict[str, str]] | None = None, **parts: Any
) -> dict[str, Any]:
    """A node of eight GPUs that is ready."""
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-02T06:00:00Z"}]
    status = {"capacity": {"nvidia.com/gpu": "8"}, "conditions": ready + (conditions or [])} | parts.pop("status", {})
    row = node_row({"metadata": {"name": "n1", "labels": labels or {}}, "spec": parts, "status": status}, 5)
    assert row is not None
    return row


GKE = "cloud.google.com/gke-"
INSTANCE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("labels", "model", "devices", "sharing"),
    [
        pytest.param({}, None, {"": 8}, "none", id="nothing names it"),
        pytest.param({INSTANCE: "n2-standard-8"}, None, {"": 8}, "none", id="an instance without GPUs"),
        pytest.param({INSTANCE: "rke2-h100-gpu"}, None, {"": 8}, "none", id="a name of one's own that has a model in it"),
        pytest.param({INSTANCE: "BM.GPU.Z9.8"}, None, {"": 8}, "none", id="a shape that is not known"),
        pytest.param({f"{GKE}accelerator": "nvidia-x1"}, None, {"": 8}, "none", id="an accelerator that is not known"),
        pytest.param({INSTANCE: "p4d.24xlarge", "nvidia.com/gpu.product": "Tesla-T4"}, "Tesla-T4", {"": 8}, "none",
                     id="GPU feature discovery knows better"),
        pytest.param({f"{GKE}accelerator": "nvidia-tesla-a100", INSTANCE: "a2-highgpu-8g"}, "NVIDIA-A100-SXM4-40GB",
                     {"": 8}, "none", id="GKE's accelerator"),
        pytest.param({f"{GKE}accelerator": "nvidia-tesla-t4", INSTANCE: "n1-standard-8"}, "Tesla-T4", {"": 8}, "none",
                     id="GKE's accelerator beside a plain machine"),
        pytest.param({INSTANCE: "p5.48xlarge"}, "NVIDIA-H100-80GB-HBM3", {"": 8}, "none", id="EKS"),
        pytest.param({INSTANCE: "Standard_ND96asr_v4"}, "NVIDIA-A100-SXM4-40GB", {"": 8}, "none", id="AKS"),
        pytest.param({INSTANCE: "Standard_NC96ads_A100_v4"}, "NVIDIA-A100-80GB-PCIe", {"": 8}, "none", id="AKS on PCIe"),
        pytest.param({INSTANCE: "BM.GPU.H100.8"}, "NVIDIA-H100-80GB-HBM3", {"": 8}, "none", id="OKE"),
        pytest.param({INSTANCE: "BM.GPU.B4.8"}, "NVIDIA-A100-SXM4-40GB", {"": 8}, "none", id="a shape named by a code"),
        pytest.param({f"{GKE}accelerator": "nvidia-tesla-a100", f"{GKE}gpu-partition-size": "1g.5gb"},
                     "NVIDIA-A100-SXM4-40GB", {"1g.5gb": 8}, "none", id="GKE counts slices where it cuts GPUs"),
        pytest.param({f"{GKE}accelerator": "nvidia-l4", f"{GKE}gpu-sharing-strategy": "time-sharing",
                      f"{GKE}max-shared-clients-per-gpu": "4", f"{GKE}accelerator-count": "2"},
                     "NVIDIA-L4", {"": 2}, "time-slicing", id="GKE counts clients where they share"),
        pytest.param({f"{GKE}gpu-sharing-strategy": "mps", f"{GKE}max-shared-clients-per-gpu": "4"}, None, {"": 2}, "mps",
                     id="of an unknown model too"),
    ],
)  # fmt: skip
def test_a_cloud_names_the_model_where_gpu_feature_discovery_does_not(
    labels: dict[str, str], model: str | None, devices: dict[str, int], sharing: str
) -> None:
    row = made(labels)

    assert (model, devices, sharing) == (row["gpu_model"], json.loads(row["devices"]), row["sharing"])


def test_a_node_that_offers_no_gpu_has_none_by_its_instance_type() -> None:
    """A pool of such instances may run without the device plugin: its GPUs cannot be held."""
    assert None is node_row({"metadata": {"name": "n1", "labels": {INSTANCE: "g5.xlarge"}}, "status": {}}, 5)


@pytest.mark.parametrize(
    ("label", "price"),
    [
        pytest.param("p4d.24xlarge", "2.74470525", id="A100 40GB"),
        pytest.param("Standard_ND96amsr_A100_v4", "3.43088125", id="A100 80GB"),
        pytest.param("a3-highgpu-8g", "6.88", id="H100"),
    ],
)
def test_the_list_price_of_the_model_is_found(label: str, price: str) -> None:
    model = made({INSTANCE: label})["gpu_model"]
    (rate, *_) = match_models(list_prices(), [model])[model]

    assert Decimal(price) == rate.usd_per_gpu_hour


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param({}, ("up", None), id="nothing is wrong"),
        pytest.param({"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}, ("up", None), id="the usual taint of GPU nodes"),
        pytest.param({"conditions": [{"type": "GPUMissing", "status": "False"}]}, ("up", None), id="a fault that is not there"),
        pytest.param({"conditions": [{"type": "DiskPressure", "status": "True"}]}, ("up", None), id="a fault that is none of the GPUs"),
        pytest.param({"labels": {"nvidia.com/mig.config.state": "success"}}, ("up", None), id="MIG is as it should be"),
        pytest.param(
            {"conditions": [{"type": "GpuXidErrors", "status": "True", "reason": "Xid79"}]}, ("up", "GpuXidErrors: Xid79"),
            id="one GPU of eight may be lost: the node is up and says why it is not well",
        ),
        pytest.param(
            {"conditions": [{"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID63Error"}]},
            ("up", "AcceleratedHardwareReady: NvidiaXID63Error"), id="a condition that is well when true",
        ),
        pytest.param(
            {"taints": [{"key": "example.com/gpu-unhealthy", "effect": "NoExecute"}]}, ("up", "taint example.com/gpu-unhealthy"), id="a taint"
        ),
        pytest.param(
            {"status": {"allocatable": {"nvidia.com/gpu": "6"}}}, ("up", "2 of 8 nvidia.com/gpu not allocatable"), id="the device plugin holds two back"
        ),
        pytest.param(
            {"labels": {"nvidia.com/mig.config.state": "pending"}},
            ("drain", "MIG is being configured: nvidia.com/mig.config.state=pending"), id="MIG is being configured: no GPU can be used",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_node(parts: dict[str, Any], expected: tuple[str, str | None]) -> None:
    row = made(**parts)

    assert expected == (row["state"], row["reason"])


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("nvidia.com/gpu.clique", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"),
        ("fabric.topograph.run/tier-0", "leaf-3"),
        ("accelerator.topograph.run/domain", "nvl-1"),
        ("network.topology.nvidia.com/leaf", "leaf-3"),
        ("network.topology.nvidia.com/block", "b1"),
        ("topology.k8s.aws/network-node-layer-3", "nn-1"),
        ("cloud.google.com/gce-topology-subblock", "sb1"),
        ("oci.oraclecloud.com/host.network_block_id", "nb"),
        ("topology.kubernetes.io/region", "eu"),
        ("cloud.provider.com/topology-rack", "r1"),
        ("example.com/rack", "r1"),
        ("karpenter.sh/capacity-type", "spot"),
        ("kubernetes.io/hostname", "other-name"),
        ("acme.example/aisle", "a7"),
        ("hall", "north"),
    ],
)
def test_labels_that_place_a_node_are_kept(label: str, value: str) -> None:

    assert {label: value} == json.loads(made({label: value})["labels"])


@pytest.mark.parametrize(
    "label",
    [
        "kubernetes.io/os",
        "feature.node.kubernetes.io/cpu-cpuid.AVX2",
        "nvidia.com/gpu.deploy.dcgm",
        "nvidia.com/gfd.timestamp",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "acme.example/last-seen",
        "agent-heartbeat",
        "nvidia.com/mig-1g.10gb.engines.copy",
    ],
)
def test_labels_that_say_nothing_of_it_are_not(label: str) -> None:

    assert made({label: "x"})["labels"] is None


def test_a_host_name_that_is_the_nodes_name_is_shown_once() -> None:

    assert made({"kubernetes.io/hostname": "n1"})["labels"] is None


def test_labels_are_bounded() -> None:

    labels = {f"acme/x{n}": "1" for n in range(1000)} | {"nvidia.com/gpu.clique": "c"}
    kept = json.loads(made(labels)["labels"])

    assert (300, "c") == (len(kept), kept["nvidia.com/gpu.clique"]), "what is known to matter comes before the rest"


@pytest.mark.parametrize(
    ("name", "capacity", "expected", "strategy"),
    [
        pytest.param(
            "mig-mixed-node-labels.json",
            {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "2", "nvidia.com/mig-2g.20gb": "1", "nvidia.com/mig-3g.40gb": "1"},
            {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, "mixed", id="mixed: nvidia.com/gpu is 0 (trap 14)",
        ),
        pytest.param("mig-mixed-node-labels.json", {"cpu": "8"}, {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, "mixed", id="mixed, plugin silent: the labels count"),
        pytest.param("mig-node-labels.json", {"nvidia.com/gpu": "1"}, {"": 1}, "single", id="single, and nothing is cut"),
    ],
)  # fmt: skip
def test_captured_labels(name: str, capacity: dict[str, str], expected: dict[str, int], strategy: str) -> None:
    file = SHARED / "wire/kubernetes" / name
    if not file.is_file():
        pytest.skip(f"{file} is absent: set GPUWATCH_SHARED")
    row = made(json.loads(file.read_text()), status={"capacity": capacity})

    assert (expected, strategy, "NVIDIA-H100-80GB-HBM3") == (
        json.loads(row["devices"]),
        row["mig_strategy"],
        row["gpu_model"],
    )


@pytest.mark.parametrize(
    ("labels", "capacity", "expected"),
    [
        pytest.param(
            {"nvidia.com/gpu.product": "NVIDIA-A10-SHARED", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"},
            {"nvidia.com/gpu": "8"}, ({"": 2}, "time-slicing", 4), id="replicas under the plain name: two GPUs, not eight",
        ),
        pytest.param(
            {"nvidia.com/gpu.replicas": "10", "nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.count": "2"},
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "20"}, ({"": 2}, "mps", 10), id="MPS replicas under gpu.shared",
        ),
        pytest.param(
            {"nvidia.com/mig-1g.10gb.replicas": "2", "nvidia.com/mig-1g.10gb.count": "7"},
            {"nvidia.com/mig-1g.10gb.shared": "14"}, ({"1g.10gb": 7}, "none", None), id="slices that are shared",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb-SHARED", "nvidia.com/gpu.count": "7", "nvidia.com/gpu.replicas": "2"},
            {"nvidia.com/gpu": "14"}, ({"1g.5gb": 7}, "time-slicing", 2), id="single and shared",
        ),
        pytest.param(
            {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "2"},
            {"nvidia.com/gpu": "4", "nvidia.com/mig-3g.40gb": "2"}, ({"": 1, "3g.40gb": 2}, "time-slicing", 4),
            id="one of two GPUs is cut, and the count of the label has both",
        ),
    ],
)  # fmt: skip
def test_shared_devices_are_counted_once(
    labels: dict[str, str], capacity: dict[str, str], expected: tuple[dict[str, int], str, int | None]
) -> None:
    row = made(labels, status={"capacity": capacity})

    assert expected == (json.loads(row["devices"]), row["sharing"], row["replicas"])
