"""Gangs that run in part: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.gang_partial import GANG_PARTIAL
from gpuwatch.findings.read import page
from tests.worlds.detectors import (
    H100,
    IDLE,
    PAGE_HEADINGS,
    WORK,
    Phase,
    World,
    level,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
)
from tests.worlds.scheduling import Verdict, found, gang, pods, tell, waits

RULE = "gang-partial"
EXEMPT = '{"gpuwatch.io/exempt-until":"2027-01-01"}'
Scene = Callable[[World, str], object]


def half(
    w: World, job: str, *, lasts: float = 65, least: int = 4, count: int | None = None, model: str = H100, **more: str
) -> None:
    """Two of four members run since minute 5, the others wait up to minute `lasts`, when they are gone."""
    gang(w, job, least, count=count)
    pods(w, job, [f"{job}-0", f"{job}-1"], 5, 100, level=IDLE, model=model, **more)
    waits(w, job, 2, 5.1, since=5)
    waits(w, job, 2, lasts, since=5, reason="NoLongerWaits")


def running(w: World, job: str, least: int | None, waiting: int, reason: str = "Unschedulable") -> None:
    """Two members run from minute 5 to 100; others wait from minute 5 to 60 and longer, or none does."""
    if least is not None:
        gang(w, job, least)
    pods(w, job, [f"{job}-0", f"{job}-1"], 5, 100, level=IDLE)
    if waiting:
        waits(w, job, waiting, 60, since=5, reason=reason)


def playing(w: World, job: str, *phases: Phase, lasts: float = 65) -> None:
    """The same two of four members, whose GPUs play phases."""
    for number in range(2):
        w.gpu(f"{job}-{number}", *phases)
    half(w, job, lasts=lasts)


def nobody_runs(w: World, job: str) -> None:
    gang(w, job, 4)
    waits(w, job, 4, 60, since=5)


def slurm(w: World, job: str) -> None:
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
    "four minutes": lambda w, n: half(w, n, lasts=9),
    "members that pull their image have a node and wait for none": lambda w, n: running(w, n, 4, 0),
    "members that a gate holds back": lambda w, n: running(w, n, 4, 2, "SchedulingGated"),
    "a gang that waits for quota as a whole": lambda w, n: running(w, n, 4, 4, "WaitingForQuota"),
    "members that work all the same: trials, or an elastic job of which nobody says so": lambda w, n: playing(
        w, n, (120, WORK)
    ),
    "members that work and save in between": lambda w, n: playing(w, n, *(((20, WORK), (10, IDLE)) * 4)),
    "an elastic job starts with fewer": lambda w, n: half(w, n, least=3, count=4),
    "as many as it needs run": lambda w, n: running(w, n, 2, 2),
    "no member runs": nobody_runs,
    "nobody said how many it needs": lambda w, n: running(w, n, None, 2),
    "a gang of one": lambda w, n: half(w, n, least=1),
    "an exempt label that has not expired": lambda w, n: half(w, n, labels=EXEMPT),
    "Slurm starts all nodes or none": slurm,
}


def failed_member(w: World, job: str) -> None:
    gang(w, job, 2)
    pods(w, job, [f"{job}-0"], 0, 110, level=IDLE)
    pods(w, job, [f"{job}-1"], 0, 30, level=IDLE, first=1, state="Failed")
    waits(w, job, 1, 32, since=31)
    waits(w, job, 1, 80, since=31, reason="NoLongerWaits")


def fell_apart(w: World, job: str) -> None:
    """A gang of two works until one member is lost, for which there is no place. The other one hangs."""
    gang(w, job, 2)
    w.gpu(f"{job}-0", (30, WORK), (80, IDLE))
    pods(w, job, [f"{job}-0"], 0, 110, level=IDLE)
    pods(w, job, [f"{job}-1"], 0, 30, level=WORK, first=1, state="Failed")
    waits(w, job, 1, 32, since=31)
    waits(w, job, 1, 80, since=31, reason="NoLongerWaits")


def launcher(w: World, job: str) -> None:
    """A launcher without GPUs and three of four workers run."""
    three_of_four(w, job, {"name": "launcher", "count": 1}, {"name": "worker", "count": 4, "devices": {"": 4}})


def claims(w: World, job: str) -> None:
    """Three of four workers run. Kueue does not tell the GPUs of workers that ask for them by DRA claims."""
    three_of_four(w, job, {"name": "worker", "count": 4})


def three_of_four(w: World, job: str, *pod_sets: dict[str, Any]) -> None:
    count = sum(one["count"] for one in pod_sets)
    tell(
        w, "workload", scheduler="kueue", kind="Workload", uid=job, name=job, job_id=f"ml/{job}", min_count=count,
        pod_count=count, submit_us=0, observed_us=0, state="admitted", detail={"pod_sets": pod_sets},
    )  # fmt: skip
    pods(w, job, [f"{job}-{number}" for number in range(3)], 5, 100, level=IDLE)
    waits(w, job, 1, 5.1, since=5)
    waits(w, job, 1, 65, since=5, reason="NoLongerWaits")


MUST_FIRE: dict[str, tuple[Scene, tuple[float, float, int]]] = {
    "two of four for an hour": (half, (5, 65, 2 * 60 * 60)),
    "a member that failed and finds no place again": (failed_member, (31, 80, 49 * 60)),
    "one worker beside a launcher without GPUs": (launcher, (5, 65, 3 * 60 * 60)),
    "one of four workers whose GPUs Kueue does not tell": (claims, (5, 65, 3 * 60 * 60)),
    "a member that worked until another one was lost": (fell_apart, (31, 80, 49 * 60)),
    "members that wait in a collective, which keeps their GPUs busy": (
        lambda w, n: playing(w, n, (120, level(1.0, 0.08, 0.0, 0.005, 140))),
        (5, 65, 2 * 3312),
    ),
    "members that poll for the others": (
        lambda w, n: playing(w, n, (120, level(0.05, 0.02, 0.0, 0.003, 90))),
        (5, 65, 2 * 3528),
    ),
    "members that work at times": (
        lambda w, n: playing(w, n, *(((10, WORK), (20, IDLE)) * 4)),
        (5, 60, 2 * 40 * 60),
    ),
}

DEADLOCKS = {
    "each would start with what the other holds": (0, 2, "critical"),
    "one free GPU helps neither": (1, 2, "critical"),
    "one can start on what is free": (2, 2, "high"),
    "what one holds is not enough for the other": (0, 3, "high"),
}


def play(w: World) -> None:
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(w, f"not{number}")
    for number, (scene, _) in enumerate(MUST_FIRE.values()):
        scene(w, f"is{number}")
    for number, (free, b_waits, _) in enumerate(DEADLOCKS.values()):
        model = f"NVIDIA A100 of case {number}"
        half(w, f"a{number}", model=model)
        half(w, f"b{number}", least=2 + b_waits, model=model)
        for spare in range(free):
            w.gpu(f"free{number}-{spare}", (120, IDLE), model=model)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    w = World(tmp_path_factory.mktemp("gangs"))
    play(w)
    report = w.analyze(180, detectors=[RULE, "idle-hoarding"])
    assert [] == report.failed_rules
    return w


def of(w: World, job: str) -> list[Verdict]:
    return [f for f in found(w, RULE) if f.subject == f"ml/{job}"]


@pytest.mark.parametrize("number", range(len(MUST_NOT_FIRE)), ids=MUST_NOT_FIRE.keys())
def test_is_no_partial_gang(world: World, number: int) -> None:

    assert [] == of(world, f"not{number}")
    assert "7" not in {f.subject for f in found(world, RULE)}


@pytest.mark.parametrize("number", range(len(MUST_FIRE)), ids=MUST_FIRE.keys())
def test_is_a_partial_gang(world: World, number: int) -> None:
    start, end, wasted = list(MUST_FIRE.values())[number][1]

    assert [("job", "high", "resolved", start, end, Fraction(wasted))] == [
        (f.kind, f.severity, f.state, f.started, f.ended, f.wasted_s) for f in of(world, f"is{number}")
    ]


def test_evidence_says_how_many(world: World) -> None:
    (f,) = of(world, "is0")

    assert (2, 4, 2, 2, 60) == tuple(
        f.evidence[n] for n in ("running_pods", "pods_min", "held_devices", "missing_devices", "partial_minutes")
    )


def test_members_without_gpus_do_not_count(world: World) -> None:
    (f,) = of(world, f"is{list(MUST_FIRE).index('one worker beside a launcher without GPUs')}")

    assert (3, 4, 1) == tuple(f.evidence[n] for n in ("running_pods", "pods_min", "missing_devices"))


def test_idle_hoarding_claims_no_second_of_it(world: World) -> None:
    """The two members idle from minute 5 to 100: 60 minutes are the gang's, 35 are left."""
    (f,) = world.findings("idle-hoarding", "ml/is0")

    assert 2 * 35 * 60 >= f.wasted_s


