"""Gangs that run in part: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from gpuwatch.detectors.gang_partial import GANG_PARTIAL
from tests.detectors.detector_world import IDLE, T0, WORK, World, us
from tests.detectors.sched_world import found, gang, pods, tell, waits

RULE = "gang-partial"
EXEMPT = '{"gpuwatch.io/exempt-until":"2027-01-01"}'
Scene = Callable[[World], object]


def half(w: World, job: str = "a", *, lasts: float = 65, least: int = 4, count: int | None = None, **more: str) -> None:
    """Two of four members run since minute 5, the others wait up to minute `lasts`, when they are gone."""
    gang(w, job, least, count=count)
    pods(w, job, [f"{job}0", f"{job}1"], 5, 100, level=IDLE, **more)
    waits(w, job, 2, 5.1, since=5)
    waits(w, job, 2, lasts, since=5, reason="NoLongerWaits")


def without_workload(w: World) -> None:
    pods(w, "a", ["a0", "a1"], 5, 100, level=IDLE)
    waits(w, "a", 2, 5.1, since=5)


def creating(w: World) -> None:
    gang(w, "a", 4)
    pods(w, "a", ["a0", "a1"], 5, 100, level=IDLE)


def gated(w: World) -> None:
    gang(w, "a", 4)
    pods(w, "a", ["a0", "a1"], 5, 100, level=IDLE)
    waits(w, "a", 2, 60, since=5, reason="SchedulingGated")


def quota(w: World) -> None:
    gang(w, "a", 4)
    pods(w, "a", ["a0", "a1"], 5, 100, level=IDLE)
    waits(w, "a", 4, 60, since=5, reason="WaitingForQuota")


def nobody_runs(w: World) -> None:
    gang(w, "a", 4)
    pods(w, "b", ["a0"], 5, 100, level=WORK)
    waits(w, "a", 4, 60, since=5)


def more_than_least(w: World) -> None:
    gang(w, "a", 2)
    pods(w, "a", ["a0", "a1"], 5, 100, level=WORK)
    waits(w, "a", 2, 60, since=5)


def slurm(w: World) -> None:
    tell(
        w, "workload", scheduler="slurm", kind="Job", uid="7", name="7", job_id="7", min_count=4, state="running",
        submit_us=0, observed_us=0,
    )  # fmt: skip
    w.gpu("s0", (120, IDLE)).job("7", ["s0"], 5, 100)
    tell(
        w, "pending", scheduler="slurm", job_id="7", submit_us=0, evidence_us=60, device_count=3, node_count=3,
        reason="Unschedulable",
    )  # fmt: skip


MUST_NOT_FIRE: dict[str, Scene] = {
    "four minutes": lambda w: half(w, lasts=9),
    "members that pull their image have a node and wait for none": creating,
    "members that a gate holds back": gated,
    "a gang that waits for quota as a whole": quota,
    "an elastic job starts with fewer": lambda w: half(w, least=3, count=4),
    "as many as it needs run": more_than_least,
    "no member runs": nobody_runs,
    "nobody said how many it needs": without_workload,
    "a gang of one": lambda w: half(w, least=1),
    "an exempt label that has not expired": lambda w: half(w, labels=EXEMPT),
    "Slurm starts all nodes or none": slurm,
}


@pytest.mark.parametrize("scene", MUST_NOT_FIRE.values(), ids=MUST_NOT_FIRE.keys())
def test_is_no_partial_gang(tmp_path: Path, scene: Scene) -> None:
    w = World(tmp_path)
    scene(w)
    report = w.analyze(120)

    assert ([], []) == ([r for r in report.failed_rules if r.startswith(RULE)], found(w, RULE))


def test_two_of_four_for_an_hour(tmp_path: Path) -> None:
    w = World(tmp_path)
    half(w)
    w.analyze(120)
    (f,) = found(w, RULE)

    assert ("job", "ml/a", "high", "resolved", 5.0, 65.0) == (f.kind, f.subject, f.severity, f.state, f.started, f.ended)
    assert (2, 4, 2, 60) == tuple(
        f.evidence[n] for n in ("running_pods", "pods_min", "held_devices", "partial_minutes")
    )


def test_claims_what_its_members_did_not_use_while_it_was_partial(tmp_path: Path) -> None:
    w = World(tmp_path)
    half(w)
    w.analyze(120)
    (f,) = found(w, RULE)

    assert Fraction(2 * 60 * 60) == f.wasted_s
    assert not [other for other in w.findings("idle-hoarding", "ml/a") if other.wasted_s > 2 * 35 * 60]


def test_members_that_work_all_the_same_waste_nothing(tmp_path: Path) -> None:
    w = World(tmp_path)
    gang(w, "a", 3)
    pods(w, "a", ["a0", "a1"], 5, 100, level=WORK)
    waits(w, "a", 1, 60, since=5)
    w.analyze(120)
    (f,) = found(w, RULE)

    assert Fraction(0) == f.wasted_s


def test_a_member_that_failed_and_finds_no_place(tmp_path: Path) -> None:
    w = World(tmp_path)
    gang(w, "a", 2)
    pods(w, "a", ["a0"], 0, 110, level=WORK)
    pods(w, "a", ["a1"], 0, 30, level=WORK, first=1, state="Failed")
    waits(w, "a", 1, 32, since=31)
    waits(w, "a", 1, 80, since=31, reason="NoLongerWaits")
    w.analyze(120)

    assert [(31.0, 80.0)] == [(f.started, f.ended) for f in found(w, RULE)]


@pytest.mark.parametrize(
    ("free", "b_waits", "expected"),
    [
        pytest.param(0, 2, "critical", id="each would start with what the other holds"),
        pytest.param(1, 2, "critical", id="one free GPU helps neither"),
        pytest.param(2, 2, "high", id="one can start on what is free"),
        pytest.param(0, 3, "high", id="what one holds is not enough for the other"),
    ],
)
def test_deadlock(tmp_path: Path, free: int, b_waits: int, expected: str) -> None:
    w = World(tmp_path)
    half(w)
    half(w, "b", least=2 + b_waits)
    for number in range(free):
        w.gpu(f"free{number}", (120, IDLE))
    w.analyze(120)

    assert [expected] * 2 == [f.severity for f in found(w, RULE)]
    assert [("ml/b" if expected == "critical" else "")] == [f.evidence["deadlock_with"] for f in found(w, RULE)][:1]


def test_hour_by_hour_says_what_one_pass_says(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    once, often = World(tmp_path / "a"), World(tmp_path / "b")
    for w in (once, often):
        half(w)
        half(w, "b")
    once.analyze(180)
    for hour in (1, 2, 3):
        often.analyze(60 * hour, since_us=us(60 * (hour - 1)), until_us=us(60 * hour))

    assert found(once, RULE) == found(often, RULE)
    assert 2 == len(found(once, RULE))


def test_thresholds_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/detectors/gang-partial.md").read_text("utf-8")

    assert [] == [t.name for t in GANG_PARTIAL.thresholds if f"`{t.name}`" not in page]
    assert T0 % 3_600_000_000 == 0
