"""MIG slices of the wrong size: slices that are used, seen too little or only held first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.mig_mismatch import MIG_MISMATCH
from tests.worlds.detectors import (
    IDLE,
    PAGE_HEADINGS,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    without,
)
from tests.worlds.subjects import SubjectFinding, findings_of, granted_s, hour_by_hour

RULE = "mig-mismatch"
GIB = 1 << 30
TOTAL = int(39.5 * GIB)
HOURS = 33
LENGTH = 60 * HOURS


def used(memory_gib: float, sm: float) -> dict[str, float | int]:
    """What an exporter reads of a 3g.40gb of an H100: 60 SMs and 39.5 GiB."""
    return level(0.7, sm, 0.1, 0.1, 200, fb_used_bytes=int(memory_gib * GIB), fb_total_bytes=TOTAL)


SMALL = used(6, 0.2)
FULL = used(39.2, 0.5)
LOADING = used(12, 0.5)

Scene = Callable[[World, str], object]


def on_slice(
    world: World,
    name: str,
    *phases: tuple[float, Mapping[str, float | int | None] | None],
    profile: str = "3g.40gb",
    labels: Mapping[str, str] | None = None,
    step_s: float = 600,
) -> World:
    """A job that holds a slice for as long as these phases."""
    length = sum(minutes for minutes, _ in phases)
    world.gpu(name, *phases, gi=1, profile=profile, node=name, step_s=step_s)
    return world.job(name, 1, 0, None, heard=length, profile=profile, node=name, labels=labels)


def fails(
    world: World,
    name: str,
    *phases: tuple[float, Mapping[str, float | int | None]],
    state: str = "FAILED",
    runs: int = 1,
    profile: str | None = "3g.40gb",
    step_s: float = 30,
) -> World:
    """Runs of a job, one after the other on one slice, that end in this state."""
    length = sum(minutes for minutes, _ in phases)
    world.gpu(name, *(phases * runs), gi=1, profile=profile, node=name, step_s=step_s)
    for run in range(runs):
        start, end = run * length, (run + 1) * length
        world.job(name, 1, start, end, run_key=f"{name}-{run}", profile=profile, node=name, state=state)
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "a slice whose memory is used": lambda w, n: on_slice(w, n, (LENGTH, used(30, 0.2))),
    "memory just above what the smaller one holds with a fifth to spare": lambda w, n: on_slice(
        w, n, (LENGTH, used(16.5, 0.2))
    ),
    "a slice whose SMs are used": lambda w, n: on_slice(w, n, (LENGTH, used(6, 0.7))),
    "one hour in three that needs all SMs": lambda w, n: on_slice(w, n, *[(120, SMALL), (60, used(6, 0.9))] * 11),
    "one moment that needed the memory": lambda w, n: on_slice(
        w, n, (600, SMALL), (10, used(35, 0.2)), (LENGTH - 610, SMALL)
    ),
    "an allocator that takes the slice whole": lambda w, n: on_slice(w, n, (LENGTH, used(37, 0.2))),
    "23 hours of work": lambda w, n: on_slice(w, n, (60 * 23, SMALL)),
    "a slice that is held and idle": lambda w, n: on_slice(
        w, n, (LENGTH, IDLE | {"fb_used_bytes": 2 * GIB, "fb_total_bytes": TOTAL})
    ),
    "nobody reads SM_ACTIVE": lambda w, n: on_slice(w, n, (LENGTH, without(SMALL, "sm_active_ratio"))),
    "nobody reads the memory": lambda w, n: on_slice(w, n, (LENGTH, without(SMALL, "fb_used_bytes"))),
    "the smallest profile": lambda w, n: on_slice(w, n, (LENGTH, used(1, 0.1)), profile="1g.10gb"),
    "a service that must answer at its peak": lambda w, n: on_slice(
        w, n, (LENGTH, SMALL), labels={"latency-critical": "true"}
    ),
    "an exempt label": lambda w, n: on_slice(w, n, (LENGTH, SMALL), labels={"gpuwatch.io/exempt-until": "2026-12-31"}),
    "a run that failed with memory to spare": lambda w, n: fails(w, n, (20, LOADING)),
    "a run that ended well with its memory full": lambda w, n: fails(
        w, n, (10, LOADING), (10, FULL), state="COMPLETED"
    ),
    "a run that the kernel killed for host memory": lambda w, n: fails(
        w, n, (10, LOADING), (10, FULL), state="OUT_OF_MEMORY"
    ),
    "a run that was preempted with its memory full": lambda w, n: fails(
        w, n, (10, LOADING), (10, FULL), state="PREEMPTED"
    ),
    "a run that failed long after its memory was full": lambda w, n: fails(w, n, (10, FULL), (10, LOADING)),
    "a run that failed on a whole GPU": lambda w, n: w.gpu(n, (10, LOADING), (10, FULL), node=n).job(
        n, [n], 0, 20, node=n, state="FAILED"
    ),
}


LOUD: dict[str, Scene] = {
    "small": lambda w, n: on_slice(w, n, (LENGTH, SMALL)),
    "more memory": lambda w, n: on_slice(w, n, (LENGTH, used(15, 0.2))),
    "burst": lambda w, n: on_slice(w, n, (600, SMALL), (10, used(6, 0.95)), (LENGTH - 610, SMALL)),
    "failed": lambda w, n: fails(w, n, (15, LOADING), (1, FULL)),
    "again": lambda w, n: fails(w, n, (15, LOADING), (1, FULL), runs=4),
    "always full": lambda w, n: fails(w, n, (20, FULL)),
    "long attempt": lambda w, n: fails(w, n, (90, LOADING), (1, FULL)),
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases side by side in one world, each a job of its name on a slice of a GPU and a node of its name."""
    world = World(tmp_path_factory.mktemp("fleet"))
    for name, scene in (MUST_NOT_FIRE | LOUD).items():
        scene(world, name)
    world.analyze(LENGTH, detectors=[RULE])
    return world


