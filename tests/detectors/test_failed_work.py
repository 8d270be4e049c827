"""Work lost with failed runs: first the runs that lost nothing, or nothing that is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from gpuwatch.core.clock import Window
from gpuwatch.detectors.failed_work import FAILED_WORK
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.inbox import summary
from gpuwatch.findings.selection import Filters
from gpuwatch.rates.card import Rate
from gpuwatch.rates.repository import replace_rates
from gpuwatch.report.overview import Scope, overview
from gpuwatch.scan.facts import read_scan
from tests.worlds.detectors import (
    H100,
    PAGE_HEADINGS,
    WORK,
    Level,
    World,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
    without,
)
from tests.worlds.subjects import findings_of, granted_s

RULE = "failed-work"
HOUR = 60.0
DAY = 24 * HOUR
SAVES = {"gpuwatch.io/checkpoint-minutes": "20"}

BLIND = without(WORK, "sm_active_ratio", "sm_occupancy_ratio")

Scene = Callable[[World, str], object]


def runs(
    world: World,
    name: str,
    *ends: tuple[str, float, float],
    gpus: int = 8,
    job_name: str | None = None,
    labels: Mapping[str, str] | None = None,
    queue: str = "gpu",
    readings: Level = WORK,
) -> None:
    """Runs of a Slurm job on one node: (state, start, end) in minutes. The GPUs are sampled every ten hours."""
    first, last = min(start for _, start, _ in ends), max(end for _, _, end in ends)
    uuids = [f"{name}-{gpu}" for gpu in range(gpus)]
    for uuid in uuids:
        world.gpu(uuid, (last - first, readings), start=first, node=name, step_s=36_000)
    for number, (state, start, end) in enumerate(ends):
        world.claim(
            scheduler="slurm", kind="sacct", job_id=name, run_key=f"{name}@{number}", node=name, device_count=gpus,
            gpus=",".join(uuids), submit_us=us(start), start_us=us(start), end_us=us(end), evidence_us=us(end),
            state=state, user_name="ada", account="vision", name=job_name, queue=queue,
            labels=json.dumps(labels) if labels else None,
        )  # fmt: skip


def pods(
    world: World,
    name: str,
    *parts: tuple[str, float, float],
    labels: Mapping[str, str] | None = None,
    apart: bool = True,
) -> None:
    """Pods of one Kubernetes Job with four GPUs each: (state, start, end); `apart`: each on a node of its own."""
    for number, (state, start, end) in enumerate(parts):
        node = f"{name}-{number if apart else 0}"
        uuids = [f"{node}-{gpu}" for gpu in range(4)]
        for uuid in uuids if apart or number == 0 else ():
            world.gpu(uuid, (40 * HOUR, WORK), node=node, step_s=36_000)
        world.claim(
            scheduler="kubernetes", kind="k8s-json", job_id=f"ml/{name}", run_key=f"u-{name}", pod=f"{name}-{number}",
            pod_uid=f"{name}-{number}", namespace="ml", node=node, device_count=4, gpus=",".join(uuids),
            submit_us=us(start), start_us=us(start), end_us=us(end), evidence_us=us(end), state=state,
            labels=json.dumps(labels) if labels else None,
        )  # fmt: skip


def blocked(
    world: World,
    name: str,
    *records: tuple[str, float],
    restarts: int | None = None,
    end: float | None = None,
    labels: Mapping[str, str] = {},
    beside: str | None = None,
) -> None:
    """What was read at some times (minutes) of a pod with four GPUs since 0; `beside`: the state of another one on its node."""
    failures = (
        {} if restarts is None else {"gpuwatch.io/restarts": str(restarts), "gpuwatch.io/last-exit": "exit code 1"}
    )
    uuids = [f"{name}-{gpu}" for gpu in range(4 if beside is None else 8)]
    for uuid in uuids:
        world.gpu(uuid, (40 * HOUR, WORK), node=name, step_s=36_000)
    others = [] if beside is None else [(beside, 40 * HOUR)]
    for number, part in enumerate([records, others]):
        for state, at in part:
            own = dict(labels) | ({} if number else failures)
            world.claim(
                scheduler="kubernetes", kind="k8s-json", job_id=f"ml/{name}", run_key=f"u-{name}", pod=f"{name}-{number}",
                pod_uid=f"{name}-{number}", namespace="ml", node=name, device_count=4, start_us=us(0),
                end_us=None if end is None else us(end), evidence_us=us(at), state=state,
                labels=json.dumps(own) if own else None,
            )  # fmt: skip


def looped(world: World, name: str, *records: tuple[str, float, int], until: float = 40 * HOUR) -> None:
    """What was read (state, minutes, restarts) of a pod with four GPUs that has worked since 0; the last record reaches to `until`."""
    for gpu in range(4):
        world.gpu(f"{name}-{gpu}", (until, WORK), node=name, step_s=36_000)
    for state, at, restarts in records:
        failures = {"gpuwatch.io/restarts": str(restarts), "gpuwatch.io/last-exit": "exit code 1"} if restarts else {}
        world.claim(
            scheduler="kubernetes", kind="k8s-json", job_id=f"ml/{name}", run_key=f"u-{name}", pod=f"{name}-0",
            pod_uid=f"{name}-0", namespace="ml", node=name, device_count=4, start_us=us(0), end_us=None,
            evidence_us=us(at), state=state, labels=json.dumps(failures) if failures else None,
        )  # fmt: skip


MUST_NOT_FIRE: dict[str, Scene] = {
    "a crash loop after good work that is over": lambda w, n: looped(
        w, n, ("Running", 10 * HOUR, 0), ("CrashLoopBackOff", 20 * HOUR, 4), ("Running", 22 * HOUR, 30)
    ),
    "a few restarts after good work": lambda w, n: looped(
        w, n, ("Running", 10 * HOUR, 0), ("CrashLoopBackOff", 39 * HOUR, 4), ("CrashLoopBackOff", 40 * HOUR, 9)
    ),
    "restarts that are hours apart": lambda w, n: looped(
        w, n, ("Running", 2 * HOUR, 4), ("Running", 20 * HOUR, 20), ("CrashLoopBackOff", 40 * HOUR, 40)
    ),
    "a pod that fails now, and nobody knows since when": lambda w, n: looped(w, n, ("CrashLoopBackOff", 40 * HOUR, 90)),
    "an image that was pulled after some minutes": lambda w, n: blocked(
        w, n, ("ImagePullBackOff", 10), ("Running", 40 * HOUR)
    ),
    "an image that was not pulled for an hour": lambda w, n: blocked(w, n, ("ImagePullBackOff", HOUR), end=HOUR),
    "a container that just failed": lambda w, n: blocked(w, n, ("CrashLoopBackOff", 40 * HOUR)),
    "a container that failed a few times in days": lambda w, n: blocked(
        w, n, ("CrashLoopBackOff", 40 * HOUR), restarts=20
    ),
    "a pod in a crash loop on the node of one that runs": lambda w, n: blocked(
        w, n, ("CrashLoopBackOff", 40 * HOUR), restarts=400, beside="Running"
    ),
    "an exempt pod in a crash loop": lambda w, n: blocked(
        w, n, ("CrashLoopBackOff", 40 * HOUR), restarts=400, labels={"gpuwatch.io/exempt-until": "2026-12-31"}
    ),
    "a job that completed": lambda w, n: runs(w, n, ("COMPLETED", 0, 40 * HOUR)),
    "a job that its user cancelled": lambda w, n: runs(w, n, ("CANCELLED", 0, 40 * HOUR)),
    "a job that was preempted": lambda w, n: runs(w, n, ("PREEMPTED", 0, 40 * HOUR)),
    "a job that was requeued by hand": lambda w, n: runs(w, n, ("REQUEUED", 0, 40 * HOUR)),
    "an end that no record explains": lambda w, n: runs(w, n, ("RUNNING", 0, 40 * HOUR)),
    "a state that is not known": lambda w, n: runs(w, n, ("GONE", 0, 40 * HOUR)),
    "a failure in the first minutes": lambda w, n: runs(w, n, ("FAILED", 0, 20)),
    "one GPU for seven hours": lambda w, n: runs(w, n, ("FAILED", 0, 7 * HOUR), gpus=1),
    "a time limit of a job that saves and goes on": lambda w, n: runs(
        w, n, ("TIMEOUT", 0, 24 * HOUR), ("COMPLETED", 24 * HOUR + 5, 40 * HOUR), labels=SAVES, job_name="pretrain"
    ),
    "a session at its time limit": lambda w, n: runs(w, n, ("TIMEOUT", 0, 8 * HOUR), job_name="jupyter-ada"),
    "a session in an interactive partition": lambda w, n: runs(w, n, ("TIMEOUT", 0, 8 * HOUR), queue="interactive"),
    "a server at its time limit": lambda w, n: runs(
        w, n, ("TIMEOUT", 0, 40 * HOUR), labels={"gpuwatch.io/workload-class": "serving"}
    ),
    "an exempt job": lambda w, n: runs(
        w, n, ("FAILED", 0, 40 * HOUR), labels={"gpuwatch.io/exempt-until": "2026-12-31"}
    ),
    "a pod of a Deployment that was evicted": lambda w, n: pods(
        w, n, ("Evicted", 0, 40 * HOUR), labels={"pod-template-hash": "5d5"}
    ),
    "pods that someone deleted": lambda w, n: pods(w, n, ("Deleted", 0, 40 * HOUR), ("Deleted", 0, 40 * HOUR)),
    "a failed pod on the node of one that completed": lambda w, n: pods(
        w, n, ("Failed", 0, 10 * HOUR), ("Succeeded", 0, 40 * HOUR), apart=False
    ),
}

MUST_FIRE: dict[str, tuple[Scene, float, str, float]] = {
    # the case, GPU-hours that are lost, the reason, the confidence
    "eight GPUs for forty hours": (lambda w, n: runs(w, n, ("FAILED", 0, 40 * HOUR)), 320, "failed", 0.9),
    "a node that failed": (lambda w, n: runs(w, n, ("NODE_FAIL", 0, 40 * HOUR)), 320, "node failure", 0.9),
    "a job whose SM_ACTIVE is not read, and whose pauses would not be seen": (
        lambda w, n: runs(w, n, ("FAILED", 0, 40 * HOUR), readings=BLIND), 320, "failed", 0.6
    ),
    "declared checkpoints of a job whose SM_ACTIVE is not read": (
        lambda w, n: runs(
            w, n, ("FAILED", 0, 40 * HOUR), labels={"gpuwatch.io/checkpoint-minutes": "240"}, readings=BLIND
        ),
        16, "failed", 0.9,
    ),
    # Sampled every ten hours, so SM_ACTIVE of a run of two hours is not known.
    "out of memory": (lambda w, n: runs(w, n, ("OUT_OF_MEMORY", 0, 2 * HOUR)), 16, "out of memory", 0.6),
    "a time limit": (lambda w, n: runs(w, n, ("TIMEOUT", 0, 40 * HOUR)), 320, "time limit", 0.7),
    "a time limit, and a run of the same name after it": (
        lambda w, n: runs(w, n, ("TIMEOUT", 0, 24 * HOUR), ("COMPLETED", 24 * HOUR + 5, 40 * HOUR), job_name=n),
        192, "time limit", 0.4,
    ),
    "half of what lies between two checkpoints": (
        lambda w, n: runs(
            w, n, ("FAILED", 0, 40 * HOUR), labels={"gpuwatch.io/checkpoint-minutes": "240"}
        ),
        16, "failed", 0.9,
    ),
    "retries are one case": (
        lambda w, n: runs(
            w, n, ("FAILED", 0, HOUR), ("NODE_FAIL", HOUR + 5, 3 * HOUR), ("COMPLETED", 3 * HOUR + 5, 40 * HOUR)
        ),
        8 + 8 * 115 / 60, "node failure", 0.6,
    ),
    "a pod out of memory takes its gang with it": (
        lambda w, n: pods(w, n, ("OOMKilled", 0, 10 * HOUR), ("Deleted", 0, 10 * HOUR + 1)), 80, "out of memory", 0.9,
    ),
    "a pod that failed, and a second try that completed": (
        lambda w, n: pods(w, n, ("Failed", 0, 10 * HOUR), ("Succeeded", 10 * HOUR + 1, 30 * HOUR), apart=False),
        40, "failed", 0.9,
    ),
    "a deadline": (lambda w, n: pods(w, n, ("DeadlineExceeded", 0, 40 * HOUR)), 160, "time limit", 0.7),
    "evicted by the kubelet": (lambda w, n: pods(w, n, ("Evicted", 0, 40 * HOUR)), 160, "evicted by the node", 0.9),
    "an image that cannot be pulled": (
        lambda w, n: blocked(w, n, ("ImagePullBackOff", HOUR), ("ImagePullBackOff", 40 * HOUR)), 160, "image not pulled", 0.9,
    ),
    "an image that was never pulled until its pod was deleted": (
        lambda w, n: blocked(w, n, ("ImagePullBackOff", HOUR), ("ImagePullBackOff", 10 * HOUR), end=10 * HOUR),
        40, "image not pulled", 0.9,
    ),
    "a secret that is missing": (
        lambda w, n: blocked(w, n, ("CreateContainerConfigError", 40 * HOUR)), 160, "container not created", 0.9,
    ),
    "a crash loop that began after good work, from the first record of it": (
        lambda w, n: looped(
            w, n, ("Running", 20 * HOUR, 0), ("CrashLoopBackOff", 30 * HOUR, 4), ("CrashLoopBackOff", 40 * HOUR, 120)
        ),
        40, "crash loop", 0.9,
    ),
    "a container that fails again and again": (
        lambda w, n: blocked(w, n, ("CrashLoopBackOff", 40 * HOUR), restarts=400), 160, "crash loop", 0.9,
    ),
    "one of a service that runs for a minute each time": (
        lambda w, n: blocked(w, n, ("Running", 40 * HOUR), restarts=400, labels={"pod-template-hash": "5d5"}),
        160, "crash loop", 0.9,
    ),
    "both pods of a node": (
        lambda w, n: blocked(w, n, ("CrashLoopBackOff", 40 * HOUR), restarts=400, beside="ImagePullBackOff"),
        320, "crash loop", 0.9,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases at once."""
    world = World(tmp_path_factory.mktemp("world"))
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *(case[0] for case in MUST_FIRE.values())]):
        scene(world, f"q{number}")
    rate = Rate(H100, "owned", Decimal("2.50"), us(-DAY), None, None, None, None)
    replace_rates(world.state, [rate], "test", "test", 0)
    world.analyze(41 * HOUR, detectors=[RULE])
    return world


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_reports_nothing_for(world: World, case: str) -> None:
    name = f"q{list(MUST_NOT_FIRE).index(case)}"

    assert [] == [one.subject for one in findings_of(world, RULE) if one.subject in (name, f"ml/{name}")]


