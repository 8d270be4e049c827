"""Several authorities on one pool: what must not be called so, then what must, and what proves it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.detectors.scheduler_conflict import SCHEDULER_CONFLICT
from tests.worlds.detectors import PAGE_HEADINGS, WORK, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.scheduling import Verdict, found, tell

RULE = "scheduler-conflict"
Scene = Callable[[World, str], object]
DAY = 24 * 60


def node(w: World, pool: str, number: int = 0, gpus: int = 2) -> str:
    """A node of a pool whose GPUs are measured for two hours."""
    name = f"{pool}-{number}"
    for gpu in range(gpus):
        w.gpu(f"{name}-{gpu}", (240, WORK), node=name, step_s=600)
    tell(w, "node", scheduler="slurm", node=name, observed_us=0, state="up", devices={"": gpus}, pool=pool)
    return name


def slurm(w: World, name: str, start: float, end: float, *, gpu: int = 0, state: str = "COMPLETED") -> None:
    w.claim(
        scheduler="slurm", kind="scontrol", job_id=f"s{name}-{gpu}-{start:g}", run_key=f"s{name}-{gpu}-{start:g}", node=name, device_count=1,
        gpus=f"{name}-{gpu}", start_us=us(start), end_us=us(end), evidence_us=us(end), state=state, account="a",
    )  # fmt: skip


def pod(
    w: World, name: str, start: float, end: float, *, gpu: int = 0, namespace: str = "ml", queue: str | None = None,
    state: str = "Succeeded", labels: dict[str, str] | None = None,
) -> None:  # fmt: skip
    job = f"p{name}-{gpu}-{start:g}"
    w.claim(
        scheduler="kubernetes", kind="k8s-json", job_id=f"{namespace}/{job}", run_key=job, pod_uid=job, pod=job,
        namespace=namespace, node=name, device_count=1, gpus=f"{name}-{gpu}", start_us=us(start), end_us=us(end),
        evidence_us=us(end), state=state, queue=queue, labels=json.dumps(labels) if labels else None,
    )  # fmt: skip


def turns(w: World, pool: str, **more: Any) -> None:
    """Slurm, a pod, Slurm on one GPU of one node."""
    name = node(w, pool)
    slurm(w, name, 0, 60)
    pod(w, name, 70, 130, **more)
    slurm(w, name, 140, 200)


def disjoint(w: World, pool: str) -> None:
    one, two = node(w, pool), node(w, pool, 1)
    slurm(w, one, 0, 100)
    slurm(w, one, 110, 200)
    pod(w, two, 0, 200)


def handed_over(w: World, pool: str) -> None:
    name = node(w, pool)
    slurm(w, name, 0, 100)
    pod(w, name, 110, 200)


def seldom(w: World, pool: str) -> None:
    """Pods have 5 of 200 minutes."""
    name = node(w, pool)
    slurm(w, name, 0, 100)
    pod(w, name, 100, 105)
    slurm(w, name, 105, 200)


def ray_inside(w: World, pool: str) -> None:
    name = node(w, pool)
    pod(w, name, 0, 200)
    w.claim(
        scheduler="ray", kind="ray", job_id=f"r{pool}", run_key=f"r{pool}@s", node=f"p{name}-0-0", device_count=1,
        start_us=us(20), end_us=us(100), evidence_us=us(100), state="SUCCEEDED",
    )  # fmt: skip


def gated(w: World, pool: str) -> None:
    """Kueue's jobs in one namespace, pods of a namespace without a queue in another: the default scheduler binds all."""
    name = node(w, pool)
    tell(
        w, "queue", scheduler="kueue", kind="local_queue", name="lq", namespace=f"ns-{pool}", parent="cq", observed_us=0
    )
    pod(w, name, 0, 60, namespace=f"ns-{pool}", queue="lq")
    pod(w, name, 70, 130, namespace="free")
    pod(w, name, 140, 200, namespace=f"ns-{pool}", queue="lq")


def all_past(w: World, pool: str) -> None:
    """A LocalQueue that nobody uses: no two authorities."""
    name = node(w, pool)
    tell(
        w, "queue", scheduler="kueue", kind="local_queue", name="lq", namespace=f"ns-{pool}", parent="cq", observed_us=0
    )
    pod(w, name, 0, 60, namespace=f"ns-{pool}")
    pod(w, name, 70, 130, namespace="free")
    pod(w, name, 140, 200, namespace=f"ns-{pool}")


def past_the_queue(w: World, pool: str) -> None:
    name = node(w, pool)
    tell(
        w, "queue", scheduler="kueue", kind="local_queue", name="lq", namespace=f"ns-{pool}", parent="cq", observed_us=0
    )
    pod(w, name, 0, 60, namespace=f"ns-{pool}", queue="lq")
    pod(w, name, 70, 130, namespace=f"ns-{pool}")
    pod(w, name, 140, 200, namespace=f"ns-{pool}", queue="lq")


def two_binders(w: World, pool: str, label: str = "gpuwatch.io/scheduler-name", value: str = "volcano") -> None:
    name = node(w, pool)
    pod(w, name, 0, 60, namespace="free")
    pod(w, name, 70, 130, namespace="free", labels={label: value})
    pod(w, name, 140, 200, namespace="free")


def doubly_given(w: World, pool: str) -> None:
    turns(w, pool)
    slurm(w, f"{pool}-0", 10, 100, gpu=1)
    pod(w, f"{pool}-0", 40, 150, gpu=1)


