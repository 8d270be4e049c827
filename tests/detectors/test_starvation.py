"""Jobs that wait below their quota: what must not be called so, then what must, and quota that nobody uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.starvation import STARVATION
from tests.worlds.detectors import IDLE, PAGE_HEADINGS, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.scheduling import Verdict, captured_eviction, found, tell, tell_all

RULE = "starvation"
Scene = Callable[[World, str], object]
HOURLY = (10.0, 70.0, 130.0)


def queue(w: World, name: str, at: float, quota: int, uses: int, **words: Any) -> None:
    """A ClusterQueue as told at a minute, with one flavor; what it uses beyond its quota is borrowed."""
    tell_all(w, "queue", queue_records(name, at, quota, uses, **words))


def queue_records(
    name: str, at: float, quota: int, uses: int, *, cohort: str, flavor: str = "h100", **words: Any
) -> list[dict[str, Any]]:
    row = {
        "scheduler": "kueue", "kind": "cluster_queue", "name": name, "parent": cohort, "observed_us": at,
        "state": "Active", "quota": {"": quota}, "used": {"": uses}, "borrowed": {"": max(0, uses - quota)},
    } | words  # fmt: skip
    return [row | {"preemption": {"reclaimWithinCohort": "Never"}}, row | {"flavor": flavor}]


def gang(w: World, name: str, at: float, *, gpus: int = 4, since: float = 20, **words: Any) -> None:
    """A Workload of the LocalQueue of the ClusterQueue of a case, as told at a minute."""
    row = {
        "scheduler": "kueue", "kind": "Workload", "uid": name, "name": name, "namespace": "ml", "job_id": f"ml/{name}",
        "queue": f"lq-{name}", "state": "pending", "reason": "WaitingForQuota", "device_count": gpus,
        "submit_us": since, "observed_us": at,
    }  # fmt: skip
    tell(w, "workload", **(row | words))


def starved(
    w: World,
    n: str,
    *,
    used: int = 4,
    other: int = 12,
    gpus: int = 4,
    since: float = 20,
    until: float = 140,
    lender: dict[str, Any] | None = None,
    borrower: dict[str, Any] | None = None,
    **words: Any,
) -> None:
    """Four GPUs wanted where 4 of 8 are used, while another queue of the cohort uses 12 of its 8."""
    tell(w, "queue", scheduler="kueue", kind="local_queue", name=f"lq-{n}", namespace="ml", parent=n, observed_us=5)
    for at in HOURLY:
        queue(w, n, at, 8, used, **({"cohort": f"all-{n}"} | (lender or {})))
        queue(w, f"{n}-other", at, 8, other, **({"cohort": f"all-{n}"} | (borrower or {})))
    for at in [since, *(t for t in (75, 135) if since < t < until)]:
        gang(w, n, at, gpus=gpus, since=since, **words)
    gang(w, n, until, gpus=gpus, since=since, **(words | {"state": "admitted"}))


def beside(w: World, n: str, quota: int, used: int, **words: Any) -> None:
    """The same, and a third queue of the cohort."""
    starved(w, n)
    for at in HOURLY:
        queue(w, f"{n}-third", at, quota, used, **({"cohort": f"all-{n}"} | words))


def pooled(w: World, n: str, quota: int, flavor: str = "h100", **words: Any) -> None:
    """The same in a cohort with quota of its own, which is a part of another one. `words` are of its last record."""
    for at in HOURLY:
        row = {"scheduler": "kueue", "kind": "cohort", "name": f"all-{n}", "parent": f"root-{n}", "observed_us": at}
        row |= words if at == HOURLY[-1] else {}
        tell_all(w, "queue", [row, row | {"flavor": flavor, "quota": {"": quota}}])
    starved(w, n)


def interrupted(w: World, n: str) -> None:
    """The other borrows for twenty minutes, gives back, and borrows for twenty minutes again."""
    starved(w, n, other=8)
    for at, used in ((20, 12), (40, 8), (80, 12), (100, 8)):
        queue(w, f"{n}-other", at, 8, used, cohort=f"all-{n}")


def volcano(w: World, n: str, profile: str = "", **borrower: Any) -> None:
    """Queues of Volcano share the whole cluster: cases differ in their profile."""
    queues: dict[str, tuple[int, dict[str, Any]]] = {n: (4, {}), f"{n}-other": (12, borrower)}
    for at in HOURLY:
        for name, (used, more) in queues.items():
            row = {"scheduler": "volcano", "kind": "queue", "name": name, "observed_us": at, "state": "Open"}
            borrowed = {profile: max(0, used - 8)}
            tell(w, "queue", **(row | {"quota": {profile: 8}, "used": {profile: used}, "borrowed": borrowed} | more))
    row = {"scheduler": "volcano", "kind": "PodGroup", "uid": n, "name": n, "job_id": f"ml/{n}", "queue": n}
    for at in (20, 75, 130):
        tell(
            w, "workload", **row, state="reserved", reason="NotEnoughResources", device_count=4, submit_us=20,
            observed_us=at, profile=profile or None,
        )  # fmt: skip


def volcano_beside(w: World, n: str, profile: str) -> None:
    """The same, and a third queue that uses nothing of its quota: that need not be free GPUs."""
    volcano(w, n, profile)
    for at in HOURLY:
        row = {"scheduler": "volcano", "kind": "queue", "name": f"{n}-third", "observed_us": at, "state": "Open"}
        tell(w, "queue", **row, quota={profile: 8}, used={profile: 0}, borrowed={profile: 0})


def snapshot(w: World, n: str) -> None:
    """Seen once, at minute 130, after waiting since minute 20."""
    tell(w, "queue", scheduler="kueue", kind="local_queue", name=f"lq-{n}", namespace="ml", parent=n, observed_us=130)
    queue(w, n, 130, 8, 4, cohort=f"all-{n}")
    queue(w, f"{n}-other", 130, 8, 12, cohort=f"all-{n}")
    gang(w, n, 130)
    gang(w, n, 131, state="admitted")


def tree(w: World, n: str) -> None:
    """The borrower is in another cohort under the same root."""
    for leaf in ("left", "right"):
        row = {"scheduler": "kueue", "kind": "cohort", "observed_us": 5}
        tell(w, "queue", **row, name=f"{leaf}-{n}", parent=f"root-{n}")
    starved(w, n, lender={"cohort": f"left-{n}"}, borrower={"cohort": f"right-{n}"})


QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 4 more needed"
OLD_QUOTA = QUOTA.replace("unused quota for", "unused quota in cohort for")

MUST_NOT_FIRE: dict[str, Scene] = {
    "29 minutes": lambda w, n: starved(w, n, until=49),
    "nobody borrows": lambda w, n: starved(w, n, other=8),
    "its own quota is in use": lambda w, n: starved(w, n, used=8),
    "it wants more than its quota has left": lambda w, n: starved(w, n, gpus=5),
    "its cohort has as much quota free elsewhere": lambda w, n: beside(w, n, 8, 4),
    "its cohort lends what it needs, and keeps the rest": lambda w, n: beside(w, n, 12, 0, lend_max={"": 4}),
    "its cohort has free quota of its own": lambda w, n: pooled(w, n, 4),
    "its cohort has free quota of its own, and lends its parent none": lambda w, n: pooled(w, n, 4, lend_max={"": 0}),
    "another flavor is borrowed": lambda w, n: starved(w, n, borrower={"flavor": "a100"}),
    "another cohort borrows": lambda w, n: starved(w, n, borrower={"cohort": f"far-{n}"}),
    "quota is there and no place near enough": lambda w, n: starved(w, n, reason="TopologyPlacementFailed"),
    "no flavor fits": lambda w, n: starved(w, n, reason="NoMatchingFlavor"),
    "those it displaces are on their way out": lambda w, n: starved(w, n, reason="WaitingForPreemptedWorkloads"),
    "an old Kueue says nothing of quota": lambda w, n: starved(w, n, reason="Pending", message="untolerated taint"),
    "its queue is on hold": lambda w, n: starved(w, n, lender={"state": "Hold"}),
    "nobody knows what it uses": lambda w, n: starved(w, n, lender={"used": None}),
    "twice twenty minutes": interrupted,
    "a queue of Volcano that keeps what it has": lambda w, n: volcano(
        w, n, "1g.10gb", preemption={"reclaimable": False}
    ),
    "no device count": lambda w, n: starved(w, n, device_count=None),
    "the quota of CPUs lacks": lambda w, n: starved(w, n, message=QUOTA.replace("nvidia.com/gpu", "cpu")),
    "an old Kueue says that quota of CPUs lacks": lambda w, n: starved(
        w, n, reason="Pending", message=OLD_QUOTA.replace("nvidia.com/gpu", "cpu")
    ),
    "an old Kueue says that CPUs may not be borrowed": lambda w, n: starved(
        w, n, reason="Pending", message="borrowing limit for cpu in flavor h100 exceeded"
    ),
    "others of its own queue have reserved the rest and wait for admission checks": lambda w, n: starved(
        w, n, lender={"detail": {"reserved": {"": 8}}}
    ),
    "what its queue has is not lent to anybody": lambda w, n: starved(w, n, lender={"lend_max": {"": 0}}),
    "it was switched off": lambda w, n: starved(w, n, state="evicted", detail={"active": False}),
}

MUST_FIRE: dict[str, tuple[Scene, tuple[float, float, str, float]]] = {
    "two hours": (starved, (20, 140, "high", 0.9)),
    "half an hour": (lambda w, n: starved(w, n, until=51), (20, 51, "medium", 0.9)),
    "an old Kueue tells it in its message": (
        lambda w, n: starved(w, n, reason="Pending", message=QUOTA),
        (20, 140, "high", 0.9),
    ),
    "the borrower sits in another branch of the tree": (tree, (20, 140, "high", 0.9)),
    "quota of CPUs and of GPUs lacks": (
        lambda w, n: starved(w, n, message=f"{QUOTA.replace('nvidia.com/gpu', 'cpu')}, {QUOTA}"),
        (20, 140, "high", 0.9),
    ),
    "an old Kueue says that quota lacks in the cohort": (
        lambda w, n: starved(w, n, reason="Pending", message=OLD_QUOTA),
        (20, 140, "high", 0.9),
    ),
    "a message that does not name what lacks": (
        lambda w, n: starved(w, n, reason="Pending", message="insufficient unused quota in cohort, 4 more needed"),
        (20, 140, "high", 0.9),
    ),
    "a part of what its queue has is lent": (
        lambda w, n: starved(w, n, lender={"lend_max": {"": 4}}, gpus=2),
        (20, 140, "high", 0.9),
    ),
    "its cohort has less quota free elsewhere": (lambda w, n: beside(w, n, 8, 5), (20, 140, "high", 0.9)),
    "its cohort has free quota that is not lent": (
        lambda w, n: beside(w, n, 8, 0, lend_max={"": 3}),
        (20, 140, "high", 0.9),
    ),
    "its cohort has free quota of another flavor": (
        lambda w, n: beside(w, n, 8, 0, flavor="a100"),
        (20, 140, "high", 0.9),
    ),
    "its cohort has free quota in a queue that is on hold": (
        lambda w, n: beside(w, n, 8, 0, state="Hold"),
        (20, 140, "high", 0.9),
    ),
    "its cohort, which had free quota, was deleted": (
        lambda w, n: pooled(w, n, 8, state="deleted"),
        (20, 140, "high", 0.9),
    ),
    "its cohort has too little quota of its own": (lambda w, n: pooled(w, n, 3), (20, 140, "high", 0.9)),
    "its cohort has quota of its own of another flavor": (
        lambda w, n: pooled(w, n, 8, "a100"),
        (20, 140, "high", 0.9),
    ),
    "queues of Volcano": (volcano, (20, 180, "high", 0.9)),
    "queues of Volcano, of which a third is idle": (
        lambda w, n: volcano_beside(w, n, "2g.20gb"),
        (20, 180, "high", 0.9),
    ),
    "seen once": (snapshot, (120, 131, "high", 0.9)),
}


def play(w: World) -> None:
    w.gpu("g", (180, IDLE)).job(
        "sign-of-life", 1, 0, None, heard=180, scheduler="kubernetes", pod="x", node="elsewhere"
    )
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(w, f"not{number}")
    for number, (scene, _) in enumerate(MUST_FIRE.values()):
        scene(w, f"is{number}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    w = World(tmp_path_factory.mktemp("queues"))
    play(w)
    report = w.analyze(180, detectors=[RULE])
    assert [] == report.failed_rules
    return w


def of(w: World, name: str) -> list[Verdict]:
    return [f for f in found(w, RULE) if f.subject.startswith(name) and f.subject.removeprefix(name) in ("", "-other")]


@pytest.mark.parametrize("number", range(len(MUST_NOT_FIRE)), ids=MUST_NOT_FIRE.keys())
def test_is_not_starved(world: World, number: int) -> None:

    assert [] == of(world, f"not{number}")


@pytest.mark.parametrize("number", range(len(MUST_FIRE)), ids=MUST_FIRE.keys())
def test_is_starved(world: World, number: int) -> None:
    expected = list(MUST_FIRE.values())[number][1]

    assert [("queue", f"is{number}", *expected)] == [
        (f.kind, f.subject, f.started, f.ended or 180.0, f.severity, f.confidence) for f in of(world, f"is{number}")
    ]


def test_evidence_names_numbers_and_the_borrower(world: World) -> None:
    (f,) = of(world, "is0")

    assert (1, 4, 120, 8, 4, 4, 8) == tuple(
        f.evidence[name]
        for name in (
            "waiting_jobs", "waiting_devices", "longest_wait_minutes", "quota_devices", "used_devices",
            "borrowed_devices", "unmet_gpu_hours",
        )
    )  # fmt: skip
    assert ("starved", "is0-other", "Never") == (f.evidence["case"], f.evidence["borrower"], f.evidence["reclaim"])
    assert 0 == f.wasted_s
    assert (
        "Waiting below quota (4 of 8 in use): 1 job for 4 GPUs, the longest for 2 h, while is0-other and others "
        "borrow 4 GPUs."
    ) == STARVATION.summary(f.evidence)


def test_hour_by_hour_says_what_one_pass_says(world: World, tmp_path: Path) -> None:
    often = World(tmp_path)
    play(often)
    for hour in (1, 2, 3):
        often.analyze(180, since_us=us(60 * (hour - 1)), until_us=us(60 * hour), detectors=[RULE])

    assert found(world, RULE) == found(often, RULE)
    assert len(MUST_FIRE) == len(found(often, RULE))


def test_waits_for_quota_as_kueue_tells_them(tmp_path: Path) -> None:
    """An evicted Workload tells its quota beside its eviction; it waits since then. Of two, one waits for CPUs."""
    conditions = captured_eviction()
    cpu = {name: conditions["QuotaReserved"][name] for name in ("reason", "message")}
    gpu = cpu | {"message": cpu["message"].replace("for cpu", "for nvidia.com/gpu")}
    w = World(tmp_path)
    w.gpu("g", (180, IDLE))
    starved(w, "a", state="evicted", reason="Preempted", evicted_us=60, detail={"waits": gpu})
    starved(w, "b", state="evicted", reason="Preempted", evicted_us=60, detail={"waits": cpu})
    w.analyze(180, detectors=[RULE])

    assert [("a", 60.0, 140.0)] == [(f.subject, f.started, f.ended) for f in found(w, RULE)]


DAY = 24 * 60


@pytest.mark.parametrize(
    ("busiest", "days", "own", "expected"),
    [
        pytest.param(3, 8, False, ["low"], id="three of eight for eight days"),
        pytest.param(4, 8, False, [], id="half of it, once, is use"),
        pytest.param(3, 6, False, [], id="six days"),
        pytest.param(3, 8, True, [], id="its own jobs wait too"),
    ],
)
def test_quota_that_its_queue_does_not_use(
    tmp_path: Path, busiest: int, days: int, own: bool, expected: list[str]
) -> None:
    w = World(tmp_path)
    end = days * DAY
    w.gpu("g", (120, IDLE), start=end - 120)
    rows: list[dict[str, Any]] = []
    for at in range(0, end, 60):
        rows += queue_records("kept", at + 1, 8, busiest if at == end - 3 * DAY else 0, cohort="all")
        rows += queue_records("full", at + 1, 8, 8, cohort="all")
    tell_all(w, "queue", rows)
    for name in ("full", "kept") if own else ("full",):
        tell(
            w, "queue", scheduler="kueue", kind="local_queue", name=f"lq-{name}", namespace="ml", parent=name,
            observed_us=1,
        )  # fmt: skip
        gang(w, name, end - 100, since=end - 100)
        gang(w, name, end - 40, since=end - 100)
    w.analyze(end, since_us=us(end - 120), until_us=us(end), detectors=[RULE])

    assert expected == [f.severity for f in found(w, RULE) if f.evidence["case"] == "idle reservation"]
    assert ["kept"][: len(expected)] == [f.subject for f in found(w, RULE)]


def test_doc_page_names_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors/starvation.md"

    assert printed_thresholds(STARVATION) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
