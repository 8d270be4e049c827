"""The simulator's truth: it closes, nothing overlaps, and the readings deserve the labels."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gpuwatch.simulate import Truth, simulate
from gpuwatch.simulate.fleet import A100, H100, LAYOUTS, Device, build_fleet, mig_shares
from gpuwatch.simulate.loads import Stretch, course, hoarded_intervals
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.owners import TEAM_LABEL, team_of
from gpuwatch.simulate.runs import Owner, Run
from gpuwatch.simulate.scenarios import FALSE_UTILIZATION, IDLE_HOARDING
from gpuwatch.simulate.tables import price, rates
from gpuwatch.simulate.telemetry import RATIO_SCALE, WATT_SCALE, Readings, node_readings
from gpuwatch.simulate.truth import Amount, decimal_text

STEP_S = 60
SIZES = [(8, 0.5, 1), (16, 1.0, 2), (32, 2.0, 1), (64, 2.0, 5)]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size[0]} GPUs for {size[1]} days, seed {size[2]}")
def truth(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """One world a size."""
    gpus, days, seed = request.param
    out: Path = tmp_path_factory.mktemp("world")
    return simulate(out, gpus, days, seed, STEP_S)


def test_held_and_platform_are_the_capacity_exactly(truth: Truth) -> None:
    gpus = sum(node.gpu_count for node in truth.fleet.nodes)

    assert gpus * truth.epoch.window_s == truth.capacity.gpu_seconds
    for group in truth.held.values():
        held = sum(group.values(), Amount())
        assert truth.capacity == held + truth.platform
    assert truth.platform == sum(truth.platform_by_model.values(), Amount())
    assert Fraction(0) <= truth.mig_remainder.gpu_seconds <= truth.platform.gpu_seconds
    assert truth.held["team"]["sandbox"].gpu_seconds > 0


def test_no_two_runs_hold_a_device_at_once(truth: Truth) -> None:
    taken: dict[str, list[tuple[int, int]]] = {}
    for run in truth.runs:
        for device in run.devices:
            taken.setdefault(device.id, []).append(run.held(truth.epoch.window_s))

    for intervals in taken.values():
        ordered = sorted(intervals)
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))
        assert 0 <= ordered[0][0] and ordered[-1][1] <= truth.epoch.window_s


def test_some_gpus_are_free_some_jobs_run_past_the_end_and_some_wait(truth: Truth) -> None:
    share = float(truth.held_total.gpu_seconds / truth.capacity.gpu_seconds)

    assert 0.4 < share < 0.95
    assert any(run.end_s is None and run.start_s is not None for run in truth.runs)
    assert all(run.submit_s <= (run.start_s or run.submit_s) for run in truth.runs)


def test_unseen_devices_have_records_that_span_the_window(truth: Truth) -> None:
    unseen = [device for device in truth.fleet.devices() if not device.exported]
    reported = {name for case in truth.planted if case.detector == "blind-spot" for name in case.devices}

    assert {device.id for device in unseen} == reported
    for device in unseen:
        held = [run.held(truth.epoch.window_s) for run in truth.runs if device in run.devices]
        assert (0, truth.epoch.window_s) == (min(held)[0], max(held)[1])


def test_large_worlds_have_every_detector_and_decoys_of_each(truth: Truth) -> None:
    if sum(node.gpu_count for node in truth.fleet.nodes) < 32:
        assert {"blind-spot", FALSE_UTILIZATION, IDLE_HOARDING} == {case.detector for case in truth.planted}
        return
    shapes = {(case.detector, case.shape) for case in truth.planted}

    assert {"blind-spot": 3, FALSE_UTILIZATION: 4, IDLE_HOARDING: 6} == {
        detector: min(len([s for d, s in shapes if d == detector]), {FALSE_UTILIZATION: 4}.get(detector, 9))
        for detector in ("blind-spot", FALSE_UTILIZATION, IDLE_HOARDING)
    }
    assert {FALSE_UTILIZATION, IDLE_HOARDING} == {case.detector for case in truth.decoys}
    assert len({case.shape for case in truth.decoys}) >= 12
    assert any(case.run_end is None for case in truth.planted if case.detector == IDLE_HOARDING)


def test_readings_deserve_their_labels(truth: Truth) -> None:
    """An oracle of its own: idle for 15 minutes only where that was planted, and busy without SMs only there."""
    planted = {(case.job_id, device): case.detector for case in truth.planted for device in case.devices}
    excused = {"braked", "exchange", "decode-narrow", "latency", "lite-suspect"}
    steps = truth.epoch.window_s // STEP_S
    hoarders, fakes = set(), set()
    for number, node in enumerate(truth.fleet.nodes):
        runs = [run for run in truth.runs if node.name in run.nodes]
        for reading in node_readings(node, runs, steps, STEP_S, (truth.seed, 3, number)):
            for holding in reading.holdings:
                if holding.run is None:
                    continue
                subject = (holding.run.job_id, reading.device.id)
                if longest_idle_s(reading, holding.first, holding.last) >= 900:
                    hoarders.add(subject)
                if has_false_half_hour(reading, holding.first, holding.last) and not lives_on(holding.run, excused):
                    fakes.add(subject)

    assert {key for key, detector in planted.items() if detector == IDLE_HOARDING} == hoarders
    assert {key for key, detector in planted.items() if detector == FALSE_UTILIZATION} == fakes


def lives_on(run: Run, loads: set[str]) -> bool:
    """Whether a level of the run excuses a low SM_ACTIVE."""
    return any(stretch.level in loads for stretch in run.courses[0])


def longest_idle_s(reading: Readings, first: int, last: int) -> int:
    """Longest run of observed idle samples in seconds (domain.md section 3.2, D2)."""
    ratio = {name: reading.codes[name][first:last] / RATIO_SCALE for name in ("engine", "sm", "tensor", "dram")}
    idle = (ratio["engine"] < 0.02) & (ratio["sm"] < 0.01) & (ratio["tensor"] < 0.005) & (ratio["dram"] < 0.01)
    if not reading.device.profile:
        watts = reading.codes["power"] / WATT_SCALE
        model = reading.device.model
        idle &= watts[first:last] < np.quantile(watts, 0.01) + max(25.0, 0.08 * model.tdp_w)
    idle &= reading.exported[first:last]
    edges = np.diff(np.concatenate(([0], idle.astype(int), [0])))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    return int(lengths.max(initial=0)) * STEP_S


def has_false_half_hour(reading: Readings, first: int, last: int) -> bool:
    """Whether some 30 minutes after warm-up are busy with less than half of the SMs active (D1)."""
    first += 600 // STEP_S
    window = 1800 // STEP_S
    false = (reading.codes["engine"] >= 0.8 * RATIO_SCALE) & (reading.codes["sm"] < 0.5 * RATIO_SCALE)
    counts = np.convolve(false[first:last], np.ones(window), "valid") if last - first >= window else np.zeros(1)
    return bool((counts >= 0.75 * window).any())


@pytest.mark.parametrize(
    ("owner", "team"),
    [
        pytest.param(Owner(), "__unallocated__", id="nobody said anything"),
        pytest.param(Owner("heidi", "scratch"), "scratch", id="an account and user without a rule"),
        pytest.param(Owner(namespace="sandbox"), "sandbox", id="a namespace without a rule"),
        pytest.param(Owner("frank", "shared"), "robotics", id="the user decides where the account does not"),
        pytest.param(Owner("frank", "nlp"), "nlp", id="the account goes before the user"),
        pytest.param(
            Owner(namespace="ml-train", queue="vision-lq"), "vision", id="the queue goes before the namespace"
        ),
        pytest.param(
            Owner(namespace="ml-train", queue="vision-lq", labels=((TEAM_LABEL, "search"),)),
            "search",
            id="the explicit label goes before everything",
        ),
    ],
)
def test_team(owner: Owner, team: str) -> None:
    assert team == team_of(owner)


def test_mig_shares_never_exceed_a_gpu() -> None:
    assert [Fraction(8, 15), Fraction(7, 15)] == mig_shares(("4g.40gb", "3g.40gb"))
    assert [Fraction(2, 7), Fraction(1, 2)] == mig_shares(("2g.20gb", "3g.40gb"))
    assert all(sum(mig_shares(layout)) <= 1 for layout in LAYOUTS)


def test_a_price_change_cuts_a_job_to_the_second() -> None:
    epoch = Epoch(0, 100_000)
    card = rates(epoch)
    change = 43_017

    assert Fraction("2.49") == price(card, H100, 0, 3600)
    assert Fraction("2.49") * 10 / 3600 + Fraction("2.85") * 20 / 3600 == price(card, H100, change - 10, change + 20)
    assert Fraction("1.29") == price(card, A100, 0, 3600)
    assert "0.006917" == decimal_text(price(card, H100, 0, 10))


def test_instances_of_a_gpu_share_its_board_readings() -> None:
    node = next(node for node in build_fleet(16, 1).nodes if node.is_mig)
    readings = node_readings(node, [], 10, STEP_S, (1,))
    by_gpu: dict[str, list[Readings]] = {}
    for reading in readings:
        by_gpu.setdefault(reading.device.gpu, []).append(reading)

    for group in by_gpu.values():
        assert all(np.array_equal(group[0].codes["power"], other.codes["power"]) for other in group)


def test_hoarded_runs_join_where_they_touch() -> None:
    stretches = [Stretch(0, 5, "a", True), Stretch(5, 7, "b", True), Stretch(7, 9, "c"), Stretch(9, 12, "a", True)]

    assert [(0, 7), (9, 12)] == hoarded_intervals(stretches)
    assert [] == hoarded_intervals(course("train", 9000, np.random.default_rng(1)))


def test_a_device_is_named_as_the_contract_names_it() -> None:
    gpu = Device("n", 0, "GPU-a", H100, -1, "", Fraction(1), True)
    part = Device("n", 0, "GPU-a", H100, 9, "1g.10gb", Fraction(1, 7), True)

    assert ["GPU-a", "GPU-a/GI-9"] == [gpu.id, part.id]
