"""Recordings of known loads: how they are labelled and written, and that the books read them right."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pynvml
import pytest

from bench import gpu_check, gpu_kernels, gpu_workloads
from bench.gpu_cuda import LOADS, pointers
from bench.gpu_workloads import EXPECTED, LABELS, METRICS, SETTLE_S, Ran, record, stamped, write
from gpuwatch.collectors.nvml.node import NodeReader
from gpuwatch.collectors.nvml.page import page
from tests.collectors.nvml.fake_library import Gpu, Nvml, gpm
from tests.commands.test_agent import has_driver

START_US = 1_790_000_000_000_000
MEASURED = {
    "gemm": (gpm(95.0), 690_000, 99),
    "copy": (gpm(90.0, ANY_TENSOR_UTIL=0.0, HMMA_TENSOR_UTIL=0.0, FP32_UTIL=0.0, DRAM_BW_UTIL=91.0), 450_000, 99),
    "chase": (gpm(0.0, GRAPHICS_UTIL=99.0, SM_UTIL=0.76), 140_000, 99),
    "spin": (gpm(0.0, GRAPHICS_UTIL=98.0, SM_UTIL=0.75), 135_000, 98),
    "parked": (gpm(0.0), 115_000, 0),
    "idle": (gpm(0.0), 75_000, 0),
    "loader": (gpm(0.0, GRAPHICS_UTIL=30.0, SM_UTIL=29.0, ANY_TENSOR_UTIL=27.0), 300_000, 31),
}
"""GPM values, milliwatts and GPU_UTIL of a card under each load."""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of a made-up card, four samples of a load."""
    nvml = Nvml(Gpu(0))
    gpu, clock, jobs = nvml.gpus[0], [START_US], tmp_path / "jobs"
    jobs.mkdir()
    reader = NodeReader(nvml, "node0", jobs, tmp_path, tmp_path, lambda: clock[0] * 1000)

    @contextmanager
    def run(load: str, seconds: float) -> Iterator[None]:
        assert 60 + 2 * SETTLE_S == seconds
        gpu.gpm, watts, busy = MEASURED[load]
        gpu.calls["nvmlDeviceGetPowerUsage"] = lambda _: watts
        nvml.nvmlDeviceGetUtilizationRates = lambda _: pynvml.c_nvmlUtilization_t(busy, 0)  # type: ignore[method-assign]
        yield

    def sleep(seconds: float) -> None:
        clock[0] += round(seconds * 1e6)

    listed = list(
        record(lambda: page(reader.read(), 0.0).decode(), run, list(EXPECTED), 60, jobs, lambda: clock[0], sleep)
    )
    write(tmp_path / "out", listed, {"gpu": "made up"})
    return tmp_path / "out"


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
def test_without_a_gpu_it_says_so_and_ends_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 3 == gpu_workloads.main(["--out", str(tmp_path / "out")])
    assert "no NVIDIA driver on this machine" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_recording_says_what_ran_when(recording: Path) -> None:
    labels = json.loads((recording / LABELS).read_text())
    lines = gzip.decompress((recording / METRICS).read_bytes()).decode().splitlines()

    assert {"gpu": "made up"} == labels["provenance"]
    assert list(EXPECTED) == [ran["load"] for ran in labels["ran"]]
    assert {60_000_000} == {ran["end_us"] - ran["start_us"] for ran in labels["ran"]}
    chase = labels["ran"][2]
    mine = [line for line in lines if 'hpc_job="chase"' in line and line.startswith("DCGM_FI_PROF_SM_ACTIVE{")]
    assert 60 == len(mine)
    assert all(chase["start_us"] < int(line.split()[-1]) * 1000 <= chase["end_us"] for line in mine)
    assert 60 == sum("hpc_job" not in line and line.startswith("DCGM_FI_PROF_SM_ACTIVE{") for line in lines), "idle"


def test_the_books_read_known_loads_right(recording: Path, tmp_path: Path) -> None:
    by_name = {v.load: v for v in gpu_check.verdicts(recording, tmp_path)}

    assert {
        "gemm": ("compute", False),
        "copy": ("memory_roof", False),
        "chase": ("stalled", True),
        "spin": ("stalled", True),
        "parked": ("hoarded", False),
        "idle": ("schedulable", False),
        "loader": ("gap", False),
    } == {load: (v.bucket, v.accused) for load, v in by_name.items()}
    assert all(v.right for v in by_name.values())


def test_a_check_of_something_else_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == gpu_check.main([str(tmp_path)])
    assert "not a recording" in capsys.readouterr().err


def test_only_samples_are_kept_and_cards_are_not_named() -> None:
    uuid = "GPU-d7cbb0cd-d4bd-c2f7-dfaf-221df5e958ea"
    text = f'# HELP x y\nDCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="{uuid}"}} 41\ngpuwatch_agent_gpus{{Hostname="n"}} 1\n'

    assert ['DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000000"} 41 5'] == stamped(text, 5)


def test_time_is_stretched_within_a_load_and_the_rest_is_left_out() -> None:
    ran = [vars(Ran("a", 1_000_000, 3_000_000, (), False, "")), vars(Ran("b", 9_000_000, 11_000_000, (), False, ""))]
    lines = gpu_check.stretched(["x 1000", "x 2000", "x 3000", "x 5000", "x 11000"], ran, 0)

    assert ["x 1799500", "x 3599000", "x 7199000"] == lines


def test_every_load_has_an_expectation() -> None:
    assert {*LOADS, "idle"} == set(EXPECTED)


def test_pointers_visit_every_place_once() -> None:
    following = (pointers(4096, 1 << 12) - np.uint64(4096)) // np.uint64(8)
    at, seen = 0, set()
    for _ in range(1 << 12):
        seen.add(at)
        at = int(following[at])

    assert (1 << 12, 0) == (len(seen), at)


def test_kernels_are_text_that_ends_with_a_zero() -> None:
    for module, names in ((gpu_kernels.basic(), ("spin", "chase", "copy")), (gpu_kernels.products(), ("products",))):
        assert module.endswith(b"}\n\0")
        assert [] == [name for name in names if f".visible .entry {name}(".encode() not in module]
    assert gpu_kernels.ACCUMULATORS == gpu_kernels.products().count(b"mma.sync")
