"""Free GPUs in pieces: what must not be called so, then what must, and what is claimed of the ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.detectors.fragmentation import FRAGMENTATION
from tests.worlds.detectors import H100, World, page_rows, us
from tests.worlds.fragmentation import asked, node, waits
from tests.worlds.scheduling import Verdict, found, tell

RULE = "fragmentation"
Scene = Callable[[World], object]


def pieces(w: World, held: int = 1) -> None:
    """Three nodes of four GPUs; of each some are held."""
    for name in ("n1", "n2", "n3"):
        node(w, name, 4, held)


def judged(tmp_path: Path, *scenes: Scene) -> list[Verdict]:
    w = World(tmp_path)
    for scene in scenes:
        scene(w)
    report = w.analyze(now=180, detectors=[RULE])
    assert [] == [text for text in report.failed_rules if text.startswith(RULE)]
    return found(w, RULE)


TAINTED = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {t: }."
MUST_NOT_FIRE: dict[str, list[Scene]] = {
    "no request is known": [pieces],
    "what is usually asked for fits": [pieces, lambda w: asked(w, 1, 20)],
    "less than half is lost": [pieces, lambda w: (asked(w, 1, 12), asked(w, 4, 10))],
    "too few requests to tell what is usual": [pieces, lambda w: asked(w, 4, 9)],
    "fewer free GPUs than a node has": [lambda w: node(w, "n1", 4, 1), lambda w: asked(w, 4, 20)],
    "requests for another model": [pieces, lambda w: asked(w, 4, 20, gpu_type="a100")],
    "nothing is free": [lambda w: pieces(w, 4), lambda w: asked(w, 4, 20)],
    "a request that waits for quota": [pieces, lambda w: waits(w, 4, 10, 150, "QOSMaxGRESPerUser")],
    "a request that waits for its turn": [pieces, lambda w: waits(w, 4, 10, 150, "Priority")],
    "nobody says why it waits": [pieces, lambda w: waits(w, 4, 10, 150, "")],
    "a request that waits for less than half an hour": [pieces, lambda w: waits(w, 4, 10, 39)],
    "a request for more than is free": [pieces, lambda w: waits(w, 10, 10, 150)],
    "a request that would fit": [pieces, lambda w: waits(w, 3, 10, 150)],
    "a request whose queue is not one of several pools": [
        pieces,
        lambda w: [tell(w, "node", scheduler="slurm", node=n, observed_us=1, state="up", pool=n) for n in ("n1", "n2")],
        lambda w: waits(w, 4, 10, 150, queue="other"),
    ],
    "pods that no taint lets in": [
        pieces,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", scheduler="kubernetes", job_id="lab/big"),
        lambda w: refused(w, TAINTED),
    ],
    "pods that no taint lets in, whose record has no namespace of its own": [
        pieces,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", scheduler="kubernetes", job_id="lab/big", message=TAINTED),
    ],
    "pods that no taint lets in, whose record has no namespace at all": [
        pieces,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", scheduler="kubernetes", job_id="big", message=TAINTED),
    ],
}


def severity(one: Verdict) -> str | None:
    return FRAGMENTATION.severity and FRAGMENTATION.severity(one.evidence, 1.0)


def refused(w: World, message: str) -> None:
    words = {"event_id": "e1", "object_kind": "Pod", "namespace": "lab", "name": "big-0", "reason": "FailedScheduling"}
    tell(w, "event", **words, message=message, count=1, first_us=11, last_us=140)


@pytest.mark.parametrize("scenes", MUST_NOT_FIRE.values(), ids=MUST_NOT_FIRE.keys())
def test_must_not_fire(tmp_path: Path, scenes: list[Scene]) -> None:
    assert [] == judged(tmp_path, *scenes)


def test_free_gpus_that_the_usual_requests_cannot_use(tmp_path: Path) -> None:
    [one] = judged(tmp_path, pieces, lambda w: asked(w, 4, 20))

    assert ("pool", H100, "medium", 0.0, "open") == (one.kind, one.subject, severity(one), one.started, one.state)
    assert 9 * (3 * 3600 - 30) == one.wasted_s, "half a step before the first sample nothing is known"
    assert (1.0, 3) == tuple(one.evidence[n] for n in ("fragmentation_ratio", "largest_gang_gpus"))


def test_a_shape_that_waits_beside_enough_free_gpus(tmp_path: Path) -> None:
    """It is critical; four of nine free GPUs are wasted from half an hour after it was submitted."""
    [one] = judged(tmp_path, pieces, lambda w: asked(w, 4, 1), lambda w: waits(w, 4, 10, 150))

    assert ("critical", 40.0, 150.0, "resolved") == (severity(one), one.started, one.ended, one.state)
    assert 4 * 110 * 60 == pytest.approx(float(one.wasted_s), abs=0.001)
    assert ("4", "big", 110, 1) == tuple(
        one.evidence[n] for n in ("shape", "waiting_job", "starved_minutes", "moved_gpus")
    )
    assert "job-n1 (1 GPU on n1)" == one.evidence["moves"]
    assert one.evidence["blockers"].startswith("job-n1 (")


def test_pods_that_only_lack_gpus_are_starved(tmp_path: Path) -> None:
    [one] = judged(
        tmp_path,
        pieces,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", scheduler="kubernetes", job_id="lab/big"),
        lambda w: refused(
            w,
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, "
            "3 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available.",
        ),
    )

    assert "lab/big" == one.evidence["waiting_job"]
    assert 4 * 110 * 60 == pytest.approx(float(one.wasted_s), abs=0.001), (
        "free GPUs count although no request of the day before made them stranded"
    )


KUBERNETES = {"scheduler": "kubernetes", "job_id": "lab/big", "namespace": "lab", "queue": "team-queue"}


def two_pools(w: World, held_b: int = 1) -> None:
    """Three nodes of each pool, of the first with four GPUs and one held."""
    for name, held in (("a1", 1), ("a2", 1), ("a3", 1), ("b1", held_b), ("b2", 4), ("b3", 4)):
        node(w, name, 4, held)
        tell(w, "node", scheduler="kubernetes", node=name, observed_us=1, state="up", pool=name[0])


def test_a_pod_that_any_of_several_pools_could_take_waits_for_each(tmp_path: Path) -> None:
    """Another reason for some nodes does not hide the GPUs that the others lack. The claims of both pools are four GPUs."""
    both = judged(
        tmp_path,
        two_pools,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", **KUBERNETES),
        lambda w: refused(
            w,
            "0/8 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 6 Insufficient nvidia.com/gpu.",
        ),
    )

    assert [("a", 4), ("b", 4)] == sorted((one.subject, one.evidence["wanted_gpus"]) for one in both)
    assert 4 * 110 * 60 == pytest.approx(sum(float(one.wasted_s) for one in both), abs=0.001)


def test_a_pod_that_one_of_its_pools_could_take_is_not_starved(tmp_path: Path) -> None:
    assert [] == judged(
        tmp_path, lambda w: two_pools(w, held_b=0), lambda w: waits(w, 4, 10, 150, "Unschedulable", **KUBERNETES),
        lambda w: refused(w, "0/6 nodes are available: 6 Insufficient nvidia.com/gpu."),
    )  # fmt: skip


def test_a_pod_does_not_wait_for_nodes_of_another_scheduler(tmp_path: Path) -> None:
    """Pool b is Slurm's. The pod's own pool is full."""
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."

    def two_schedulers(w: World) -> None:
        for name, held, scheduler in (("a1", 4, "kubernetes"), ("b1", 1, "slurm"), ("b2", 1, "slurm")):
            node(w, name, 4, held)
            tell(w, "node", scheduler=scheduler, node=name, observed_us=1, state="up", pool=name[0])

    rule = {"terms": [[["nodepool", "In", ["a", "c"]]]]}
    assert [] == judged(
        tmp_path, two_schedulers,
        lambda w: waits(w, 4, 10, 150, "Unschedulable", **KUBERNETES, message=message, node_rule=rule),
    )  # fmt: skip


def ruled(w: World, rule: dict[str, object], **node_columns: object) -> None:
    """Pool b has four free GPUs on one node, with some labels or taints; the pod that waits has a rule."""
    two_pools(w, held_b=0)
    for name in ("a1", "a2", "a3", "b1"):
        told = node_columns if name == "b1" else {"labels": {"zone": "a"}}
        tell(w, "node", scheduler="kubernetes", node=name, observed_us=2, state="up", pool=name[0], **told)
    message = "0/6 nodes are available: 2 node(s) had untolerated taint {x: }, 4 Insufficient nvidia.com/gpu."
    waits(w, 4, 10, 150, "Unschedulable", **KUBERNETES, message=message, node_rule=rule)


@pytest.mark.parametrize(
    ("rule", "columns", "subjects"),
    [
        pytest.param({"terms": [[["zone", "In", ["a"]]]]}, {"labels": {"zone": "b"}}, ["a"], id="not selected"),
        pytest.param({"terms": [[["zone", "In", ["a", "b"]]]]}, {"labels": {"zone": "b"}}, [], id="selected"),
        pytest.param({"terms": [[["zone", "NotIn", ["b"]]]]}, {"labels": {"zone": "b"}}, ["a"], id="kept away"),
        pytest.param({"terms": [[["disk", "In", ["ssd"]]]]}, {"labels": {"zone": "b"}}, [], id="a label of no node"),
        pytest.param({"terms": []}, {"taints": '[["x","","NoSchedule"]]'}, ["a"], id="tainted"),
        pytest.param(
            {"tolerations": [["x", "Exists", "", None]]}, {"taints": '[["x","","NoSchedule"]]'}, [], id="tolerated"
        ),
    ],
)
def test_a_place_is_free_only_on_nodes_that_a_pod_may_use(
    tmp_path: Path, rule: dict[str, object], columns: dict[str, object], subjects: list[str]
) -> None:
    """The message is that of the pods; events are gone."""
    assert subjects == [one.subject for one in judged(tmp_path, lambda w: ruled(w, rule, **columns))]


def test_records_of_a_job_that_are_hours_apart_are_one_wait(tmp_path: Path) -> None:
    """sacct dates a waiting job to its submission; scontrol's record comes with the next dump."""
    row = {"scheduler": "slurm", "job_id": "big", "submit_us": 5, "device_count": 4, "node_count": 1}
    [one] = judged(
        tmp_path,
        pieces,
        lambda w: [tell(w, "pending", **row, evidence_us=at, reason="Resources") for at in (5, 160)],
    )

    assert (35.0, 160.0) == (one.started, one.ended)