@pytest.mark.parametrize("case", MUST_FIRE)
def test_reports(world: World, case: str) -> None:
    name = f"q{len(MUST_NOT_FIRE) + list(MUST_FIRE).index(case)}"
    _, lost, reason, confidence = MUST_FIRE[case]
    (one,) = [one for one in findings_of(world, RULE) if one.subject in (name, f"ml/{name}")]

    assert (lost, reason, confidence) == (
        pytest.approx(one.evidence["lost_gpu_hours"], rel=5e-4), one.evidence["reason"], one.confidence,
    )  # fmt: skip


def test_forty_hours_of_eight_gpus_have_a_price_and_claim_no_bucket(world: World) -> None:
    name = f"q{len(MUST_NOT_FIRE)}"
    (one,) = [one for one in findings_of(world, RULE) if one.subject == name]

    assert ("job", "open", 0.0, 8, 0) == (
        one.kind, one.state, one.started, one.devices, one.wasted_s,
    )  # fmt: skip
    assert ("800.00", "USD", 1, 8) == tuple(one.evidence[key] for key in ("lost_cost", "currency", "failures", "gpus"))
    assert (
        "1 run on 8 GPUs ended without a result: 320 GPU-hours of work lost ($800); reason: its program ended with an error."
        == FAILED_WORK.summary(one.evidence)
    )
    assert {} == granted_s(world, RULE)


