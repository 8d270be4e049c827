"""NVML readings as dcgm-exporter's text, read back by our own collector."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpuwatch.collectors.dcgm.openmetrics import read_stream
from gpuwatch.collectors.nvml.gpm import MAX_SPAN_NS, MIN_SPAN_NS
from gpuwatch.collectors.nvml.mig import profile_of
from gpuwatch.collectors.nvml.node import NodeReader, jobs_of, open_library
from gpuwatch.collectors.nvml.nvlink import ALL_LINKS
from gpuwatch.collectors.nvml.page import page
from gpuwatch.collectors.nvml.processes import owner
from gpuwatch.core.errors import SourceUnreachable
from gpuwatch.core.model import Points, Records, Rejects
from tests.collectors.nvml.fake_library import ANY, GIB, MIB, Gpu, Nvml, Part, gpm

SECOND_NS = 1_000_000_000
AT_US = 1_790_000_000_000_000


class World:
    """A node and its reader; every round is ten seconds after the one before."""

    def __init__(
        self, *gpus: Gpu, tmp_path: Path | None = None, jobs: Path | None = None, driver: str = "590.48.01"
    ) -> None:
        self.nvml = Nvml(*gpus, driver=driver)
        self.ns = SECOND_NS
        nowhere = tmp_path or Path("/nonexistent")
        self.reader = NodeReader(self.nvml, "n1", jobs, nowhere / "proc", nowhere / "sys", lambda: self.ns)

    def round(self, after_ns: int = 10 * SECOND_NS) -> str:
        self.ns += after_ns
        return page(self.reader.read(), 1.5).decode()

    def rounds(self) -> str:
        self.round()
        return self.round()


def stored(text: str) -> dict[tuple[str, int], dict[str, float]]:
    """What our own collector makes of a page: columns of fields.py by GPU and instance."""
    rejects = Rejects()
    contexts: dict[int, tuple[str, int]] = {}
    found: dict[tuple[str, int], dict[str, float]] = {}
    for batch in read_stream(io.BytesIO(text.encode()), "page", "c1", AT_US, rejects):
        if isinstance(batch, Records) and batch.table == "context":
            contexts |= {row["context_id"]: (row["gpu"], row["gi"]) for row in batch.rows.to_pylist()}
        elif isinstance(batch, Points):
            series = {row["series"]: row for row in batch.series.to_pylist()}
            for row in batch.rows.to_pylist():
                entry = series[row["series"]]
                found.setdefault(contexts[entry["context_id"]], {})[entry["field"]] = row["value"]
    assert {} == {reason: n for reason, n in rejects.counts.items() if reason != "ignored: not a DCGM metric"}
    return found


def names(text: str) -> set[str]:
    return {line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")}


# What must not be there.


def test_a_gpu_that_supports_nothing_has_no_reading_and_no_zero() -> None:
    text = World(Gpu(0, silent=True, gpm=None), Gpu(1)).rounds()

    assert {("GPU-00000001", -1)} == set(stored(text))
    assert "GPU-00000000" not in re.sub("gpuwatch_gpu.*", "", text)


def test_ampere_has_no_profiling_fields() -> None:
    text = World(Gpu(0, "NVIDIA A100-SXM4-80GB", gpm=None, links=12)).rounds()

    assert set() == {name for name in names(text) if "_PROF_" in name}
    assert 0.97 == stored(text)["GPU-00000000", -1]["gpu_util_ratio"]


def test_a_card_without_nvlink_has_no_nvlink_fields() -> None:
    text = World(Gpu(0, "NVIDIA L4", gpm=None, mig=None), Gpu(1, "NVIDIA L4", gpm=None, mig=None)).rounds()

    assert set() == {name for name in names(text) if "NVLINK" in name}
    assert 'a="GPU0",b="GPU1",level="NODE"' in text


def test_profiling_values_need_two_samples_a_tenth_of_a_second_apart() -> None:
    world = World(Gpu(0))

    assert "PROF" not in world.round()
    assert "PROF" not in world.round(MIN_SPAN_NS - 1)
    assert "PROF" in world.round(1)
    assert "PROF" not in world.round(MAX_SPAN_NS + 1), "an average over so long says nothing"


def test_a_value_that_is_no_number_is_absent() -> None:
    text = World(Gpu(0, gpm=gpm(80.0, SM_UTIL=float("nan"), SM_OCCUPANCY=float("inf")))).rounds()

    assert "DCGM_FI_PROF_SM_ACTIVE" not in names(text)
    assert "DCGM_FI_PROF_SM_OCCUPANCY" not in names(text)
    assert 0.8 == stored(text)["GPU-00000000", -1]["gr_engine_ratio"]


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("nvmlDeviceGetHandleByIndex", id="before anything"),
        pytest.param("nvmlDeviceGetPowerUsage", id="between two fields"),
        pytest.param("nvmlGpmSampleGet", id="at profiling"),
        pytest.param("nvmlDeviceGetComputeRunningProcesses", id="at its processes"),
    ],
)
def test_a_gpu_that_falls_off_the_bus_takes_its_series_along_and_no_other(where: str) -> None:
    lost, kept = Gpu(0), Gpu(1)
    world = World(lost, kept)
    assert {("GPU-00000000", -1), ("GPU-00000001", -1)} == set(stored(world.rounds()))

    lost.lost_at = where
    text = world.round()

    assert {("GPU-00000001", -1)} == set(stored(text))
    assert 'gpuwatch_agent_gpus_unreadable{Hostname="n1"} 1\n' in text
    lost.lost, lost.lost_at = False, ""
    world.round()
    assert {("GPU-00000000", -1), ("GPU-00000001", -1)} == set(stored(world.round()))


# What is there.


def test_a_whole_h100_reads_back_in_our_units() -> None:
    fields = {
        (pynvml.NVML_FI_DEV_MEMORY_TEMP, 0): 55,
        (pynvml.NVML_FI_DEV_POWER_INSTANT, 0): 701_500,
        (pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL, 0): 2,
        (pynvml.NVML_FI_DEV_REMAPPED_UNC, 0): 1,
        (pynvml.NVML_FI_DEV_PERF_POLICY_POWER, 0): 5_000,
        (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, 0): 7,
        (pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0): 18,
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS): 4,
    }
    found = stored(World(Gpu(0, links=18, fields=fields)).rounds())

    assert {
        "gr_engine_ratio": 0.8,
        "sm_active_ratio": 0.8,
        "tensor_active_ratio": 0.8,
        "tensor_hmma_active_ratio": 0.8,
        "dram_active_ratio": 0.8,
        "fp32_active_ratio": 0.8,
        "pcie_tx_bytes_per_s": 10.0 * MIB,
        "pcie_rx_bytes_per_s": 20.0 * MIB,
        "nvlink_tx_bytes_per_s": 400.0 * MIB,
        "nvlink_rx_bytes_per_s": 300.0 * MIB,
        "gpu_util_ratio": 0.97,
        "mem_copy_util_ratio": 0.42,
        "fb_total_bytes": 80.0 * GIB,
        "fb_used_bytes": 10.0 * GIB,
        "fb_free_bytes": 70.0 * GIB - 512 * MIB,
        "fb_reserved_bytes": 512.0 * MIB,
        "sm_clock_mhz": 1980.0,
        "mem_clock_mhz": 2619.0,
        "sm_clock_max_mhz": 1980.0,
        "gpu_temp_celsius": 41.0,
        "memory_temp_celsius": 55.0,
        "power_watts": 690.25,
        "power_instant_watts": 701.5,
        "power_limit_requested_watts": 700.0,
        "power_limit_min_watts": 200.0,
        "power_limit_max_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "power_limit_watts": 650.0,
        "energy_mj": 123_456_789_012.0,
        "pstate": 0.0,
        "mig_mode": 0.0,
        "clocks_event_reasons": 4.0,
        "pcie_replay_count": 3.0,
        "pcie_gen": 5.0,
        "pcie_lanes": 16.0,
        "pcie_gen_max": 5.0,
        "pcie_lanes_max": 16.0,
        "ecc_dbe_aggregate_count": 2.0,
        "remapped_uncorrectable_rows": 1.0,
        "power_violation_ns": 5_000.0,
        "sw_power_cap_ns": 5_000.0,
        "hw_therm_slowdown_ns": 7.0,
        "nvlink_tx_bytes": 4.0 * 1024,
        "xid_code": 0.0,
    } == found["GPU-00000000", -1]


@pytest.mark.parametrize(
    ("driver", "first"),
    [
        pytest.param("570.211.01", None, id="before there were such counters"),
        pytest.param("575.51.02", 251, id="the first driver that has them"),
        pytest.param("580.76.05", 251, id="the last one with the first ids"),
        pytest.param("580.82.07", 269, id="the first one with the later ids"),
        pytest.param("610.43.02", 269, id="a later one"),
        pytest.param("", None, id="no version"),
        pytest.param("580", None, id="half a version"),
    ],
)
def test_slowdown_counters_are_read_where_the_driver_has_them(driver: str, first: int | None) -> None:
    fields = {(id, 0): float(id) for id in (*range(251, 257), *range(266, 272))}
    row = stored(World(Gpu(0, fields=fields), driver=driver).round())["GPU-00000000", -1]

    columns = ("sw_therm_slowdown_ns", "hw_therm_slowdown_ns", "hw_power_brake_slowdown_ns")
    expected = [None] * 3 if first is None else [first, first + 1, first + 2]
    assert expected == [row.get(column) for column in columns]


def test_a_pynvml_without_a_name_for_no_instance_reads_processes_and_xids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pynvml, "NVML_GPU_INSTANCE_ID_ANY")
    gpu = Gpu(0, processes=[(77, GIB, ANY)])
    world = World(gpu)
    watch = world.reader._xid
    watch._thread.start = lambda: None  # type: ignore[method-assign]

    assert 'pid="77"} 1073741824' in world.round()
    world.nvml.events = [(gpu, 79, ANY)]
    assert watch.wait(0)
    assert 79.0 == stored(world.round())["GPU-00000000", -1]["xid_code"]


def test_labels_are_those_of_dcgm_exporter() -> None:
    line = next(line for line in World(Gpu(0)).round().splitlines() if line.startswith("DCGM_FI_DEV_SM_CLOCK"))

    assert (
        'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-00000000",pci_bus_id="00000000:1B:00.0",device="nvidia0",'
        'modelName="NVIDIA H100 80GB HBM3",Hostname="n1",DCGM_FI_DRIVER_VERSION="590.48.01"} 1980'
    ) == line


def test_seven_slices_have_memory_and_profiling_of_their_own_and_the_rest_of_their_card() -> None:
    parts = [Part(gi, used=gi * GIB, gpm=gpm(10.0 * gi, rates=False)) for gi in range(1, 8)]
    text = World(Gpu(0, mig=parts, gpm=gpm(99.0))).rounds()
    found = stored(text)

    assert [("GPU-00000000", gi) for gi in range(1, 8)] == sorted(found)
    assert [float(gi * GIB) for gi in range(1, 8)] == [found["GPU-00000000", gi]["fb_used_bytes"] for gi in range(1, 8)]
    assert [gi / 10 for gi in range(1, 8)] == [found["GPU-00000000", gi]["dram_active_ratio"] for gi in range(1, 8)]
    assert {690.25} == {row["power_watts"] for row in found.values()}
    assert {20.0 * MIB} == {row["pcie_rx_bytes_per_s"] for row in found.values()}
    assert "gpu_util_ratio" not in found["GPU-00000000", 3]
    assert 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname=' in text


def test_a_slice_without_compute_instance_is_there_but_measures_nothing() -> None:
    text = World(Gpu(0, mig=[Part(1), Part(2, device=False)])).rounds()
    found = stored(text)

    assert [("GPU-00000000", 1), ("GPU-00000000", 2)] == sorted(found)
    assert [True, False] == ["sm_active_ratio" in found["GPU-00000000", gi] for gi in (1, 2)]
    assert [True, False] == ["fb_used_bytes" in found["GPU-00000000", gi] for gi in (1, 2)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("NVIDIA H100 80GB HBM3", None, id="a GPU"),
        pytest.param("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb", id="a slice"),
        pytest.param("MIG 1g.10gb+me", "1g.10gb+me", id="with media engines"),
        pytest.param("NVIDIA A100 MIG 1c.3g.20gb", "3g.20gb", id="a part of a slice is named after its slice"),
    ],
)
def test_profiles_are_read_out_of_names(name: str, expected: str | None) -> None:
    assert expected == profile_of(name)


def test_links_that_count_one_by_one_are_summed_and_only_when_all_answer() -> None:
    count = {(pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0): 3}
    by_name = {(pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, link): 100 + link for link in range(3)}
    some = {(pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, link): 100 for link in range(2)}
    row = stored(World(Gpu(0, links=3, fields=count | by_name | some)).round())["GPU-00000000", -1]

    assert 303.0 == row["nvlink_rx_bytes"]
    assert "nvlink_tx_bytes" not in row


def test_a_gpu_in_a_fabric_names_its_cluster_and_clique() -> None:
    def joined(gpu: Gpu, pointer: Any, state: int = 3) -> None:
        info = pointer._obj
        info.state, info.cliqueId, info.healthMask = state, 32766, 2
        info.clusterUuid[0] = 0xAB

    text = World(Gpu(0, calls={"nvmlDeviceGetGpuFabricInfoV": joined})).round()
    waiting = World(Gpu(0, calls={"nvmlDeviceGetGpuFabricInfoV": lambda gpu, p: joined(gpu, p, state=2)})).round()

    assert 32766.0 == stored(text)["GPU-00000000", -1]["fabric_clique_id"]
    assert 'cluster_uuid="ab000000-0000-0000-0000-000000000000",clique="32766"} 1' in text
    assert "FABRIC" not in waiting.upper(), "clique 0 is a clique: not before the GPU is in"


def test_the_last_xid_stays_and_is_of_its_slice() -> None:
    gpu = Gpu(0, mig=[Part(1), Part(2)])
    world = World(gpu, Gpu(1), Gpu(2, xid=False))
    watch = world.reader._xid
    watch._thread.start = lambda: None  # type: ignore[method-assign]
    codes = [row.get("xid_code") for _, row in sorted(stored(world.round()).items())]
    assert [0.0, 0.0, 0.0, None] == codes

    world.nvml.events = [(gpu, 13, 2), (world.nvml.gpus[1], 79, ANY), (world.nvml.gpus[1], 48, ANY)]
    while watch.wait(0):
        pass
    codes = [row.get("xid_code") for _, row in sorted(stored(world.round()).items())]
    again = [row.get("xid_code") for _, row in sorted(stored(world.round()).items())]

    assert [0.0, 13.0, 48.0, None] == codes == again


def test_a_fault_of_the_whole_card_is_of_every_slice() -> None:
    gpu = Gpu(0, mig=[Part(1), Part(2)])
    world = World(gpu)
    world.reader._xid._thread.start = lambda: None  # type: ignore[method-assign]
    world.round()
    world.nvml.events = [(gpu, 79, ANY)]
    assert world.reader._xid.wait(0)

    assert [79.0, 79.0] == [row["xid_code"] for row in stored(world.round()).values()]


def test_samples_are_given_back() -> None:
    world = World(Gpu(0, mig=[Part(1), Part(2)]), Gpu(1))
    for _ in range(5):
        world.round()
    assert 4 == len(world.nvml.samples), "one a GPU and slice"

    world.nvml.gpus[0].mig = [Part(2)]
    world.nvml.gpus[1].lost = True
    world.round()
    assert 2 == len(world.nvml.samples)

    world.reader.close()
    assert {} == world.nvml.samples
    assert 1 == world.nvml.shut


# Processes and jobs.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0::/init.scope\n", ("", "", ""), id="none"),
        pytest.param(
            "0::/kubepods.slice/kubepods-pod0a1b2c3d_0000_1111_2222_333344445555.slice/cri-containerd-"
            + "ab" * 32
            + ".scope\n",
            ("ab" * 32, "0a1b2c3d-0000-1111-2222-333344445555", ""),
            id="a pod under systemd",
        ),
        pytest.param("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", ("", "", "4711"), id="Slurm, v2"),
        pytest.param("4:memory:/slurm/uid_1000/job_12/step_batch\n", ("", "", "12"), id="Slurm, v1"),
    ],
)  # fmt: skip
def test_a_cgroup_names_the_owner(text: str, expected: tuple[str, str, str]) -> None:
    assert expected == owner(text)


def test_memory_of_processes_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text('py"thon\n')
    (tmp_path / "proc/77/cgroup").write_text("0::/slurm/uid_1/job_5/step_0\n")
    held = [(77, 3 * GIB, ANY), (78, None, ANY), (79, GIB, ANY)]
    lines = [
        line for line in World(Gpu(0, processes=held), tmp_path=tmp_path).round().splitlines() if "process_fb" in line
    ]

    assert 'pid="77",process="py\\"thon",job="5"} 3221225472' in lines[2]
    assert lines[3].endswith('pid="79"} 1073741824')
    assert 4 == len(lines), "one whose memory is not told is left out"


def test_job_files_are_read_as_dcgm_exporter_does(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("4711 ann\n4712\n\n")
    (tmp_path / "1.2").write_text("5\n")
    text = World(Gpu(0), Gpu(1, mig=[Part(1), Part(2)]), jobs=tmp_path).round()
    found = {
        (match["gpu"], match["gi"], match["job"])
        for line in text.splitlines()
        if line.startswith("DCGM_FI_DEV_SM_CLOCK")
        for match in [
            re.search(r'gpu="(?P<gpu>\d)".*?(?:GPU_I_ID="(?P<gi>\d)".*?)?(?:hpc_job="(?P<job>\d+)")?} ', line)
        ]
        if match
    }

    assert {("0", None, "4711"), ("0", None, "4712"), ("1", "1", None), ("1", "2", "5")} == found
    assert [] == jobs_of(tmp_path, "3")


# Starting.


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "libnvidia-ml.so.1", id="no driver"),
        pytest.param(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia", id="not loaded"),
        pytest.param(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot", id="updated under our feet"),
        pytest.param(pynvml.NVML_ERROR_NO_PERMISSION, "/dev/nvidiactl", id="no rights"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, "Unknown Error", id="anything else"),
    ],
)
def test_what_is_missing_is_shown(error: int, words: str) -> None:
    with pytest.raises(SourceUnreachable, match=words):
        open_library(Nvml(error=error))


def test_a_driver_without_gpus_is_no_node() -> None:
    nvml = Nvml()
    with pytest.raises(SourceUnreachable, match="sees no GPU"):
        open_library(nvml)

    assert 1 == nvml.shut
