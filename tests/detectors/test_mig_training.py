"""Distributed training on MIG slices: what runs on slices for good reason first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.core.model import Records
from gpuwatch.core.queue_model import WORKLOAD
from gpuwatch.detectors.mig_training import MIG_TRAINING
from tests.worlds.detectors import PAGE_HEADINGS, World, level, page_headings, page_rows, printed_thresholds, us
from tests.worlds.subjects import findings_of, granted_s

RULE = "mig-training"
TRAIN = {"training.kubeflow.org/job-name": "bert"}
WORK = level(0.9, 0.7, 0.2, 0.2, 300)

Scene = Callable[[World, str], object]


def gang(
    world: World,
    name: str,
    labels: Mapping[str, str] | None,
    *,
    slices: int = 2,
    length: float = 120,
    together: bool = True,
    scheduler: str = "kubernetes",
) -> World:
    """Pods of one job, each on a slice of one GPU; one after the other where they are not together."""
    for gi in range(1, slices + 1):
        begin = 0 if together else (gi - 1) * length
        end = begin + length
        world.gpu(name, (length, WORK), gi=gi, profile="1g.10gb", node=name, start=begin)
        world.claim(
            scheduler=scheduler,
            kind="k8s-json",
            job_id=f"ml/{name}",
            run_key=f"u-{name}",
            pod=f"{name}-{gi}",
            pod_uid=f"{name}-{gi}",
            namespace="ml",
            node=name,
            profile="1g.10gb",
            device_count=1,
            submit_us=us(begin),
            start_us=us(begin),
            end_us=us(end),
            state="Succeeded",
            labels=json.dumps(labels) if labels else None,
        )
    return world


def controlled(world: World, name: str, kind: str, members: int) -> World:
    """A record of the controller of a job."""
    row = dict.fromkeys(WORKLOAD.names, None) | {
        "cluster": world.cluster,
        "scheduler": "kubernetes",
        "kind": kind,
        "uid": f"w-{name}",
        "name": name,
        "namespace": "ml",
        "job_id": f"ml/{name}",
        "pod_count": members,
        "observed_us": us(0),
    }
    world.store.append(Records("workload", pa.Table.from_pylist([row], schema=WORKLOAD)))
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "replicas of a service": lambda w, n: gang(w, n, {"app": "llm"}),
    "replicas of a KServe service": lambda w, n: gang(w, n, TRAIN | {"serving.kserve.io/inferenceservice": "llm"}),
    "trials of a hyperparameter search": lambda w, n: gang(w, n, TRAIN | {"katib.kubeflow.org/experiment": "e"}),
    "workers that never speak to each other": lambda w, n: gang(
        w, n, TRAIN | {"gpuwatch.io/parallelism": "independent"}
    ),
    "a fine-tune on one slice": lambda w, n: gang(w, n, TRAIN, slices=1),
    "a training job that moves from one slice to the next": lambda w, n: gang(w, n, TRAIN, together=False),
    "a gang of twenty minutes": lambda w, n: gang(w, n, TRAIN, length=20),
    "a gang on whole GPUs": lambda w, n: (
        w.gpu(f"{n}-1", (120, WORK), node=n)
        .gpu(f"{n}-2", (120, WORK), node=n)
        .job(n, [f"{n}-1", f"{n}-2"], 0, 120, node=n, labels=TRAIN)
    ),
    "an exempt label": lambda w, n: gang(w, n, TRAIN | {"gpuwatch.io/exempt-until": "2026-12-31"}),
    "a controller of one pod": lambda w, n: controlled(gang(w, n, None), n, "PyTorchJob", 1),
}

MUST_FIRE: dict[str, Scene] = {
    "pods of a training operator": lambda w, n: gang(w, n, TRAIN),
    "a job whose controller is a PyTorchJob": lambda w, n: controlled(gang(w, n, None), n, "PyTorchJob", 2),
    "a job that says that it is training": lambda w, n: gang(w, n, {"gpuwatch.io/workload-class": "training"}),
    "a job that says that it is data-parallel": lambda w, n: gang(w, n, {"gpuwatch.io/parallelism": "FSDP"}),
    "a Slurm job that says so in its comment": lambda w, n: gang(
        w, n, {"gpuwatch.io/parallelism": "data"}, scheduler="slurm"
    ),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All cases side by side."""
    world = World(tmp_path_factory.mktemp("world"))
    for number, scene in enumerate([*MUST_NOT_FIRE.values(), *MUST_FIRE.values()]):
        scene(world, f"q{number}")
    world.analyze(240, detectors=[RULE])
    return world


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(world: World, case: str) -> None:
    name = f"q{list(MUST_NOT_FIRE).index(case)}"

    assert [] == [one.subject for one in findings_of(world, RULE) if one.subject in (name, f"ml/{name}")]


@pytest.mark.parametrize("case", MUST_FIRE)
def test_names(world: World, case: str) -> None:
    name = f"ml/q{len(MUST_NOT_FIRE) + list(MUST_FIRE).index(case)}"
    (one,) = [one for one in findings_of(world, RULE) if one.subject == name]

    assert ("job", "high", 0, 120, 2) == (one.kind, one.severity, one.started, one.ended, one.devices)
    assert (2, 2, 2) == tuple(one.evidence[key] for key in ("members", "slices", "together_hours"))
    assert "2 members on MIG slices of one GPU" in MIG_TRAINING.summary(one.evidence)


def test_it_claims_communication_and_what_is_below_the_roof(tmp_path: Path) -> None:
    world = gang(World(tmp_path), "a", TRAIN)
    world.analyze(240, detectors=[RULE])
    (one,) = findings_of(world, RULE)

    assert world.booked_s("communication", "below_roof") == one.wasted_s == sum(granted_s(world, RULE).values())
    assert one.wasted_s > 0


def test_judging_again_changes_nothing(world: World) -> None:
    before = world.rows("finding")
    world.analyze(300, detectors=[RULE])

    assert before == world.rows("finding")


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(MIG_TRAINING) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
