"""nvidia-smi topo -m into links."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.collectors.nvml.topo_matrix import node_name, read_topo
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects, Source

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
PAIR = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
ROWS = "GPU0\t X \tNV18\tPIX\t0-7\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t8-15\t1\t\tN/A\nNIC0\tPIX\tSYS\t X \n"
LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n\n"


def rows_of(path: Path) -> tuple[dict[tuple[str, str], str], dict[str, dict[str, str]], Rejects]:
    """Level by pair, detail by device, and what was refused."""
    rejects = Rejects()
    rows: list[dict[str, Any]] = []
    for batch in read_topo(Source(str(path), "c1", observed_us=77), rejects):
        assert isinstance(batch, Records)
        rows += batch.rows.to_pylist()
    assert {("c1", 77, node_name(str(path)))} == {(row["cluster"], row["observed_us"], row["node"]) for row in rows}
    levels = {(row["a"], row["b"]): row["level"] for row in rows if row["a"] != row["b"]}
    return levels, {row["a"]: json.loads(row["detail"]) for row in rows if row["level"] == "X"}, rejects


def read(tmp_path: Path, text: str) -> tuple[dict[tuple[str, str], str], dict[str, dict[str, str]], Rejects]:
    path = tmp_path / "n1.cluster.local.txt"
    path.write_text(text)
    return rows_of(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("GPU 0: NVIDIA H100 (UUID: GPU-1)\n", id="nvidia-smi -L"),
        pytest.param("Failed to initialize NVML\n", id="an error"),
        pytest.param("JobId=1 JobName=x\n", id="another tool"),
        pytest.param("\tGPU0\tGPU0\n", id="a device twice"),
    ],
)
def test_a_text_without_a_matrix_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInput, match=r"n1\.cluster\.local"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(PAIR, id="plain"),
        pytest.param("\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n", id="underlined"),
    ],
)
def test_pairs_affinities_and_real_names(tmp_path: Path, header: str) -> None:
    levels, details, rejects = read(tmp_path, header + ROWS + LEGEND)

    assert {("GPU0", "GPU1"): "NV18", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"} == levels
    assert {
        "GPU0": {"cpu_affinity": "0-7", "numa_affinity": "0"},
        "GPU1": {"cpu_affinity": "8-15", "numa_affinity": "1"},
        "NIC0": {"nic": "mlx5_0"},
    } == details
    assert 0 == rejects.total


def test_blanks_separate_as_well_as_tabs(tmp_path: Path) -> None:
    expected = read(tmp_path, PAIR + ROWS + LEGEND)[:2]

    assert expected == read(tmp_path, (PAIR + ROWS + LEGEND).replace("\t", "    "))[:2]


def test_an_empty_cell_between_tabs_stays_empty(tmp_path: Path) -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t\t0\nGPU1\tSYS\t X \t\t1\n"

    assert {"GPU0": {"numa_affinity": "0"}, "GPU1": {"numa_affinity": "1"}} == read(tmp_path, text)[1]


def test_a_single_gpu_has_no_links(tmp_path: Path) -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0\n"

    assert ({}, {"GPU0": {"cpu_affinity": "0-7", "numa_affinity": "0"}}) == read(tmp_path, text)[:2]


def test_the_old_word_for_the_socket_link_is_read(tmp_path: Path) -> None:
    assert {("GPU0", "GPU1"): "SYS"} == read(tmp_path, "  GPU0 GPU1\nGPU0 X SOC\nGPU1 SOC X\n")[0]


@pytest.mark.parametrize(
    ("rows", "levels", "reason"),
    [
        pytest.param(
            "GPU0 X NV4 PIX\nGPU1 NV8 X SYS\nNIC0 PIX SYS X\n",
            {("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "matrix is not symmetric",
            id="two directions that differ",
        ),
        pytest.param(
            "GPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "row is truncated or has an unknown level",
            id="a row that is cut",
        ),
        pytest.param(
            "GPU0 X NV4 FOO\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\n",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "row is truncated or has an unknown level",
            id="a level nobody knows",
        ),
        pytest.param(
            "GPU0 X NV4 PIX\n",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX"},
            "device in the header without a complete row",
            id="rows that are missing",
        ),
        pytest.param(
            "GPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\nGPU0 X NV8 SYS\n",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "duplicate row of a device",
            id="a row twice",
        ),
        pytest.param(
            "GPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\nGPU9 X NV8 SYS\n",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "row of a device that is not in the header",
            id="a stranger",
        ),
        pytest.param(
            "GPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\n     GPU0 GPU1\nGPU0 X SYS\n",
            {("GPU0", "GPU1"): "NV4", ("GPU0", "NIC0"): "PIX", ("GPU1", "NIC0"): "SYS"},
            "second matrix in one file",
            id="a second matrix",
        ),
    ],
)
def test_what_is_there_is_kept(tmp_path: Path, rows: str, levels: dict[tuple[str, str], str], reason: str) -> None:
    found, _, rejects = read(tmp_path, "     GPU0 GPU1 NIC0\n" + rows)

    assert levels == found
    assert reason in rejects.counts


@pytest.mark.parametrize(
    ("line", "at_us", "refused"),
    [
        pytest.param("# a comment", 77, 0, id="another comment says nothing"),
        pytest.param("# observed soon", 77, 1, id="a date that is none is refused"),
        pytest.param("# observed 1970-01-01T00:00:01Z", 1_000_000, 0, id="a date goes before that of the file"),
    ],
)
def test_a_matrix_may_say_when_it_was_printed(tmp_path: Path, line: str, at_us: int, refused: int) -> None:
    path = tmp_path / "n1.txt"
    path.write_text(f"{line}\n{PAIR}{ROWS}")
    rejects = Rejects()
    found = {
        row["observed_us"]
        for batch in read_topo(Source(str(path), "c1", observed_us=77), rejects)
        if isinstance(batch, Records)
        for row in batch.rows.to_pylist()
    }

    assert ({at_us}, refused) == (found, rejects.total)


def test_a_node_is_named_after_its_file() -> None:
    assert "n1.cluster.local" == node_name("/a/topo/n1.cluster.local.txt")
    assert "n1" == node_name("n1.txt.gz")


RECORDED: dict[str, tuple[int, list[str], dict[str, int]]] = {
    "a100_4x_leonardo_nv4_mesh": (4, ["NIC0", "NIC1", "NIC2", "NIC3"], {"NV4": 6, "PXB": 4, "SYS": 18}),
    "a100_8x_hgx_numa_inverted": (8, ["mlx5_0"], {"NV12": 28, "PXB": 2, "SYS": 6}),
    "a100_8x_p4d": (8, [], {"NV12": 28}),
    "h100_6x_slice_of_node_with_nics": (6, ["NIC0", "NIC1"], {"NV18": 15, "NODE": 6, "SYS": 6, "PIX": 1}),
    "h100_8x_hgx": (8, [], {"NV18": 28}),
    "pcie_4x_l_g6_12xlarge_node": (4, [], {"NODE": 6}),
    "pcie_5x_mixed_phb_node_sys": (5, [], {"SYS": 4, "PHB": 2, "NODE": 4}),
    "pcie_8x4090_dual_socket.tabs": (8, ["NIC0", "NIC1"], {"SYS": 42, "PHB": 2, "PIX": 1}),
    "b300_8x_cx8.partial": (
        8,
        [f"NIC{n}" for n in range(8)],
        {"NV18": 27, "PXB": 6, "NODE": 18, "SYS": 24},
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_matrices(name: str) -> None:
    path = SHARED / "wire/topology/topo_m" / f"{name}.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there: set GPUWATCH_SHARED")
    gpus, nics, counts = RECORDED[name]
    levels, details, rejects = rows_of(path)

    assert [*(f"GPU{n}" for n in range(gpus)), *nics] == list(details)
    assert counts == Counter(levels.values())
    assert (10 if "partial" in name else 0) == rejects.total


def test_recorded_affinities() -> None:
    folder = SHARED / "wire/topology/topo_m"
    if not folder.exists():
        pytest.skip(f"{folder} is not there: set GPUWATCH_SHARED")

    assert {"cpu_affinity": "112-127", "numa_affinity": "7"} == rows_of(folder / "a100_8x_hgx_numa_inverted.txt")[1][
        "GPU4"
    ]
    assert {"nic": "mlx5_0"} == rows_of(folder / "a100_8x_hgx_numa_inverted.txt")[1]["mlx5_0"]
    assert {"cpu_affinity": "0", "numa_affinity": "0-1"} == rows_of(folder / "a100_4x_leonardo_nv4_mesh.txt")[1]["GPU0"]
    assert {"cpu_affinity": "56-111,168-223", "numa_affinity": "1"} == rows_of(
        folder / "pcie_8x4090_dual_socket.tabs.txt"
    )[1]["GPU7"]
