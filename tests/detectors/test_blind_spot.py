"""Devices that somebody holds and nobody measures: what is measured enough, then what is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.detectors.blind_spot import BLIND_SPOT
from tests.worlds.cases import Cases, Scene
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
    us,
    without,
)

RULE = "blind-spot"
POWER = {"power_watts": 200.0, "fb_used_bytes": 4e10}
FULL = {"gpu_util_ratio": 1.0, "power_watts": 600}


def on_nodes(world: World, name: str, count: int) -> World:
    """A node that the scheduler knows and no exporter runs on."""
    return world.node(f"node-{name}", 0, {"": count})


def measured_later(world: World, name: str) -> World:
    """A GPU whose first sample comes after two days."""
    return world.gpu(name, (1, WORK), start=3000, node=f"node-{name}")


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
    "silent": lambda w, n: w.gpu(n, (60, WORK), (182, None), (58, WORK)).job(n, [n], 0, 300),
    "an hour of silence": lambda w, n: w.gpu(n, (65, WORK), (61, None), (65, WORK)).job(n, [n], 0, 190),
    "power alone": lambda w, n: w.gpu(n, (200, POWER)).job(n, [n], 0, 200),
    "a slice without profiling": lambda w, n: w.gpu(
        n, (180, {"power_watts": 100.0}), gi=1, profile="1g.10gb", job=n
    ).job(n, 1, 0, 180, profile="1g.10gb"),
    "one of two": lambda w, n: w.gpu(f"{n}a", (240, WORK)).gpu(f"{n}b", (10, WORK)).job(n, [f"{n}a", f"{n}b"], 20, 220),
    "requeued": lambda w, n: (
        measured_later(w, n)
        .job(n, [n], 0, 90, run_key=f"{n}@0", state="REQUEUED", node=f"node-{n}")
        .job(n, [n], 100, 190, run_key=f"{n}@100", node=f"node-{n}")
    ),
    "61 minutes later": lambda w, n: (
        measured_later(w, n)
        .job(n, [n], 0, 90, run_key=f"{n}@0", node=f"node-{n}")
        .job(n, [n], 151, 241, run_key=f"{n}@151", node=f"node-{n}")
    ),
    "two days": lambda w, n: measured_later(w, n).job(n, [n], 0, 2 * 1440, node=f"node-{n}"),
}

NEVER_MEASURED: dict[str, Scene] = {
    "one hour across two": lambda w, n: on_nodes(w, n, 1).job(n, 1, 30, 90, node=f"node-{n}"),
    "a job": lambda w, n: on_nodes(w, n, 8).job(n, 2, 20, 220, node=f"node-{n}"),
    "many jobs": lambda w, n: (
        on_nodes(w, n, 2)
        .job(f"{n}a", 2, 0, 90, node=f"node-{n}")
        .job(f"{n}b", 1, 100, 130, node=f"node-{n}")
        .job(f"{n}c", 1, 2000, 2060, node=f"node-{n}")
    ),
    "beside a measured one": lambda w, n: (
        w.gpu(n, (240, WORK), node=f"node-{n}").node(f"node-{n}", 0, {"": 2}).job(n, 2, 20, 220, node=f"node-{n}")
    ),
    "exempt for an hour": lambda w, n: on_nodes(w, n, 1).job(
        n, 1, 0, 180, node=f"node-{n}", labels={"gpuwatch.io/exempt-until": "2026-01-05 01:00:00"}
    ),
}
"""On nodes of a cluster where other nodes are measured."""


CASES = Cases(MUST_NOT_FIRE, MUST_FIRE, NEVER_MEASURED)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of all cases."""
    with CASES.analyzed(tmp_path_factory.mktemp("fleet"), detectors=[RULE]) as world:
        yield world


def found(world: World, case: str) -> list[Found]:
    """Findings about the jobs of a case."""
    return [f for f in world.findings(RULE) if f.job and f.job.startswith(CASES.name(case))]