@pytest.mark.parametrize(("usd", "cost"), [("5", "1600.00"), ("2.50", "800.00")])
def test_the_price_follows_the_rates(world: World, usd: str, cost: str) -> None:
    """Without new records of the job."""
    rate = Rate(H100, "owned", Decimal(usd), us(-DAY), None, None, None, None)
    replace_rates(world.state, [rate], "test", "test", 0)
    world.analyze(41 * HOUR, detectors=[RULE])
    (one,) = [one for one in findings_of(world, RULE) if one.subject == f"q{len(MUST_NOT_FIRE)}"]

    assert (cost, "open", 0.0) == (one.evidence["lost_cost"], one.state, one.started)


def test_the_largest_loss_comes_first(world: World) -> None:
    found = findings_read.read(world.store, detectors=[RULE])
    assert {("vision", True), ("ml", True)} == {(one.team, one.inferred) for one in found}
    lost = [float(one.evidence["lost_cost"] or one.evidence["lost_gpu_hours"]) for one in found]

    assert len(MUST_FIRE) == len(lost)
    assert sorted(lost, reverse=True) == lost


@pytest.mark.parametrize(("lost", "severity"), [(99.9, "low"), (100, "medium"), (1000, "high")])
def test_the_severity_follows_what_was_lost(lost: float, severity: str) -> None:
    assert FAILED_WORK.severity is not None
    assert severity == FAILED_WORK.severity({"lost_gpu_hours": lost}, 40)