@pytest.fixture(scope="module")
def findings(fleet: World) -> dict[str, SubjectFinding]:
    """The findings by case."""
    listed = findings_of(fleet, RULE)
    assert sum(granted_s(fleet, RULE).values()) == sum(one.wasted_s for one in listed)
    assert all(one.subject.endswith("/GI-1") for one in listed)
    assert len(listed) == len({one.subject for one in listed})
    return {one.subject.removesuffix("/GI-1"): one for one in listed}


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(findings: dict[str, SubjectFinding], case: str) -> None:
    assert case not in findings


def test_a_slice_that_a_smaller_one_would_have_held(fleet: World, findings: dict[str, SubjectFinding]) -> None:
    one = findings["small"]

    assert ("slice", "low", "open") == (one.kind, one.severity, one.state)
    # 6 GiB and a fifth of 60 SMs: 1g.10gb has 9.75 GiB and 16 SMs.
    assert ("oversized", "3g.40gb", "1g.10gb", 6) == tuple(
        one.evidence[name] for name in ("verdict", "profile", "fit", "memory_gib")
    )
    # Half of a GPU was held and a seventh would have done: five sevenths of what the slice lost are waste.
    buckets = ("gap", "stalled", "below_roof", "hoarded")
    lost = fleet.booked_s(*buckets, job="small", start=one.started or 0, end=LENGTH)
    assert 0 <= lost * Fraction(5, 7) - one.wasted_s < 1
    assert "Use 1g.10gb instead of 3g.40gb." == MIG_MISMATCH.remedy(one.evidence)


def test_more_memory_needs_the_profile_with_double_memory(findings: dict[str, SubjectFinding]) -> None:
    assert "1g.20gb" == findings["more memory"].evidence["fit"]


def test_a_burst_in_one_hour_of_many_does_not_need_the_sms(findings: dict[str, SubjectFinding]) -> None:
    assert "oversized" == findings["burst"].evidence["verdict"]


def test_a_run_that_failed_when_its_slice_was_full(fleet: World, findings: dict[str, SubjectFinding]) -> None:
    one = findings["failed"]

    assert ("medium", 0.7) == (one.severity, one.confidence)
    assert ("undersized", 1) == (one.evidence["verdict"], one.evidence["attempts"])
    assert fleet.booked_s("gap", "stalled", "below_roof", "unobserved", job="failed") == one.wasted_s > 0
    assert "larger" in MIG_MISMATCH.remedy(one.evidence)


def test_attempts_that_fail_again_and_again_are_high(findings: dict[str, SubjectFinding]) -> None:
    one = findings["again"]

    assert ("high", 0.9, 4) == (one.severity, one.confidence, one.evidence["attempts"])
    assert "4 attempts" in MIG_MISMATCH.summary(one.evidence)


def test_memory_that_was_full_all_the_time_proves_little(findings: dict[str, SubjectFinding]) -> None:
    assert 0.4 == findings["always full"].confidence


def test_a_long_attempt_is_listed_and_not_claimed(findings: dict[str, SubjectFinding]) -> None:
    one = findings["long attempt"]

    assert ("medium", 0) == (one.severity, one.wasted_s)


@pytest.mark.slow
def test_one_slice_keeps_one_key_when_hours_come_one_by_one(
    tmp_path: Path, findings: dict[str, SubjectFinding]
) -> None:
    at_once = findings["small"]
    (by_hour,) = hour_by_hour(on_slice(World(tmp_path), "small", (LENGTH, SMALL)), HOURS, RULE, step=11)

    assert (at_once.key, at_once.started, at_once.wasted_s) == (by_hour.key, by_hour.started, by_hour.wasted_s)


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(MIG_MISMATCH) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
