"""Links of a node from NVML and /sys, and their way into the store: the rows that nvidia-smi's matrix gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.dcgm import link_metrics
from gpuwatch.collectors.dcgm.link_metrics import Links
from gpuwatch.collectors.nvml.node import NodeReader
from gpuwatch.collectors.nvml.page import page
from gpuwatch.collectors.nvml.topo_matrix import read_topo
from gpuwatch.collectors.nvml.topology import cpu_list, pci_level
from gpuwatch.core.clock import HOUR_US
from gpuwatch.core.model import Records, Rejects, Source
from tests.collectors.nvml.fake_library import Gpu, Nvml

AT_US = 1_790_000_000_000_000
ROOT = ["pci0000:80", "0000:80:01.0"]
MATRIX = """\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\tSYS\t0-7\t0\tN/A
GPU1\tNV18\t X \tPXB\tSYS\t0-7\t0\tN/A
NIC0\tPIX\tPXB\t X \tSYS
NIC1\tSYS\tSYS\tSYS\t X

NIC Legend:

  NIC0: mlx5_2
  NIC1: mlx5_10
"""


def rows_of(batches: list[Records]) -> list[dict[str, Any]]:
    assert all(batch.table == "link" for batch in batches)
    return [row for batch in batches for row in batch.rows.to_pylist()]


def machine(root: Path) -> Path:
    """/sys of a node: both GPUs and one card below one root port, the other card on the other socket."""
    sys = root / "sys"
    places = {
        "0000:1b:00.0": ("devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:1b:00.0", 0),
        "0000:83:00.0": ("devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:83:00.0", 0),
        "0000:1c:00.0": ("devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:02.0/0000:84:00.0/0000:85:00.0/0000:1c:00.0", 0),
        "0000:c1:00.0": ("devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0", 1),
    }  # fmt: skip
    (sys / "bus/pci/devices").mkdir(parents=True)
    for address, (place, numa) in places.items():
        (sys / place).mkdir(parents=True)
        (sys / place / "numa_node").write_text(f"{numa}\n")
        (sys / "bus/pci/devices" / address).symlink_to(sys / place)
    for name, address in (("mlx5_10", "0000:c1:00.0"), ("mlx5_2", "0000:83:00.0")):
        (sys / "class/infiniband" / name).mkdir(parents=True)
        (sys / "class/infiniband" / name / "device").symlink_to(sys / "bus/pci/devices" / address)
    return sys


def topology_page(tmp_path: Path, *gpus: Gpu) -> bytes:
    sys = tmp_path / "sys"
    reader = NodeReader(
        Nvml(*gpus), "n1", None, tmp_path / "proc", sys if sys.exists() else machine(tmp_path), lambda: 1
    )
    return page(reader.read(), 1.0)


@pytest.mark.parametrize(
    ("a", "b", "numa", "expected"),
    [
        pytest.param([], ["pci0000:80", "a"], (0, 0), None, id="unknown place"),
        pytest.param(["pci0000:80", "a"], ["pci0000:c0", "b"], (0, None), None, id="unknown NUMA node"),
        pytest.param([*ROOT, "u", "d1", "a"], [*ROOT, "u", "d2", "b"], (0, 0), "PIX", id="one switch"),
        pytest.param([*ROOT, "a.0"], [*ROOT, "a.1"], (0, 0), "PIX", id="two functions of one card"),
        pytest.param([*ROOT, "u", "d1", "a"], [*ROOT, "u", "d2", "v", "d3", "b"], (0, 0), "PXB", id="two switches"),
        pytest.param([*ROOT, "a"], ["pci0000:80", "0000:80:03.0", "b"], (0, 0), "PHB", id="the host bridge"),
        pytest.param([*ROOT, "a"], ["pci0000:c0", "b"], (1, 1), "NODE", id="bridges of one socket"),
        pytest.param([*ROOT, "a"], ["pci0000:c0", "b"], (0, 1), "SYS", id="two sockets"),
    ],
)
def test_how_far_two_devices_are_apart(
    a: list[str], b: list[str], numa: tuple[int | None, int | None], expected: str | None
) -> None:
    assert expected == pci_level(a, b, *numa)
    assert expected == pci_level(b, a, *reversed(numa))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([0, 0], "", id="none"),
        pytest.param([1], "0", id="one"),
        pytest.param([(1 << 52) - 1, ((1 << 52) - 1) << 40], "0-51,104-127", id="two runs"),
        pytest.param([1 << 63, 1], "63-64", id="across words"),
    ],
)
def test_cpu_masks_are_lists(words: list[int], expected: str) -> None:
    assert expected == cpu_list([word & (1 << 64) - 1 for word in words])


def test_both_sources_tell_the_same_rows_and_the_agent_who_the_gpus_are(tmp_path: Path) -> None:
    (tmp_path / "n1.txt").write_text(MATRIX)
    rejects = Rejects()
    batches = read_topo(Source(str(tmp_path / "n1.txt"), "c1", observed_us=AT_US), rejects)
    expected = rows_of([batch for batch in batches if isinstance(batch, Records)])

    found = rows_of(Links().records(topology_page(tmp_path, Gpu(0, links=18), Gpu(1, links=18)), "c1", AT_US))

    assert {} == rejects.counts
    details = [json.loads(row["detail"]) for row in found]
    assert [Gpu(0).uuid, Gpu(1).uuid] == [detail.pop("uuid") for detail in details if "uuid" in detail]
    assert expected == [
        row | {"detail": json.dumps(detail, sort_keys=True, separators=(",", ":"))}
        for row, detail in zip(found, details, strict=True)
    ]


def test_without_nvlink_gpus_are_as_far_apart_as_the_driver_says(tmp_path: Path) -> None:
    rows = rows_of(Links().records(topology_page(tmp_path, Gpu(0), Gpu(1)), "c1", AT_US))

    assert ["NODE"] == [row["level"] for row in rows if (row["a"], row["b"]) == ("GPU0", "GPU1")]


def test_links_are_news_once_and_again_after_an_hour_or_a_change(tmp_path: Path) -> None:
    links = Links()
    whole, half = (
        topology_page(tmp_path, Gpu(0, links=18), Gpu(1, links=18)),
        topology_page(tmp_path, Gpu(0, links=9), Gpu(1, links=18)),
    )

    assert [10, 0, 10, 0, 0, 10] == [
        len(rows_of(links.records(text, "c1", AT_US + after_us)))
        for text, after_us in ((whole, 0), (whole, 1), (half, 2), (half, 3), (half, HOUR_US + 1), (half, HOUR_US + 2))
    ]
    assert 10 == len(rows_of(links.records(half, "c2", AT_US))), "another cluster is another node"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("", id="nothing"),
        pytest.param('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 1', id="other metrics"),
        pytest.param('gpuwatch_gpu_link_info{node="n1",a="GPU0",b="GPU1",level="NV18"} 0', id="a link that is not"),
        pytest.param('gpuwatch_gpu_link_info{node="n1",a="GPU0",b="GPU1",level="FAST"} 1', id="an unknown level"),
        pytest.param('gpuwatch_gpu_link_info{a="GPU0",b="GPU1",level="PIX"} 1', id="no node"),
        pytest.param('gpuwatch_gpu_link_info{node="n1",a="GPU0;drop",b="GPU1",level="PIX"} 1', id="no device"),
        pytest.param('gpuwatch_gpu_link_info{node="n1",a="GPU0",b="GPU', id="torn"),
        pytest.param("gpuwatch_gpu_numa_info{", id="torn early"),
    ],
)
def test_what_is_no_link_gives_no_row(line: str) -> None:
    assert [] == Links().records(f"{line}\n".encode(), "c1", AT_US)


def test_memory_of_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_metrics, "MAX_NODES", 2)
    links = Links()
    for node in ("n1", "n2", "n3"):
        links.records(f'gpuwatch_gpu_numa_info{{node="{node}",a="GPU0"}} 1\n'.encode(), "c1", AT_US)

    assert 2 == len(links._last)