def test_retries_are_listed_by_reason(world: World) -> None:
    name = f"q{len(MUST_NOT_FIRE) + list(MUST_FIRE).index('retries are one case')}"
    (one,) = [one for one in findings_of(world, RULE) if one.subject == name]

    assert (2, "node failure 15.3 GPU-hours, failed 8.0 GPU-hours") == (
        one.evidence["failures"], one.evidence["by_reason"],
    )  # fmt: skip


def test_the_remedy_follows_the_reason() -> None:
    assert "log of the run" in FAILED_WORK.remedy({"reason": "failed"})
    assert "hardware errors" in FAILED_WORK.remedy({"reason": "node failure"})
    assert "more often than every 4 h" in FAILED_WORK.remedy({"reason": "failed", "checkpoint_minutes": 240})
    assert "may have continued" in FAILED_WORK.remedy({"reason": "time limit", "continued": "possibly"})


def test_a_pod_without_a_running_container_is_reported_to_hold_its_gpus(world: World) -> None:
    name = f"ml/q{len(MUST_NOT_FIRE) + list(MUST_FIRE).index('an image that cannot be pulled')}"
    (one,) = [one for one in findings_of(world, RULE) if one.subject == name]

    expected = "4 GPUs held while no container runs: 160 GPU-hours ($400); reason: image not pulled."
    assert (expected, "open", 0.0) == (FAILED_WORK.summary(one.evidence), one.state, one.started)
    assert "pull secret" in FAILED_WORK.remedy(one.evidence)