def test_idle_hoarding_says_nothing_of_members_that_idle_because_the_others_wait(tmp_path: Path) -> None:
    w = World(tmp_path)
    half(w, "g", lasts=95)

    w.analyze(180, detectors=[RULE, "idle-hoarding"])

    assert [(5, 95)] == [(f.started, f.ended) for f in of(w, "g")]
    assert [] == w.findings("idle-hoarding")


@pytest.mark.parametrize("number", range(len(DEADLOCKS)), ids=DEADLOCKS.keys())
def test_deadlock(world: World, number: int) -> None:
    expected = list(DEADLOCKS.values())[number][2]

    assert [(expected, f"ml/b{number}" if expected == "critical" else "")] == [
        (f.severity, f.evidence["deadlock_with"]) for f in of(world, f"a{number}")
    ]


@pytest.mark.slow
def test_hour_by_hour_says_what_one_pass_says(world: World, tmp_path: Path) -> None:
    often = World(tmp_path)
    play(often)
    for hour in (1, 2, 3):
        often.analyze(180, since_us=us(60 * (hour - 1)), until_us=us(60 * hour), detectors=[RULE, "idle-hoarding"])

    assert found(world, RULE) == found(often, RULE)
    assert len(MUST_FIRE) + 2 * len(DEADLOCKS) == len(found(often, RULE))