def places(world: World) -> dict[tuple[str, str], Found]:
    """Findings about other subjects, by kind and name of the subject."""
    rows = world.store.sql("select key, subject_kind, subject_id from finding where job_id is null")
    subjects = {key: (kind, name) for key, kind, name in rows}
    return {subjects[f.key]: f for f in world.findings(RULE) if not f.job}


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_it_does_not_accuse(fleet: World, case: str) -> None:
    """What was measured is not blind, however little it says."""
    assert [] == found(fleet, case)
    assert ("node", f"node-{CASES.name(case)}") not in places(fleet)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("one of two", [(20, 220, 1, 2)], id="the one of two that stopped"),
        pytest.param("silent", [(60, 241, 1, 1)], id="three hours of silence in a measured job"),
        pytest.param("an hour of silence", [(65, 125, 1, 1)], id="an hour of silence, whatever the clock says"),
        pytest.param("power alone", [(0, 200, 1, 1)], id="power and memory say nothing about work"),
        pytest.param("a slice without profiling", [(0, 180, 1, 1)], id="the board's power says nothing about a slice"),
        pytest.param("requeued", [(0, 190, 1, 1)], id="a requeued run continues the finding"),
        pytest.param("61 minutes later", [(0, 90, 1, 1), (151, 241, 1, 1)], id="after 61 minutes it is another"),
        pytest.param("two days", [(0, 2880, 1, 1)], id="two days are one finding, not one an hour"),
    ],
)
def test_it_finds_devices_that_went_dark(
    fleet: World, case: str, expected: list[tuple[float, float, int, int]]
) -> None:
    """Start and end in minutes; blind devices, and devices of the job."""
    seen = [(f.started, f.ended, f.evidence["blind_devices"], f.evidence["devices"]) for f in found(fleet, case)]

    assert expected == seen


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param("one hour across two", (30, 90, 1, 1, 1), id="an hour without a sample, across two of the clock"),
        pytest.param("a job", (20, 220, 2, 1, 6.667), id="the held devices, not all of the node"),
        pytest.param("many jobs", (0, 2060, 2, 3, 4.5), id="one finding for all jobs on the node"),
        pytest.param("beside a measured one", (20, 220, 1, 1, 3.333), id="a GPU that the exporter leaves out"),
        pytest.param("exempt for an hour", (60, 180, 1, 1, 2), id="time before the end of an exemption stays exempt"),
    ],
)
def test_devices_that_were_never_measured_are_one_finding_of_their_node(
    fleet: World, case: str, expected: tuple[float, float, int, int, float]
) -> None:
    """Start and end in minutes; devices, runs, and GPU-hours held."""
    f = places(fleet)["node", f"node-{CASES.name(case)}"]
    evidence = (f.evidence["never_measured"], f.evidence["jobs"], f.evidence["unobserved_gpu_hours"])

    assert [] == found(fleet, case)
    assert expected == (f.started, f.last_seen, *evidence)


def test_it_claims_no_money(fleet: World) -> None:
    """The time is charged to its team; what was done with it nobody knows."""
    assert {0} == {f.wasted_s for f in fleet.findings(RULE)}
    assert {("unobserved", 1.0)} == {(f.bucket, f.confidence) for f in fleet.findings(RULE)}


def test_more_than_a_day_is_worse_where_the_device_is_usually_measured(fleet: World) -> None:
    """low -> medium above 24 h. A device that was never measured stays low."""
    (silent,), (two_days,) = found(fleet, "silent"), found(fleet, "two days")
    never = places(fleet)["node", f"node-{CASES.name('many jobs')}"]

    assert BLIND_SPOT.severity is not None
    assert ["low", "medium", "low"] == [BLIND_SPOT.severity(f.evidence, 50.0) for f in (silent, two_days, never)]