def test_it_stays_open_for_a_week(tmp_path: Path) -> None:
    world = World(tmp_path)
    runs(world, "a", ("FAILED", 0, 10 * HOUR))
    world.analyze(11 * HOUR, detectors=[RULE])
    states = [findings_of(world, RULE)[0].state]
    world.gpu("later", (10, WORK), start=6 * DAY, node="later")
    world.analyze(6 * DAY + HOUR, detectors=[RULE])
    states.append(findings_of(world, RULE)[0].state)
    world.gpu("latest", (10, WORK), start=8 * DAY, node="latest")
    world.analyze(8 * DAY + HOUR, detectors=[RULE])
    (one,) = findings_of(world, RULE)

    assert ["open", "open", "resolved"] == [*states, one.state]
    assert 10 * HOUR == one.ended


def test_the_finding_of_a_reading_that_was_replaced_is_withdrawn(tmp_path: Path) -> None:
    """The times of the first import were read in another time zone: the job ran five hours later."""
    world = World(tmp_path)
    world.gpu("other", (20 * HOUR, WORK), node="other", step_s=3600)
    for start in (0, 5 * HOUR):
        world.store.sql("delete from claim")
        for task, state in (("1", "FAILED"), ("2", "COMPLETED")):
            at = start + 30 * HOUR * (state == "COMPLETED")
            world.claim(
                scheduler="slurm", kind="sacct", job_id="101", run_key=f"{task}@{at}", node="n1", device_count=8,
                start_us=us(at), end_us=us(at + 10 * HOUR), evidence_us=us(at + 10 * HOUR), state=state, account="vision",
            )  # fmt: skip
        world.analyze(48 * HOUR, detectors=[RULE])

    found = sorted(world.findings(RULE), key=lambda one: one.started or 0)
    assert [(0, "resolved", "records changed"), (5 * HOUR, "open", None)] == [
        (one.started, one.state, one.reason) for one in found
    ]
    assert [(us(5 * HOUR),)] == world.store.sql("select start_us from verdict where detector = 'failed-work'")