def test_a_wait_ends_when_its_job_starts(tmp_path: Path) -> None:
    """No record in between; what it waited after that run was queued again counts from the run's end."""
    row = {"scheduler": "slurm", "job_id": "big", "submit_us": 5, "device_count": 4, "node_count": 1}

    def ran(w: World) -> None:
        node(w, "n4", 4, 0)
        w.job("big", [f"n4-{n}" for n in range(4)], 60, 100, node="n4")
        w.job("next", [f"n4-{n}" for n in range(4)], 0, 60, node="n4")
        w.job("last", [f"n4-{n}" for n in range(4)], 100, 180, node="n4")

    [one] = judged(
        tmp_path,
        pieces,
        ran,
        lambda w: [tell(w, "pending", **row, evidence_us=at, reason="Resources") for at in (5, 160)],
    )

    assert 85 == one.evidence["starved_minutes"], "35 to 60 and 100 to 160"


def test_judged_hour_by_hour_it_is_the_same_finding(tmp_path: Path) -> None:
    w = World(tmp_path)
    pieces(w)
    asked(w, 4, 1)
    waits(w, 4, 10, 150)
    w.analyze(now=180, detectors=[RULE])
    before = w.rows("finding")
    w.analyze(now=180, since_us=us(60), until_us=us(120), detectors=[RULE])

    assert before == w.rows("finding")


def test_the_doc_page_says_the_thresholds(checkout: Path) -> None:
    page = page_rows(checkout / "docs/detectors/fragmentation.md")

    assert {"fragmentation_min": "0.5", "requests_min": "10", "wait_us_min": "30 min"} == page
    assert set(page) == {threshold.name for threshold in FRAGMENTATION.thresholds}