def test_doc_page_names_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors/gang-partial.md"

    assert printed_thresholds(GANG_PARTIAL) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)


def test_what_a_gang_holds_without_metrics_is_claimed_while_it_does_not_run(tmp_path: Path) -> None:
    """Nobody measures the nodes: minutes 5 to 65 of two GPUs are the gang's, the rest of its time is nobody's waste."""
    w = World(tmp_path)
    w.node("dark0", 0, {"": 1}).node("dark1", 0, {"": 4})
    gang(w, "g", 4)
    for number in range(2):
        w.claim(
            scheduler="kubernetes", kind="k8s-json", job_id="ml/g", run_key="g-uid", pod_uid=f"g-{number}", pod=f"g-{number}",
            namespace="ml", node=f"dark{number}", device_count=1, start_us=us(5), end_us=us(100), evidence_us=us(100),
        )  # fmt: skip
    waits(w, "g", 2, 5.1, since=5)
    waits(w, "g", 2, 65, since=5, reason="NoLongerWaits")

    assert [] == w.analyze(180, detectors=[RULE, "blind-spot"]).failed_rules

    assert [(5, 65, Fraction(2 * 60 * 60))] == [(f.started, f.ended, f.wasted_s) for f in of(w, "g")]
    assert 2 * 95 * 60 == w.booked_s("unobserved", job="ml/g")
    (one,) = page(w.store, detectors=[RULE]).items
    assert (["dark0", "dark1"], 2) == (one.nodes, len(one.devices))
