"""Doctor: a check that could not be made is not judged, and its fix fits the scheduler."""

from __future__ import annotations

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.output.fix_hints import Advice
from gpuwatch.quality.check import NOT_JUDGED, OK, Check
from gpuwatch.quality.doctor import AFTER_ANALYSIS, examine, wrong
from gpuwatch.state import State
from gpuwatch.store.database import Store
from tests.worlds.world import BUSY, HOUR, IDLE, SETTINGS, T0_US, Gpu, World, claim, minutes, node, samples

NVLINK = {"nvlink_tx_bytes_per_s": 1e9, "nvlink_rx_bytes_per_s": 1e9}
PCIE = {"pcie_tx_bytes_per_s": 1e9, "pcie_rx_bytes_per_s": 1e9}
LINKS = NVLINK | PCIE
# Prices are not computed in these worlds.
NEEDS_SAMPLES = {"counters", "verdicts", "detectors", "clusters", "exporters", "labels", "unscheduled", "rates"}
NEEDS_HOLDS = {"owners", "placement", "local-times", "conflicts", "doubled", "inventory", "telemetry", "rates"}


def checks(world: World) -> dict[str, Check]:
    return {check.id: check for check in examine(world.store)}


def pair(readings: dict[str, float], job_gpus: int = 2) -> World:
    """A job on both GPUs of a node."""
    world = World().add(node(devices={"": 2}), claim("1", 0, HOUR, count=job_gpus))
    return world.add(*(samples(Gpu(f"GPU-{n}", index=n), minutes(0, HOUR), readings) for n in range(2))).book()


def test_without_any_sample_no_check_of_measurements_is_ok() -> None:
    """The scheduler's records alone: what they show is checked."""
    found = checks(World().add(node(devices={"": 2}), claim("1", 0, 2 * HOUR, count=2)).book())

    assert NEEDS_SAMPLES | {"telemetry"} == {name for name, check in found.items() if check.status == NOT_JUDGED}
    assert "fail" == found["unmeasured"].status
    assert (OK, OK) == (found["conflicts"].status, found["books"].status)


def test_without_any_job_no_check_of_jobs_is_ok() -> None:
    """Metrics alone."""
    found = checks(World().add(samples(Gpu(), minutes(0, HOUR))).book())

    held = {"counters", "verdicts", "unmeasured"}
    assert NEEDS_HOLDS | held == {name for name, check in found.items() if check.status == NOT_JUDGED}


def test_every_check_that_is_not_judged_has_a_fix_and_is_a_problem() -> None:
    """It is never counted as OK."""
    found = examine(World().add(samples(Gpu(), minutes(0, HOUR))).book().store)
    unjudged = [check for check in found if check.status == NOT_JUDGED]

    assert [] == [check.id for check in unjudged if not check.fix or not check.what.startswith("not judged: ")]
    assert wrong(unjudged)


def test_of_an_empty_store_nothing_is_ok() -> None:
    with Store.open(None, threads=1) as store:
        found = {check.id: check.status for check in examine(store)}

    assert {NOT_JUDGED} == {found[name] for name in AFTER_ANALYSIS}


def test_prices_that_were_never_computed_are_not_judged() -> None:
    found = checks(pair(BUSY | LINKS))

    assert NOT_JUDGED == found["rates"].status


@pytest.mark.parametrize(
    ("readings", "kinds"),
    [
        pytest.param(BUSY | LINKS, (), id="both are read"),
        pytest.param(BUSY | PCIE, ("NVLINK",), id="NVLink is missing"),
        pytest.param(BUSY | NVLINK, ("PCIE",), id="PCIe is missing"),
        pytest.param(BUSY, ("NVLINK", "PCIE"), id="both are missing"),
    ],
)
def test_missing_link_traffic_is_named_with_its_counters(readings: dict[str, float], kinds: tuple[str, ...]) -> None:
    """On a node where a job holds two H100 with NVLink."""
    found = checks(pair(readings))
    lines = [f"DCGM_FI_PROF_{kind}_{way}_BYTES" for kind in kinds for way in ("TX", "RX")]

    for name in ("counters", "verdicts"):
        assert ("warn" if kinds else OK) == found[name].status, found[name].what
    assert lines == [line.split(",")[0] for line in found["counters"].fix.splitlines()[1:]]
    assert ("Add the lines of the check counters, above." if kinds else "") == found["verdicts"].fix


def test_a_single_gpu_needs_no_link_traffic() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR), samples(Gpu(), minutes(0, HOUR), BUSY)).book()

    assert (OK, OK) == (checks(world)["counters"].status, checks(world)["verdicts"].status)


