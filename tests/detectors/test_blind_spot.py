"""Devices that somebody holds and nobody measures: what is measured enough, then what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuwatch.detectors.blind_spot import BLIND_SPOT
from tests.worlds.detectors import (
    HOLLOW,
    IDLE,
    PAGE_HEADINGS,
    T0,
    WORK,
    Found,
    World,
    page_headings,
    page_rows,
    printed_thresholds,
    without,
)

RULE = "blind-spot"
POWER = {"power_watts": 200.0, "fb_used_bytes": 4e10}
FULL = {"gpu_util_ratio": 1.0, "power_watts": 600}

Scene = Callable[[World, str], object]
"""Plays one case into a world under a name of its own: its job, its node, and the start of its GPUs' names."""


def on_nodes(world: World, name: str, count: int) -> World:
    """A node that the scheduler knows and no exporter runs on."""
    return world.node(f"node-{name}", 0, {"": count})


MUST_NOT_FIRE: dict[str, Scene] = {
    "a free GPU that nobody ever measured": lambda w, n: on_nodes(w, n, 8),
    "50 minutes without a sample": lambda w, n: on_nodes(w, n, 1).job(n, 1, 60, 110, node=f"node-{n}"),
    "a working GPU": lambda w, n: w.gpu(n, (180, WORK)).job(n, [n], 0, 180),
    "an idle GPU": lambda w, n: w.gpu(n, (180, IDLE)).job(n, [n], 0, 180),
    "a hollow GPU": lambda w, n: w.gpu(n, (180, HOLLOW)).job(n, [n], 0, 180),
    "a silence of 50 minutes in a measured job": lambda w, n: w.gpu(n, (65, WORK), (50, None), (65, WORK)).job(
        n, [n], 0, 180
    ),
    "one scrape in every five minutes": lambda w, n: w.gpu(n, (180, WORK), step_s=300).job(n, [n], 0, 180),
    "GPU_UTIL 100 % and nothing else": lambda w, n: w.gpu(n, (180, FULL)).job(n, [n], 0, 180),
    "an engine at 100 % without SM_ACTIVE": lambda w, n: w.gpu(
        n, (180, without(WORK, "sm_active_ratio", gr_engine_ratio=1.0))
    ).job(n, [n], 0, 180),
    "an exempt label": lambda w, n: on_nodes(w, n, 1).job(
        n, 1, 0, 180, node=f"node-{n}", labels={"gpuwatch.io/exempt-until": "2026-12-31"}
    ),
    "two jobs of 40 minutes with two hours between": lambda w, n: (
        on_nodes(w, n, 1).job(f"{n}a", 1, 0, 40, node=f"node-{n}").job(f"{n}b", 1, 160, 200, node=f"node-{n}")
    ),
}

MUST_FIRE: dict[str, Scene] = {
    "one hour across two": lambda w, n: on_nodes(w, n, 1).job(n, 1, 30, 90, node=f"node-{n}"),
    "never": lambda w, n: on_nodes(w, n, 8).job(n, 2, 20, 220, node=f"node-{n}"),
    "one of two": lambda w, n: (
        w.gpu(n, (240, WORK), node=f"node-{n}").node(f"node-{n}", 0, {"": 2}).job(n, 2, 20, 220, node=f"node-{n}")
    ),
    "silent": lambda w, n: w.gpu(n, (60, WORK), (182, None), (58, WORK)).job(n, [n], 0, 300),
    "an hour of silence": lambda w, n: w.gpu(n, (65, WORK), (61, None), (65, WORK)).job(n, [n], 0, 190),
    "power alone": lambda w, n: w.gpu(n, (200, POWER)).job(n, [n], 0, 200),
    "a slice without profiling": lambda w, n: w.gpu(
        n, (180, {"power_watts": 100.0}), gi=1, profile="1g.10gb", job=n
    ).job(n, 1, 0, 180, profile="1g.10gb"),
    "requeued": lambda w, n: (
        on_nodes(w, n, 1)
        .job(n, 1, 0, 90, node=f"node-{n}", run_key=f"{n}@0", state="REQUEUED")
        .job(n, 1, 100, 190, node=f"node-{n}", run_key=f"{n}@100")
    ),
    "61 minutes later": lambda w, n: (
        on_nodes(w, n, 1)
        .job(n, 1, 0, 90, node=f"node-{n}", run_key=f"{n}@0")
        .job(n, 1, 151, 241, node=f"node-{n}", run_key=f"{n}@151")
    ),
    "two days": lambda w, n: on_nodes(w, n, 1).job(n, 1, 0, 2 * 1440, node=f"node-{n}"),
}