def test_evaluating_again_changes_nothing(world: World) -> None:
    before = world.rows("finding")
    world.analyze(42 * HOUR, detectors=[RULE])

    assert before == world.rows("finding")


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(FAILED_WORK) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)


def test_scans_the_overview_and_the_inbox_have_the_same_cost(world: World) -> None:
    """Lost work is an action with its own cost, unknown where a job has no price; no total of waste counts it."""
    costs: dict[str, list[str | None]] = {"vision": [], "ml": []}
    for one in findings_read.read(world.store, detectors=[RULE]):
        costs[one.team].append(one.evidence["lost_cost"])

    card = read_scan(world.store, world.state, None, us(41 * HOUR))
    acts = {one["team"]: one for one in card["actions"] if one["kind"] == "lost"}
    assert {team: together(known) for team, known in costs.items()} == {
        team: one["lost_cost"] for team, one in acts.items()
    }
    assert (None, "0.000") == (acts["vision"]["cost_a_month"], acts["vision"]["gpu_hours"])
    assert costs["ml"][:3] == [one["cost"] for one in acts["ml"]["subjects"]]

    window = Window(us(0), us(41 * HOUR))
    first = overview(world.store, world.state, window, Scope(), us(41 * HOUR), {}, False)["actions"]
    (lost,) = [one["lost_work"] for one in first if one["id"] == RULE]
    assert together(costs["vision"] + costs["ml"]) == lost["cost"]

    inbox = summary(world.store, Filters(), ["open"], us(41 * HOUR))
    assert (None, "0.0") == (inbox["total"]["cost_a_day"], inbox["total"]["gpu_hours_a_day"])
    assert {RULE} == {cause["detector"] for cause in inbox["causes"]}


def together(costs: Sequence[str | None]) -> str | None:
    """The sum of costs; unknown if one of them is."""
    known = [Decimal(cost) for cost in costs if cost is not None]
    return f"{sum(known):.2f}" if len(known) == len(costs) else None