def test_jobs_whose_devices_are_estimated_are_named_as_not_evaluated() -> None:
    """Slurm history without device indexes: two jobs of one GPU each on a node of two, both GPUs idle."""
    world = World().add(node(devices={"": 2}), claim("1", 0, 3 * HOUR), claim("2", 0, 3 * HOUR))
    world.add(*(samples(Gpu(f"GPU-{n}", index=n), minutes(0, 3 * HOUR), IDLE | LINKS) for n in range(2)))
    analyze(world.store, State.open("sqlite://"), SETTINGS, now_us=T0_US + 4 * HOUR * 1_000_000)

    check = checks(world)["verdicts"]

    assert "idle-hoarding, false-utilization and others on 2 devices for 6.0 device-hours" in check.what
    assert "see the check placement" in check.fix


@pytest.mark.parametrize(
    ("scheduler", "labels", "words", "foreign"),
    [
        pytest.param("slurm", None, "scontrol show job -d", "kube", id="Slurm"),
        pytest.param("kubernetes", None, "DCGM_EXPORTER_KUBERNETES", "scontrol", id="Kubernetes"),
        pytest.param("ray", None, "Ray", "lurm", id="Ray"),
        pytest.param("kubernetes", '{"placement": "estimated"}', "trace", "scontrol", id="a trace without placements"),
    ],
)
def test_the_fix_of_an_estimated_placement_fits_the_scheduler(
    scheduler: str, labels: str | None, words: str, foreign: str
) -> None:
    one = claim("1", 0, HOUR, count=1, scheduler=scheduler, labels=labels)
    check = checks(World().add(node(devices={"": 2}, scheduler=scheduler), one).book())["placement"]

    assert "warn" == check.status
    assert words in check.fix
    assert foreign not in check.fix


def test_a_fix_never_asks_for_the_records_that_are_there() -> None:
    """scontrol named the GPU of the job that ran when it was asked: another dump cannot name those of the other job."""
    world = (
        World().add(node(devices={"": 2}), claim("1", 0, HOUR), claim("2", HOUR, 2 * HOUR, device_indexes="0")).book()
    )
    check = checks(world)["placement"]

    assert "the GPUs of 1 of 2 jobs" in check.fix
    assert "[[slurm]]" in check.fix
    assert "jobs.txt" not in check.fix


def test_mig_slices_are_not_called_gpus() -> None:
    """A node with two whole GPUs and three slices, none of them measured."""
    world = World().add(node(devices={"": 2, "1g.10gb": 3}), claim("1", 0, HOUR)).book()
    check = checks(world)["unmeasured"]

    assert (
        "2 GPUs and 3 MIG slices known to a scheduler and never measured: c1/n1 (2 GPUs and 3 MIG slices)" == check.what
    )


def test_a_node_that_lacks_a_counter_is_not_searched_for_a_broken_exporter() -> None:
    """Its exporter runs and leaves out SM_ACTIVE: one cause has one fix."""
    world = pair({"gr_engine_ratio": 0.9} | LINKS)
    found = checks(world)

    assert "fail" == found["counters"].status
    assert ("warn", "Add the lines of the check counters, above.") == (
        found["telemetry"].status,
        found["telemetry"].fix,
    )


def test_slurm_jobs_known_by_number_only_need_sacct_and_no_rule() -> None:
    """As dcgm-exporter labels them: no rule could name their user."""
    world = World().add(node(devices={"": 1}), claim("17", 0, HOUR))
    analyze(world.store, State.open("sqlite://"), SETTINGS, now_us=T0_US + 2 * HOUR * 1_000_000)
    (check,) = [one for one in examine(world.store, advice=Advice(data="d")) if one.id == "owners"]

    assert "-S 2026-11-02 " in check.fix
    assert "import sacct sacct.txt --cluster c1 --data d" in check.fix
    assert "NAME" not in check.fix


def test_teams_that_accounts_name_need_nothing() -> None:
    world = World().add(node(devices={"": 1}), claim("1", 0, HOUR, account="vision"))
    analyze(world.store, State.open("sqlite://"), SETTINGS, now_us=T0_US + 2 * HOUR * 1_000_000)
    check = checks(world)["owners"]

    assert OK == check.status
    assert check.fix.startswith("Nothing needs to be done.")


def test_the_fix_for_an_unknown_node_names_the_scheduler_of_its_cluster() -> None:
    """Kubernetes reports one node; another is measured only."""
    world = World().add(node("n1", {"": 1}, scheduler="kubernetes"), samples(Gpu("GPU-b", "n2"), minutes(0, HOUR)))
    (check,) = [one for one in examine(world.book().store, advice=Advice()) if one.id == "unscheduled"]

    assert "kubectl get nodes" in check.fix
    assert "scontrol" not in check.fix
