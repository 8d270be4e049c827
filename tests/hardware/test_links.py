"""Levels and their speeds, what a matrix says of a node, and what an exchange costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.collectors.nvml.topo_matrix import read_topo
from gpuwatch.core.model import Records, Rejects, Source
from gpuwatch.hardware import links as hardware_links
from gpuwatch.hardware.links import PAIR_LEVELS, Member, NodeLinks, link_gb_per_s, network_gb_per_s, node_links, rank

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[3] / "shared"))
H100, A100, V100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB"
MODELS = (H100, A100, V100, "NVIDIA B200", "NVIDIA H200", "NVIDIA L4", "Tesla T4", "NVIDIA GeForce RTX 4090")


def rows(text: str) -> list[tuple[str, str, str, dict[str, object]]]:
    """Links of "GPU0 GPU1 NV4" a line, and of "GPU0 numa 1"."""
    found: list[tuple[str, str, str, dict[str, object]]] = []
    for line in text.strip().splitlines():
        a, b, level = line.split()
        found.append((a, a, "X", {"numa_affinity": level}) if b == "numa" else (a, b, level, {}))
    return found


def groups(links: NodeLinks, kind: str) -> dict[str, list[str]]:
    """Devices of each container of a kind."""
    found: dict[str, list[str]] = {}
    for member in links.members:
        if member.parent_kind == kind:
            found.setdefault(member.parent, []).append(member.device)
    return found


@pytest.mark.parametrize(
    ("model", "level"),
    [
        pytest.param("Acme 9000", "PIX", id="a model that nobody knows"),
        pytest.param(None, "NV18", id="no model at all"),
        pytest.param("NVIDIA L4", "NV2", id="a model without NVLink"),
        pytest.param("NVIDIA GB200", "PIX", id="a GPU that has no PCIe to its peers"),
        pytest.param(H100, "X", id="a GPU with itself"),
        pytest.param(H100, "NV", id="NVLink without a count"),
    ],
)
def test_what_is_not_known_has_no_speed(model: str | None, level: str) -> None:
    assert link_gb_per_s(model, level) is None


@pytest.mark.parametrize(
    ("model", "level", "speed"),
    [
        pytest.param(V100, "NV6", 120.0, id="V100: 6 x 20.0"),
        pytest.param(A100, "NV12", 240.0, id="A100: 12 x 20.0"),
        pytest.param(A100, "NV4", 80.0, id="A100 in a mesh of four: 4 x 20.0"),
        pytest.param(H100, "NV18", 370.8, id="H100: 18 x 20.6"),
        pytest.param("NVIDIA H200", "NV18", 370.8, id="H200 as H100"),
        pytest.param("NVIDIA B200", "NV18", 721.8, id="B200: 18 x 40.1"),
        pytest.param("NVIDIA GB200", "NV18", 721.8, id="GB200 as B200"),
        pytest.param(V100, "PIX", 12.0, id="PCIe 3"),
        pytest.param(A100, "PIX", 24.0, id="PCIe 4"),
        pytest.param(H100, "PIX", 48.0, id="PCIe 5"),
        pytest.param(H100, "SYS", 22.0, id="Sapphire Rapids between the sockets"),
        pytest.param(A100, "SYS", 16.0, id="AMD between the sockets"),
    ],
)
def test_speeds_of_the_table(model: str, level: str, speed: float) -> None:
    assert pytest.approx(speed) == link_gb_per_s(model, level)


@pytest.mark.parametrize("model", MODELS)
def test_a_longer_way_is_never_faster(model: str) -> None:
    speeds = [link_gb_per_s(model, level) for level in ("PIX", "PXB", "PHB", "NODE", "SYS")]

    assert speeds == sorted(speeds, key=lambda v: -(v or 0))
    assert None not in speeds


def test_levels_are_ranked_as_the_legend_has_them() -> None:
    assert sorted(range(len(PAIR_LEVELS))) == [rank(level) for level in PAIR_LEVELS]
    assert rank("NV1") == rank("NV18") == rank("nvlink_domain") < rank("PIX")
    assert rank("SYS") < rank("leaf") < rank("spine") < rank("core") < rank("tier-3") < rank("zone") < rank("region")
    with pytest.raises(ValueError, match="FOO"):
        rank("FOO")


@pytest.mark.parametrize(
    ("model", "gpus", "nics", "speed"),
    [
        pytest.param("NVIDIA L4", 8, 8, None, id="no reference design"),
        pytest.param(H100, 8, 0, None, id="no network card"),
        pytest.param(H100, None, None, 50.0, id="unknown cards: the reference port a GPU"),
        pytest.param(H100, 8, 8, 50.0, id="NDR 400, one a GPU"),
        pytest.param(H100, 8, 10, 50.0, id="storage cards add nothing"),
        pytest.param(H100, 8, 4, 25.0, id="one card for two GPUs"),
        pytest.param(A100, 8, 8, 25.0, id="HDR 200"),
    ],
)
def test_the_way_into_the_network(model: str, gpus: int | None, nics: int | None, speed: float | None) -> None:
    assert speed == network_gb_per_s(model, gpus, nics)


def test_only_some_models_have_nvlink_between_nodes() -> None:
    assert [None, None, pytest.approx(721.8), pytest.approx(370.8)] == [
        hardware_links.domain_gb_per_s(model) for model in (H100, "NVIDIA B200", "NVIDIA GB200", "NVIDIA GH200 480GB")
    ]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        pytest.param("GPU0 GPU1 SYS", "nvlink", {}, id="no links, no island"),
        pytest.param("GPU0 GPU1 SYS", "pcie", {}, id="far apart: no switch in common"),
        pytest.param("GPU0 GPU1 PHB", "pcie", {}, id="a host bridge is no switch"),
        pytest.param("GPU0 numa 0\nGPU1 numa N/A", "nvlink", {}, id="no pairs"),
        pytest.param("NIC0 NIC1 NV4", "nvlink", {}, id="cards are in no NVLink island"),
        pytest.param("GPU0 GPU1 NV4\nGPU2 GPU3 NV4\nGPU0 GPU2 SYS", "nvlink",
                     {"nvlink-0": ["GPU0", "GPU1"], "nvlink-2": ["GPU2", "GPU3"]}, id="two bridges are two islands"),
        pytest.param("GPU0 GPU1 NV4\nGPU1 GPU2 NV4\nGPU0 GPU2 SYS", "nvlink",
                     {"nvlink-0": ["GPU0", "GPU1", "GPU2"]}, id="a partial mesh is one island"),
        pytest.param("GPU0 NIC0 PXB\nGPU1 NIC0 PXB\nGPU0 GPU1 NV12", "pcie",
                     {"pcie-0": ["GPU0", "GPU1", "NIC0"]}, id="a card shows the switch that NVLink hides"),
        pytest.param("GPU0 GPU1 PIX\nGPU1 GPU2 PXB\nGPU2 GPU3 NODE", "pcie",
                     {"pcie-0": ["GPU0", "GPU1", "GPU2"]}, id="PIX and PXB join, NODE does not"),
        pytest.param("GPU10 GPU2 PIX", "pcie", {"pcie-2": ["GPU2", "GPU10"]}, id="named after its first GPU"),
        pytest.param("NIC0 NIC1 PIX\nGPU0 NIC0 SYS\nGPU0 NIC1 SYS", "pcie",
                     {"pcie-NIC0": ["NIC0", "NIC1"]}, id="two ports of one card"),
    ],
)  # fmt: skip
def test_containers_of_a_matrix(text: str, kind: str, expected: dict[str, list[str]]) -> None:
    assert expected == groups(node_links(rows(text)), kind)


def test_a_level_inside_a_container_is_the_slowest_of_it() -> None:
    links = node_links(rows("GPU0 GPU1 NV4\nGPU1 GPU2 NV2\nGPU0 GPU2 NV4\nGPU0 NIC0 PIX\nGPU1 NIC0 PXB"))

    assert {"NV2"} == {member.level for member in links.members if member.parent_kind == "nvlink"}
    assert {"PXB"} == {member.level for member in links.members if member.parent_kind == "pcie"}


def test_of_a_pair_reported_twice_the_farther_counts() -> None:
    assert (("GPU0", "GPU1", "SYS"),) == node_links(rows("GPU0 GPU1 NV4\nGPU1 GPU0 SYS")).pairs
    assert (("GPU0", "GPU1", "NV2"),) == node_links(rows("GPU0 GPU1 NV4\nGPU1 GPU0 NV2")).pairs


def test_numa_is_what_was_printed() -> None:
    members = node_links(rows("GPU0 numa 0-1\nGPU1 numa 0-1\nGPU0 GPU1 NV4")).members

    assert Member("GPU0", "numa", "numa-0-1", "NODE") in members


ALL = [(f"GPU{a}", f"GPU{b}", "NV18", {}) for a in range(4) for b in range(a + 1, 4)] + rows(
    "GPU0 numa 0\nGPU1 numa 0\nGPU2 numa 1\nGPU3 numa 1\nGPU0 NIC0 PXB\nGPU1 NIC0 PXB\nGPU2 NIC0 SYS\nGPU3 NIC0 SYS"
)


@given(st.permutations(ALL), st.lists(st.booleans(), min_size=len(ALL), max_size=len(ALL)))
def test_the_order_of_rows_and_of_their_devices_does_not_matter(
    shuffled: list[tuple[str, str, str, dict[str, object]]], turned: list[bool]
) -> None:
    turned_rows = [(b, a, level, d) if turn else (a, b, level, d) for turn, (a, b, level, d) in zip(turned, shuffled, strict=True)]  # fmt: skip

    assert node_links(ALL) == node_links(turned_rows)


RECORDED: dict[str, dict[str, Any]] = {
    "a100_4x_leonardo_nv4_mesh": {
        "nvlink": {"nvlink-0": 4}, "pcie": {f"pcie-{n}": 2 for n in range(4)}, "numa": {"numa-0-1": 4}},
    "a100_8x_hgx_numa_inverted": {
        "nvlink": {"nvlink-0": 8}, "pcie": {"pcie-2": 3}, "numa": {f"numa-{n}": 2 for n in (1, 3, 5, 7)}},
    "a100_8x_p4d": {"nvlink": {"nvlink-0": 8}, "pcie": {}, "numa": {"numa-0": 4, "numa-1": 4}},
    "h100_6x_slice_of_node_with_nics": {
        "nvlink": {"nvlink-0": 6}, "pcie": {"pcie-NIC0": 2}, "numa": {"numa-0": 3, "numa-1": 3}},
    "h100_8x_hgx": {"nvlink": {"nvlink-0": 8}, "pcie": {}, "numa": {"numa-0": 4, "numa-1": 4}},
    "pcie_4x_l_g6_12xlarge_node": {"nvlink": {}, "pcie": {}, "numa": {"numa-0": 4}},
    "pcie_5x_mixed_phb_node_sys": {"nvlink": {}, "pcie": {}, "numa": {"numa-0": 4, "numa-1": 1}},
    "pcie_8x4090_dual_socket.tabs": {
        "nvlink": {}, "pcie": {"pcie-NIC0": 2}, "numa": {"numa-0": 4, "numa-1": 4}},
    "b300_8x_cx8.partial": {
        "nvlink": {"nvlink-0": 8}, "pcie": {f"pcie-{n}": 2 for n in range(6)}, "numa": {"numa-0": 4, "numa-1": 2}},
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_matrices(name: str) -> None:
    path = SHARED / "wire/topology/topo_m" / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    import json

    found: list[tuple[str, str, str, dict[str, object]]] = []
    for batch in read_topo(Source(str(path), "c1"), Rejects()):
        assert isinstance(batch, Records)
        found += [(r["a"], r["b"], r["level"], json.loads(r["detail"])) for r in batch.rows.to_pylist()]
    links = node_links(found)

    assert RECORDED[name] == {
        kind: {name: len(devices) for name, devices in groups(links, kind).items()} for kind in RECORDED[name]
    }


def test_every_recorded_matrix_is_in_the_list() -> None:
    folder = SHARED / "wire/topology/topo_m"
    if not folder.exists():
        pytest.skip(f"{folder} is not there: set GPUWATCH_SHARED")

    assert sorted(RECORDED) == sorted(path.name.removesuffix(".txt") for path in folder.glob("*.txt"))


@pytest.mark.parametrize(("exposed", "loss"), [(0.0, 0.0), (0.02, 0.108), (0.05, 0.23), (0.10, 0.38), (0.30, 0.64)])
def test_loss_of_a_step(exposed: float, loss: float) -> None:
    assert pytest.approx(loss, abs=0.005) == hardware_links.throughput_loss(exposed, 900 / 128)