def name_of(case: str) -> str:
    """The job of a case: short, and no other's beginning."""
    return f"{[*MUST_NOT_FIRE, *MUST_FIRE].index(case):03d}"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Every case beside every other, judged once."""
    world = World(tmp_path_factory.mktemp("fleet"))
    for case, scene in (MUST_NOT_FIRE | MUST_FIRE).items():
        scene(world, name_of(case))
    world.analyze(detectors=[RULE])
    yield world
    world.store.close()


def found(world: World, case: str) -> list[Found]:
    """Findings of a case, whatever its jobs are called."""
    return [f for f in world.findings(RULE) if f.job.startswith(name_of(case))]


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """What was measured is not blind, however little it says."""
    assert [] == found(fleet, case)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(
            "one hour across two", [(30, 90, 1, 1, 1)], id="an hour without a sample, across two of the clock"
        ),
        pytest.param("never", [(20, 220, 2, 2, 2)], id="both devices of the job, not all of the node"),
        pytest.param("one of two", [(20, 220, 1, 2, 1)], id="the one of two that the exporter leaves out"),
        pytest.param("silent", [(60, 241, 1, 1, 0)], id="three hours of silence in a measured job"),
        pytest.param("an hour of silence", [(65, 125, 1, 1, 0)], id="an hour of silence, whatever the clock says"),
        pytest.param("power alone", [(0, 200, 1, 1, 0)], id="power and memory say nothing about work"),
        pytest.param(
            "a slice without profiling", [(0, 180, 1, 1, 0)], id="the board's power says nothing about a slice"
        ),
        pytest.param("requeued", [(0, 190, 1, 1, 1)], id="a requeued run continues the finding"),
        pytest.param("61 minutes later", [(0, 90, 1, 1, 1), (151, 241, 1, 1, 1)], id="after 61 minutes it is another"),
        pytest.param("two days", [(0, 2880, 1, 1, 1)], id="two days are one finding, not one an hour"),
    ],
)
def test_it_finds_what_nobody_measures(
    fleet: World, case: str, expected: list[tuple[float, float, int, int, int]]
) -> None:
    """Start and end in minutes; blind devices, devices of the job, and those never measured at all."""
    seen = [
        (f.started, f.ended, f.evidence["blind_devices"], f.evidence["devices"], f.evidence["never_measured"])
        for f in found(fleet, case)
    ]

    assert expected == seen


def test_it_claims_no_money(fleet: World) -> None:
    """The time is charged to its team; what was done with it nobody knows."""
    assert {0} == {f.wasted_s for f in fleet.findings(RULE)}
    assert {("unobserved", 1.0)} == {(f.bucket, f.confidence) for f in fleet.findings(RULE)}


@pytest.mark.parametrize(("case", "severity"), [("never", "low"), ("two days", "medium")])
def test_more_than_a_day_is_worse(fleet: World, case: str, severity: str) -> None:
    """low -> medium above 24 h."""
    (finding,) = found(fleet, case)

    assert BLIND_SPOT.severity is not None
    assert severity == BLIND_SPOT.severity(finding.evidence, 0.0)


def test_the_remedy_tells_a_missing_exporter_from_a_silent_one(fleet: World) -> None:
    """One was never there, the other stopped."""
    (never,), (silent,) = found(fleet, "never"), found(fleet, "silent")

    assert "2 of 2 devices held and not measured for 6.7 device-hours." == BLIND_SPOT.summary(never.evidence)
    assert BLIND_SPOT.remedy(never.evidence).startswith("Run dcgm-exporter on the node")
    assert BLIND_SPOT.remedy(silent.evidence).startswith("Check that dcgm-exporter runs")


# What happens to a finding over time -------------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An empty fleet."""
    made = World(tmp_path)
    yield made
    made.store.close()


def test_it_is_open_until_the_exporter_is_back(world: World) -> None:
    """The same finding with the same key."""
    world.gpu("G0", (59, WORK)).gpu("other", (240, WORK))
    world.job("7", ["G0"], 0, None, heard=240).analyze(now=240, detectors=[RULE])
    (first,) = world.findings(RULE)
    world.gpu("G0", (180, WORK), start=242).job("7", ["G0"], 0, None, heard=420).analyze(now=420, detectors=[RULE])
    (second,) = world.findings(RULE)

    # A device's last sample reaches half a step outward, one before a silence does not.
    assert ("open", 59.5, None, 240) == (first.state, first.started, first.ended, first.last_seen)
    assert ("resolved", 59, 241) == (second.state, second.started, second.ended)
    assert (first.key, first.opened_us) == (second.key, second.opened_us)


def test_backfilled_samples_withdraw_it(world: World) -> None:
    """It was measured after all: the samples came late."""
    world.gpu("other", (240, WORK)).job("7", ["G0"], 0, 200).node("n1", 0, {"": 4})
    world.gpu("G0", (1, WORK), start=230).analyze(now=240, detectors=[RULE])
    before = world.findings(RULE)
    world.gpu("G0", (229, WORK)).analyze(now=300, detectors=[RULE])

    assert ["resolved"] == [f.state for f in before]
    assert [("resolved", "records changed")] == [(f.state, f.reason) for f in world.findings(RULE)]


def test_analysing_again_keeps_everything(world: World) -> None:
    """Also when the whole window is computed anew."""
    on_nodes(world, "x", 2).job("7", 2, 0, 200, node="node-x").analyze(now=200, detectors=[RULE])
    before = world.rows("finding")
    world.analyze(now=500, since_us=T0, detectors=[RULE])

    assert 1 == len(before)
    assert before == world.rows("finding")


# Words ---------------------------------------------------------------------------------------------------------------


def test_the_page_is_true(checkout: Path) -> None:
    """Every threshold and default of the module stands on the page, and nothing else."""
    page = checkout / "docs/detectors/blind-spot.md"

    assert printed_thresholds(BLIND_SPOT) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