def test_the_remedy_differs_for_a_missing_and_a_silent_exporter(fleet: World) -> None:
    """One was never there, the other stopped."""
    never, (silent,) = places(fleet)["node", f"node-{CASES.name('a job')}"], found(fleet, "silent")

    assert "2 GPUs of this node never measured: held by 1 job for 6.7 GPU-hours." == BLIND_SPOT.summary(never.evidence)
    assert BLIND_SPOT.remedy(never.evidence).startswith("Run dcgm-exporter on these nodes")
    assert "1 of 1 device held and not measured for 3 device-hours." == BLIND_SPOT.summary(silent.evidence)
    assert BLIND_SPOT.remedy(silent.evidence).startswith("Check that dcgm-exporter runs")


# What happens to a finding over time -------------------------------------------------------------------------------


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


def test_a_cluster_without_any_measurement_is_one_finding(world: World) -> None:
    """It keeps its key while jobs come, and becomes findings about nodes when one of them is measured."""
    for number in range(3):
        world.node(f"n{number}", 0, {"": 2}).job(f"{number}", 2, 60 * number, 60 * number + 90, node=f"n{number}")
    world.analyze(now=240, detectors=[RULE])
    (first,) = places(world).values()
    world.job("later", 1, 300, 400, node="n1").analyze(now=400, detectors=[RULE])
    (subject, second), *others = places(world).items()
    world.gpu("G0", (180, WORK), start=420, node="n0").job("m", ["G0"], 430, 500, node="n0")
    world.analyze(now=600, detectors=[RULE])

    assert ("cluster", "c1") == subject
    assert [] == others
    assert (first.key, first.opened_us) == (second.key, second.opened_us)
    assert ("open", 0, 400) == (second.state, second.started, second.last_seen)
    assert (6, 4, 10.667) == (
        second.evidence["never_measured"],
        second.evidence["jobs"],
        second.evidence["unobserved_gpu_hours"],
    )
    assert "6 GPUs of this cluster on 3 nodes never measured: held by 4 jobs for 10.7 GPU-hours." == BLIND_SPOT.summary(
        second.evidence
    )
    after = {place: (f.state, f.reason) for place, f in places(world).items()}
    assert ("resolved", "records changed") == after["cluster", "c1"]
    assert {"n0", "n1", "n2"} == {name for kind, name in after if kind == "node"}


def test_a_pool_without_any_measurement_is_one_finding(world: World) -> None:
    """The pools of the cluster that are measured stay out of it."""
    world.gpu("G0", (180, WORK)).job("m", ["G0"], 0, 180)
    for number in range(2):
        world.node(f"a{number}", 0, {"": 2}, pool="a100").job(f"{number}", 2, 0, 90, node=f"a{number}")
    world.analyze(now=240, detectors=[RULE])

    ((subject, finding),) = places(world).items()
    assert ("pool", "a100") == subject
    assert (4, 2) == (finding.evidence["never_measured"], finding.evidence["node_count"])


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


def test_slices_are_no_gpus_in_its_words() -> None:
    """A scheduler knows how many slices a node has, and not on how many GPUs."""
    never = {"place": "cluster", "devices": 11, "slices": 3, "jobs": 4, "node_count": 2, "unobserved_gpu_hours": 7.5}

    assert "8 GPUs and 3 MIG slices of this cluster on 2 nodes never measured" in BLIND_SPOT.summary(never)
    assert "3 MIG slices of this cluster" in BLIND_SPOT.summary(never | {"devices": 3})
    assert "{has|had} 8 GPUs and 3 MIG slices in use and never measured" == str(BLIND_SPOT.headline(never))


def test_slices_that_nobody_measures_are_counted_apart(tmp_path: Path) -> None:
    w = World(tmp_path)
    w.node("n1", 0, {"": 2, "1g.10gb": 4})
    for profile, count in ((None, 2), ("1g.10gb", 3)):
        w.claim(
            scheduler="slurm", kind="scontrol", job_id=f"j{count}", run_key=f"j{count}", node="n1", device_count=count,
            profile=profile, start_us=us(0), end_us=us(120), evidence_us=us(120),
        )  # fmt: skip
    w.analyze(180, detectors=["blind-spot"])
    (f,) = w.findings("blind-spot")

    assert (5, 3) == (f.evidence["devices"], f.evidence["slices"])