def driven_out(w: World, pool: str) -> None:
    """Three pods evicted within an hour, each for a Slurm job a minute later."""
    name = node(w, pool, gpus=3)
    slurm(w, name, 0, 50)
    for gpu in range(3):
        pod(w, name, 61, 70 + gpu, gpu=gpu, state="Evicted")
        slurm(w, name, 71 + gpu, 200, gpu=gpu)


def refused(w: World, pool: str, pods: int = 3) -> None:
    turns(w, pool, namespace=f"ns-{pool}")
    for number in range(pods):
        tell(
            w, "event", event_id=f"{pool}{number}", object_kind="Pod", namespace=f"ns-{pool}", name=f"x{number}",
            reason="UnexpectedAdmissionError", last_us=100,
            message="Allocate failed due to requested number of devices unavailable for nvidia.com/gpu",
        )  # fmt: skip


MUST_NOT_FIRE: dict[str, Scene] = {
    "nodes of its own for each": disjoint,
    "a node that was handed over once": handed_over,
    "5 of 200 minutes": seldom,
    "Ray inside a pod": ray_inside,
    "Kueue gates and the default scheduler binds": gated,
    "a queue that nobody uses": all_past,
    "Slurm alone": lambda w, n: slurm(w, node(w, n), 0, 200),
}
MUST_FIRE: dict[str, tuple[Scene, tuple[str, float, str]]] = {
    "Slurm and pods in turns": (turns, ("medium", 70, "kubernetes slurm")),
    "pods past the queue": (past_the_queue, ("medium", 70, "kubernetes pods past the queue")),
    "a second scheduler binds": (two_binders, ("medium", 70, "kubernetes volcano")),
    "pods that name their node": (
        lambda w, n: two_binders(w, n, "gpuwatch.io/bound-by", "owner"),
        ("medium", 70, "kubernetes pods that name their node"),
    ),
    "one GPU given out twice": (doubly_given, ("critical", 40, "kubernetes slurm")),
    "three pods driven out in an hour": (driven_out, ("critical", 61, "kubernetes slurm")),
    "three pods refused by the device plugin": (refused, ("critical", 70, "kubernetes slurm")),
    "two refused pods are a restart": (lambda w, n: refused(w, n, 2), ("medium", 70, "kubernetes slurm")),
}


def play(w: World) -> None:
    for number, scene in enumerate(MUST_NOT_FIRE.values()):
        scene(w, f"not{number}")
    for number, (scene, _) in enumerate(MUST_FIRE.values()):
        scene(w, f"is{number}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    w = World(tmp_path_factory.mktemp("pools"))
    play(w)
    report = w.analyze(240, detectors=[RULE])
    assert [] == report.failed_rules
    return w


def of(w: World, pool: str) -> list[Verdict]:
    return [f for f in found(w, RULE) if f.subject == pool]


@pytest.mark.parametrize("number", range(len(MUST_NOT_FIRE)), ids=MUST_NOT_FIRE.keys())
def test_is_no_conflict(world: World, number: int) -> None:

    assert [] == of(world, f"not{number}")


@pytest.mark.parametrize("number", range(len(MUST_FIRE)), ids=MUST_FIRE.keys())
def test_is_a_conflict(world: World, number: int) -> None:
    expected = list(MUST_FIRE.values())[number][1]

    assert [("pool", *expected)] == [
        (
            f.kind,
            f.severity,
            f.started,
            " ".join(sorted(part.partition(" (")[0] for part in f.evidence["writers"].split(", "))),
        )
        for f in of(world, f"is{number}")
    ]


def test_evidence(world: World) -> None:
    (f,) = of(world, "is0")

    assert ("slurm (67 %), kubernetes (33 %)", 2, 1, 3.0) == tuple(
        f.evidence[name] for name in ("writers", "authorities", "mixed_nodes", "gpu_hours")
    )
    assert 0 == f.wasted_s


@pytest.mark.slow
def test_one_key_over_a_week_of_runs_and_gone_when_one_left(tmp_path: Path) -> None:
    w = World(tmp_path)
    turns(w, "p")
    keys = set()
    for day in range(1, 5):
        w.gpu(f"p-0-{day}", (60, WORK), start=day * DAY - 60, node="p-0", step_s=600)
        w.analyze(day * DAY, detectors=[RULE])
        keys |= {(f.key, f.state, f.started) for f in found(w, RULE)}
    w.gpu("p-0-9", (60, WORK), start=9 * DAY - 60, node="p-0", step_s=600)
    w.analyze(9 * DAY, detectors=[RULE])

    assert [("open", 70.0)] == [(state, started) for _, state, started in keys]
    assert [("resolved", 7.0 * DAY)] == [(f.state, f.ended) for f in found(w, RULE)]


@pytest.mark.parametrize("last", [DAY, DAY - 5], ids=["at midnight", "before midnight"])
def test_ends_with_the_last_record(tmp_path: Path, last: int) -> None:
    """Without samples: scheduler records alone, the last of them at the end of the day."""
    w = World(tmp_path)
    tell(w, "node", scheduler="slurm", node="n", observed_us=last - 300, state="up", devices={"": 2}, pool="p")
    slurm(w, "n", last - 200, last - 140)
    pod(w, "n", last - 130, last - 70)
    slurm(w, "n", last - 60, last)
    w.analyze(3 * DAY, detectors=[RULE])

    assert [("open", us(last - 130), us(last))] == w.store.sql("select state, started_us, last_seen_us from finding")


def test_doc_page_names_the_thresholds() -> None:
    page = Path(__file__).parents[2] / "docs/detectors/scheduler-conflict.md"

    assert printed_thresholds(SCHEDULER_CONFLICT) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
