"""The numbered traps of real inputs, each as what the books make of it: time, owner and verdict, to the second."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.hardware.shares import share
from gpuwatch.imports.files import import_paths
from gpuwatch.quality import doctor
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import BUSY, HOUR, IDLE, SETTINGS, T0_US, Gpu, Sample, World, claim, minutes, node, pod, samples

MIXED_H100 = Gpu("GPU-m", gi=7, profile="1g.10gb")
DEFAULT_COUNTERS = {
    "gr_engine_ratio": 0.95,
    "gpu_util_ratio": 1.0,
    "tensor_active_ratio": 0.3,
    "dram_active_ratio": 0.2,
}
"""What dcgm-exporter gives as it is installed: SM activity is commented out."""


def findings(world: World, tmp_path: Path) -> list[str]:
    """The detectors that fire once the world is analysed."""
    world.seal()
    with State.open(tmp_path) as state:
        analyze(world.store, state, SETTINGS, now_us=T0_US + 7 * 24 * HOUR * 1_000_000)
    return sorted(row["detector"] for row in world.rows("finding"))


def owners(world: World) -> list[tuple[str, float, float, str, str]]:
    return [(gpu, start, end, who, part) for gpu, start, end, who, part in world.segments()]


def imported(folder: Path, *files: tuple[str, str, str]) -> Store:
    """A store of (kind, name, text) files."""
    store = Store.open(None, threads=1)
    with State.open(folder / "state") as state:
        for kind, name, text in files:
            path = folder / name
            path.write_text(text)
            import_paths(store, state, kind, [path], cluster="c1", now_us=T0_US + 24 * HOUR * 1_000_000)
    return store


def test_trap_01_without_sm_active_nothing_is_accused_and_the_counters_are_printed(tmp_path: Path) -> None:
    reading = samples(Gpu(), minutes(0, 2 * HOUR), DEFAULT_COUNTERS)
    world = World().add(node(devices={"": 1}), claim("1", 0, 2 * HOUR), reading)

    assert [] == findings(world, tmp_path)
    checks = {check.id: check for check in doctor.examine(world.store)}
    assert "DCGM_FI_PROF_SM_ACTIVE, gauge," in checks["counters"].fix
    assert {"unobserved", "gap"} == set(world.held())


def test_trap_02_old_and_new_spellings_are_one_gpu_and_one_owner(tmp_path: Path) -> None:
    def page(metric: str, at_s: int, **labels: str) -> str:
        text = ",".join(f'{k}="{v}"' for k, v in labels.items())
        return f"{metric}{{{text}}} 0.5 {T0_US // 1000 + at_s * 1000}\n"

    old = {
        "gpu": "0",
        "UUID": "GPU-a",
        "Hostname": "n1",
        "pod_name": "p",
        "pod_namespace": "lab",
        "container_name": "c",
    }
    new = {"gpu": "0", "UUID": "GPU-a", "hostname": "n1", "exported_pod": "p", "exported_namespace": "lab"}
    lines = [page("DCGM_FI_PROF_SM_ACTIVE", at, **old) for at in range(30, 1800, 60)]
    lines += [page("dcgm_fi_prof_sm_active", at, **new) for at in range(1830, 3600, 60)]
    store = imported(tmp_path, ("openmetrics", "a.prom", "".join(lines)))

    assert [("GPU-a", "n1", "lab", "p")] == store.sql("select distinct gpu, node, namespace, pod from context")
    assert [(60, 60)] == store.sql("select count(*), count(sm_active_ratio) from sample")


def test_trap_03_slices_are_distinguished_by_instance_where_the_profile_is_wrong() -> None:
    nvl = "NVIDIA H100 NVL"
    slices = [Gpu(gi=gi, profile="1g.11gb", model=nvl) for gi in (7, 8)]
    world = World().add(*(samples(s, minutes(0, HOUR)) for s in slices)).book()

    assert share(nvl, "1g.12gb") == share(nvl, "1g.11gb")
    assert {"1/7"} == {part for name, _, _, _, part in owners(world) if "/GI-" in name}
    assert 2 == len({name for name, *_ in owners(world) if "/GI-" in name})


def test_trap_04_more_than_a_whole_slice_is_no_reading_and_no_fault_of_the_job(tmp_path: Path) -> None:
    line = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-a",Hostname="n1",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"}} {} {}\n'
    values = (1.04, 1.3, 0.5)
    text = "".join(line.format(v, T0_US // 1000 + n * 30_000) for n, v in enumerate(values))
    store = imported(tmp_path, ("openmetrics", "a.prom", text))

    assert [(1.0,), (0.5,)] == store.sql(
        "select sm_active_ratio from sample where sm_active_ratio is not null order by observed_us"
    )
    assert 1 == store.sql("select sum(count) from reject where example like '%1.3%'")[0][0]


def test_trap_05_gpu_util_of_zero_on_a_slice_is_not_idleness(tmp_path: Path) -> None:
    line = 'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-a",Hostname="n1",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"}} 0 {}\n'
    text = "".join(line.format(T0_US // 1000 + at * 1000) for at in range(30, 7200, 60))
    store = imported(tmp_path, ("openmetrics", "a.prom", text))

    assert [(0,)] == store.sql("select count(gpu_util_ratio) from sample")


def test_trap_05_a_slice_without_profiling_is_never_hoarded(tmp_path: Path) -> None:
    silent = samples(MIXED_H100, minutes(0, 2 * HOUR), {"fb_used_bytes": 1 << 30}, namespace="lab", pod="p")
    world = World().add(node(devices={"1g.10gb": 7}), silent)

    assert "idle-hoarding" not in findings(world, tmp_path)
    assert {"unobserved"} == set(world.held())


def test_trap_06_the_card_s_power_on_every_slice_does_not_make_idle_slices_busy(tmp_path: Path) -> None:
    hot = IDLE | {"power_watts": 600.0, "pcie_tx_bytes_per_s": 1e9}
    slices = [Gpu("GPU-m", gi=gi, profile="1g.10gb") for gi in (7, 8)]
    busy = samples(slices[0], minutes(0, 2 * HOUR), BUSY | {"power_watts": 600.0}, namespace="lab", pod="busy")
    idle = samples(slices[1], minutes(0, 2 * HOUR), hot, namespace="lab", pod="idle")
    world = World().add(node(devices={"1g.10gb": 7}), busy, idle)

    fired = findings(world, tmp_path)

    assert {"hoarded": 2 * HOUR} == world.held(slices[1])
    assert ["idle-hoarding"] == fired


def test_trap_07_time_sliced_pods_share_the_gpu_s_second_and_never_add_to_it() -> None:
    pods = [samples(Gpu(), minutes(0, HOUR), namespace="lab", pod=name) for name in ("a", "b", "c")]
    world = World().add(node(devices={"": 1}, sharing="time-slicing", replicas=4), *pods).book()

    assert ["1/3"] * 3 == [part for *_, part in owners(world)]
    assert 3 * HOUR == sum(world.held().values())  # device seconds of three owners, each with a third of the GPU


def test_trap_08_use_by_process_alongside_profiling_by_device_makes_no_finding_of_its_own(tmp_path: Path) -> None:
    device = {"gr_engine_ratio": 0.9, "sm_active_ratio": 0.8, "tensor_active_ratio": 0.4, "dram_active_ratio": 0.3}
    a = samples(Gpu(), minutes(0, 2 * HOUR), device | {"gpu_util_ratio": 0.9}, namespace="lab", pod="a")
    b = samples(Gpu(), minutes(0, 2 * HOUR), device | {"gpu_util_ratio": 0.0}, namespace="lab", pod="b")
    world = World().add(node(devices={"": 1}, sharing="time-slicing", replicas=2), a, b)

    assert [] == findings(world, tmp_path)
    assert "hoarded" not in world.held()


@pytest.mark.parametrize(
    ("expected", "tres"),
    [
        pytest.param(4, "billing=4,gres/gpu:h100=4,gres/gpu=4,node=1", id="typed before untyped"),
        pytest.param(4, "billing=4,gres/gpu=4,gres/gpu:h100=4,node=1", id="untyped before typed"),
        pytest.param(4, "gres/gpu:h100=4,node=1", id="typed alone"),
        pytest.param(4, "gres/gpu=4,node=1", id="untyped alone"),
    ],
)
def test_trap_09_slurm_s_gpus_are_those_allocated_counted_once(tmp_path: Path, expected: int, tres: str) -> None:
    head = "JobID|JobIDRaw|User|Account|Partition|Start|End|State|NodeList|ReqTRES|AllocTRES|ElapsedRaw"
    row = f"7|7|ann|phys|gpu|2026-11-02T00:00:00|2026-11-02T01:00:00|COMPLETED|n1|gres/gpu=8|{tres}|3600"
    store = imported(tmp_path, ("sacct", "sacct.txt", f"{head}\n{row}\n"))

    assert [(expected,)] == store.sql("select sum(device_count)::int from claim")


def test_trap_10_a_job_label_that_is_no_job_number_takes_no_gpu_from_the_job_that_holds_it() -> None:
    world = (
        World()
        .add(
            node(devices={"": 1}),
            claim("77", 0, HOUR, device_indexes="0"),
            samples(Gpu(), minutes(0, HOUR), job="s6MXV4YMD86B00"),
        )
        .book()
    )

    assert [("GPU-a", 0, HOUR, "77", "1")] == owners(world)


def test_trap_11_several_jobs_on_one_gpu_share_it_and_the_row_counts_once() -> None:
    both = [samples(Gpu(), minutes(0, HOUR), job=job) for job in ("1", "2")]
    claims = [claim(job, 0, HOUR) for job in ("1", "2")]
    world = World().add(node(devices={"": 1}), *claims, *both).book()

    assert [("GPU-a", 0, HOUR, "1", "1/2"), ("GPU-a", 0, HOUR, "2", "1/2")] == owners(world)


def test_trap_12_a_blank_is_unobserved_and_not_a_busy_gpu(tmp_path: Path) -> None:
    line = 'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-a",Hostname="n1"}} {} {}\n'
    blanks = ("9223372036854775794", "140737488355328", "2147483632", "0.5")
    text = "".join(line.format(v, T0_US // 1000 + n * 30_000) for n, v in enumerate(blanks))
    store = imported(tmp_path, ("openmetrics", "a.prom", text))

    assert [(0.5,)] == store.sql("select sm_active_ratio from sample where sm_active_ratio is not null")


def test_trap_13_gpus_that_the_exporter_drops_while_free_stay_in_the_inventory() -> None:
    held = samples(Gpu("GPU-a"), minutes(0, HOUR), namespace="lab", pod="p")
    world = World().add(node(devices={"": 4}, scheduler="kubernetes"), pod("p", "u1", 0, HOUR), held).book()

    assert 4 == world.store.sql("select count(*) from device")[0][0]
    assert {"schedulable": 3 * HOUR * 1_000_000} == {k: v for k, v in world.buckets().items() if k == "schedulable"}


def test_trap_14_a_mixed_node_that_reports_no_gpus_has_its_slices(tmp_path: Path) -> None:
    resources = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "5", "nvidia.com/mig-2g.20gb": "1"}
    labels = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    item = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }
    store = imported(tmp_path, ("k8s-json", "nodes.json", json.dumps(item)))

    (devices,) = (json.loads(text) for (text,) in store.sql("select devices from node"))
    assert {"1g.10gb": 5, "2g.20gb": 1} == {profile: n for profile, n in devices.items() if n}


def test_trap_14_replicas_are_not_gpus(tmp_path: Path) -> None:
    resources = {"nvidia.com/gpu.shared": "8"}
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    item = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }
    store = imported(tmp_path, ("k8s-json", "nodes.json", json.dumps(item)))

    (row,) = store.sql("select devices, sharing, replicas from node")
    assert ({"": 2}, "time-slicing", 4) == (json.loads(row[0]), *row[1:])


def test_trap_15_pods_that_come_and_go_are_owners_of_one_gpu() -> None:
    pods = [samples(Gpu(), minutes(600 * n, 600 * n + 600), namespace="lab", pod=f"p-{n}") for n in range(6)]
    world = World().add(node(devices={"": 1}), *pods).book()

    assert 1 == world.store.sql("select count(*) from device")[0][0]
    assert 6 == len(owners(world))
    assert HOUR == sum(world.held().values())


def test_trap_16_a_scrape_without_labels_keeps_the_owner_before_it() -> None:
    def labelled(at: float) -> list[Sample]:
        named = {} if at == 30 + 600 else {"namespace": "lab", "pod": "p"}
        return samples(Gpu(), [at], **named)

    world = World().add(node(devices={"": 1}), *(labelled(at) for at in minutes(0, HOUR))).book()

    assert [("GPU-a", 0, HOUR, "lab/p", "1")] == owners(world)
