"""Jobs that are preempted again and again, and priorities turned round: what is none of it first."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.analysis.pipeline import analyze
from gpuwatch.detectors.preemption_thrash import PREEMPTION_THRASH
from gpuwatch.imports.files import import_paths
from tests.worlds.detectors import PAGE_HEADINGS, WORK, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.scheduling import SHARED, Verdict, captured_eviction, found, tell

RULE = "preemption-thrash"
Scene = Callable[[World, str], object]
CHECKPOINTS = '{"gpuwatch.io/checkpoint-minutes":"20"}'


def runs(
    w: World, job: str, *ends: float, state: str = "PREEMPTED", length: float = 90, labels: str | None = None
) -> None:
    """A Slurm job on one GPU whose runs of `length` minutes were ended so at these minutes."""
    w.gpu(f"gpu-{job}", (60, WORK), start=max(0.0, ends[0] - length), node=f"n-{job}", model=f"model-{job}", step_s=600)
    for number, end in enumerate(ends):
        start = max(0.0, end - length)
        w.claim(
            scheduler="slurm", kind="sacct", job_id=job, run_key=f"{job}@{number}", node=f"n-{job}", device_count=1,
            gpus=f"gpu-{job}", start_us=us(start), end_us=us(end), evidence_us=us(end), state=state, labels=labels,
        )  # fmt: skip


def kueue(w: World, name: str, at: float, **words: Any) -> None:
    row = {
        "scheduler": "kueue", "kind": "Workload", "uid": name, "name": name, "namespace": "ml", "job_id": f"ml/{name}",
        "state": "evicted", "reason": "Preempted", "device_count": 4, "submit_us": 0, "observed_us": at,
    }  # fmt: skip
    tell(w, "workload", **(row | words))


def drained(w: World, job: str) -> None:
    runs(w, job, 100, 200, 300)
    for at in (100, 200, 300):
        row = {"scheduler": "slurm", "node": f"n-{job}", "devices": {"": 1}}
        tell(w, "node", **row, state="drain", since_us=at - 10, observed_us=at - 10)
        tell(w, "node", **row, state="up", observed_us=at + 5)


def inverted(
    w: World,
    n: str,
    *,
    rule: str = "LowerPriority",
    high: int = 100,
    low_gpus: int = 4,
    place: str | None = None,
    since: float = 100,
    reason: str = "WaitingForQuota",
) -> None:
    """A Workload of priority 100 waits from minute 100 to 200 where one of priority 10 runs since minute 0."""
    row = {"scheduler": "kueue", "observed_us": 1}
    tell(w, "queue", **row, kind="cluster_queue", name=n, preemption={"withinClusterQueue": rule})
    tell(w, "queue", **row, kind="local_queue", name=f"lq-{n}", namespace="ml", parent=n)
    for at in (10, 120, 200):
        kueue(
            w, f"{n}-low", at, state="running", reason="PodsReady", cluster_queue=place or n, priority=10,
            device_count=low_gpus, admitted_us=0, start_us=0,
        )  # fmt: skip
    waits = {"queue": f"lq-{n}", "priority": high, "submit_us": since, "reason": reason}
    for at in (since + 0.1, 180):
        kueue(w, f"{n}-high", at, state="pending", **waits)
    kueue(w, f"{n}-high", 200, state="admitted", **waits)


def slurm_inverted(w: World, n: str, *, ran: float = 180, preempts: tuple[str, ...] = ("low",)) -> None:
    """A job of QOS high waits in a partition in which one of QOS low has run for hours."""
    row = {"scheduler": "slurm", "observed_us": 1}
    tell(w, "queue", **row, kind="partition", name=n, preemption={"mode": "REQUEUE"})
    tell(w, "queue", **row, kind="qos", name=f"high-{n}", preemption={"preempts": [f"{q}-{n}" for q in preempts]})
    job = {"scheduler": "slurm", "kind": "Job", "queue": n, "device_count": 4}
    for at in (210, 300, 380):
        tell(
            w, "workload", **job, uid=f"{n}1", job_id=f"{n}1", priority_class=f"low-{n}", state="running",
            submit_us=0, start_us=380 - ran, admitted_us=380 - ran, observed_us=at,
        )  # fmt: skip
    for at in (300, 380):
        tell(
            w, "workload", **job, uid=f"{n}2", job_id=f"{n}2", priority_class=f"high-{n}", state="pending",
            reason="Resources", submit_us=300, observed_us=at,
        )  # fmt: skip
    for number in (1, 2):
        tell(
            w,
            "workload",
            **job,
            uid=f"{n}{number}",
            job_id=f"{n}{number}",
            state="finished",
            submit_us=0,
            observed_us=385,
        )


def events(w: World, n: str, kind: str) -> None:
    """Events of Kueue on a Workload, or of the scheduler on a pod."""
    kueue(w, n, 1, state="running", reason=None)
    w.claim(
        scheduler="kubernetes", kind="k8s-json", job_id=f"ml/{n}", run_key=n, pod_uid=n, pod=f"{n}-0", namespace="ml",
        node="nowhere", device_count=1, start_us=us(0), evidence_us=us(1), state="Running",
    )  # fmt: skip
    for at in (50, 150, 250):
        tell(
            w, "event", event_id=f"{n}{at}", object_kind=kind, namespace="ml", name=n if kind == "Workload" else f"{n}-0",
            reason="Preempted", message="Preempted to accommodate a workload", first_us=at, last_us=at,
        )  # fmt: skip


MUST_NOT_FIRE: dict[str, Scene] = {
    "two preemptions": lambda w, n: runs(w, n, 100, 200),
    "three in 26 hours": lambda w, n: runs(w, n, 100, 800, 100 + 26 * 60),
    "three that failed": lambda w, n: runs(w, n, 100, 200, 300, state="NODE_FAIL"),
    "three on a node that was drained": drained,
    "one preemption told by three pods": lambda w, n: runs(w, n, 100, 101, 102, length=50),
    "Kueue counts two": lambda w, n: kueue(w, n, 300, preemptions=2, evicted_us=290),
    "Kueue counts three in two days": lambda w, n: kueue(w, n, 300, preemptions=3, submit_us=-2600, evicted_us=290),
    "evicted for another reason": lambda w, n: [
        kueue(w, n, at, reason="PodsReadyTimeout", evicted_us=at) for at in (50, 150, 250)
    ],
    "higher priority for 14 minutes": lambda w, n: inverted(w, n, since=186),
    "the queue preempts nobody": lambda w, n: inverted(w, n, rule="Never"),
    "equal priority": lambda w, n: inverted(w, n, high=10),
    "what runs is too small to help": lambda w, n: inverted(w, n, low_gpus=3),
    "the lower one runs elsewhere": lambda w, n: inverted(w, n, place=f"{n}-else"),
    "it waits for a place, not for quota": lambda w, n: inverted(w, n, reason="TopologyPlacementFailed"),
    "Slurm may spare a run of two hours": lambda w, n: slurm_inverted(w, n, ran=110),
    "a QOS that displaces others": lambda w, n: slurm_inverted(w, n, preempts=("other",)),
}

MUST_FIRE: dict[str, tuple[Scene, tuple[str, str, float]]] = {
    "three preemptions of a Slurm job": (lambda w, n: runs(w, n, 100, 200, 300), ("job", "thrash", 300)),
    "three evictions by Kueue": (
        lambda w, n: [kueue(w, n, at, evicted_us=at) for at in (50, 150, 250)],
        ("job", "thrash", 250),
    ),
    "Kueue counts three of a workload of today": (
        lambda w, n: kueue(w, n, 300, preemptions=3, evicted_us=290),
        ("job", "thrash", 300),
    ),
    "events on the Workload": (lambda w, n: events(w, n, "Workload"), ("job", "thrash", 250)),
    "events on the pod": (lambda w, n: events(w, n, "Pod"), ("job", "thrash", 250)),
    "priorities turned round": (inverted, ("queue", "inversion", 100)),
    "priorities turned round in Slurm": (slurm_inverted, ("queue", "inversion", 320)),
}


def play(w: World) -> None:
    w.gpu("clock", (60, WORK), start=1640, node="clock", model="clock", step_s=600)
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(w, f"not{number}")
    for number, (scene, _) in enumerate(MUST_FIRE.values()):
        scene(w, f"is{number}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    w = World(tmp_path_factory.mktemp("jobs"))
    play(w)
    report = w.analyze(1700, detectors=[RULE])
    assert [] == report.failed_rules
    return w


def of(w: World, name: str) -> list[Verdict]:
    return [f for f in found(w, RULE) if f.subject in (name, f"ml/{name}", f"model-{name}")]


@pytest.mark.parametrize("number", range(len(MUST_NOT_FIRE)), ids=MUST_NOT_FIRE.keys())
def test_is_none(world: World, number: int) -> None:

    assert [] == of(world, f"not{number}")


@pytest.mark.parametrize("number", range(len(MUST_FIRE)), ids=MUST_FIRE.keys())
def test_is_one(world: World, number: int) -> None:
    kind, case, started = list(MUST_FIRE.values())[number][1]

    assert [(kind, case, "high", started)] == [
        (f.kind, f.evidence["case"], f.severity, f.started) for f in of(world, f"is{number}")
    ]


def test_it_lasts_a_day_after_the_first_of_three(world: World) -> None:
    (f,) = of(world, "is0")

    assert ("resolved", 100.0 + 24 * 60, 3) == (f.state, f.ended, f.evidence["preemptions"])
    assert Fraction(0) == f.wasted_s, "nobody said how far apart checkpoints are"


def test_loses_half_of_what_lies_between_two_checkpoints(tmp_path: Path) -> None:
    w = World(tmp_path)
    w.gpu("g", (400, WORK))
    for number, end in enumerate((100, 200, 300)):
        w.claim(
            scheduler="slurm", kind="sacct", job_id="7", run_key=f"7@{number}", node="n1", device_count=1, gpus="g",
            start_us=us(end - 90), end_us=us(end), evidence_us=us(end), state="PREEMPTED", labels=CHECKPOINTS,
        )  # fmt: skip
    w.analyze(400, detectors=[RULE])
    (f,) = found(w, RULE)
    productive = w.booked_s("compute", "memory_roof", job="7")

    assert round(float(productive) * 30 / 270, 3) == round(float(f.wasted_s), 3)
    assert 0 < f.evidence["lost_gpu_hours"] < 0.5


def test_a_pool_in_which_more_is_preempted_than_it_has_gpus(tmp_path: Path) -> None:
    w = World(tmp_path)
    for gpu in range(3):
        w.gpu(f"g{gpu}", (400, WORK), step_s=600)
    ends = [(f"job{n}", f"g{n % 3}", 40.0 + 20 * n) for n in range(4)]
    for job, gpu, end in ends:
        w.claim(
            scheduler="slurm", kind="sacct", job_id=job, run_key=job, node="n1", device_count=1, gpus=gpu,
            start_us=us(end - 19), end_us=us(end), evidence_us=us(end), state="PREEMPTED",
        )  # fmt: skip
    w.analyze(400, detectors=[RULE])
    (f,) = found(w, RULE)

    assert ("pool", 100.0, "open", 4, 3) == (
        f.kind,
        f.started,
        f.state,
        f.evidence["preemptions"],
        f.evidence["pool_gpus"],
    )


@pytest.mark.slow
def test_hour_by_hour_says_what_one_pass_says(world: World, tmp_path: Path) -> None:
    often = World(tmp_path)
    play(often)
    for first, last in pairwise((0, 60, 180, 420, 1740)):
        often.analyze(1700, since_us=us(first), until_us=us(last), detectors=[RULE])

    assert found(world, RULE) == found(often, RULE)
    assert len(MUST_FIRE) == len(found(often, RULE))


def test_evictions_as_kueue_tells_them(tmp_path: Path) -> None:
    conditions = captured_eviction()
    w = World(tmp_path)
    w.gpu("clock", (300, WORK), step_s=600)
    rows = []
    for at in (50, 150, 250):
        waits = {name: conditions["QuotaReserved"][name] for name in ("reason", "message")}
        rows.append({"at": at, "reason": conditions["Evicted"]["reason"], "detail": {"waits": waits}})
    for row in rows:
        kueue(w, "told", row["at"], evicted_us=row["at"], reason=row["reason"], detail=row["detail"])
    w.analyze(300, detectors=[RULE])

    assert [("ml/told", 250.0, 3)] == [(f.subject, f.started, f.evidence["preemptions"]) for f in found(w, RULE)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("sacct", "sacct_P_X.txt"), ("slurm-json", "squeue.json"), ("scontrol", "scontrol_show_job_d.txt")],
)
def test_jobs_of_a_real_slurm_thrash_nothing(tmp_path: Path, kind: str, name: str) -> None:
    path = SHARED / "wire/slurm/recorded_22.05" / name
    if not path.exists():
        pytest.skip(f"no recorded Slurm: {path} is absent")
    w = World(tmp_path)
    import_paths(w.store, w.state, kind, [path], cluster=w.cluster, now_us=us(0))
    last_us = w.store.sql("select max(evidence_us) from claim")[0][0]
    report = analyze(
        w.store, w.state, w.settings, now_us=last_us,
        detectors=[RULE, "starvation", "gang-partial", "scheduler-conflict"],
    )  # fmt: skip

    assert [] == report.failed_rules
    assert [] == [f for rule in (RULE, "starvation", "gang-partial", "scheduler-conflict") for f in found(w, rule)]


def test_doc_page_names_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors/preemption-thrash.md"

    assert printed_thresholds(PREEMPTION_THRASH) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
