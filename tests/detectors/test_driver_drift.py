"""Pools whose nodes run different drivers: rollouts and pools that differ on purpose first."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.model import WHOLE_GPU, context_key, device_key
from gpuwatch.detectors.driver_drift import DRIVER_DRIFT
from tests.worlds.detectors import H100, IDLE, PAGE_HEADINGS, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.subjects import SubjectFinding, findings_of, granted_s, hour_by_hour, offer

RULE = "driver-drift"
OLD, NEW = "535.161.08", "550.54.15"
STEP = 10 * MINUTE_US

Scene = Callable[[World, str], object]
"""Puts a case into a world: in a pool of its name, on nodes of its name."""


def runs(
    world: World, node: str, *spans: tuple[float, str | None], model: str = H100, pool: str = "p", **more: Any
) -> World:
    """A node with one GPU that says which driver it has, for so many hours each. `more`: other readings."""
    offer(world, node, pool, {"": 1}, None)
    begin = us(0)
    for hours, driver in spans:
        end = begin + round(hours * HOUR_US)
        context: dict[str, Any] = {
            "cluster": world.cluster,
            "gpu": f"GPU-{node}",
            "gi": WHOLE_GPU,
            "node": node,
            "gpu_index": 0,
            "model": model,
            "driver": driver,
        }
        context["context_id"] = context_key(context)
        context["device_id"] = device_key(world.cluster, f"GPU-{node}", WHOLE_GPU)
        times = range(begin + STEP, end + 1, STEP)
        keys = {"device_id": context["device_id"], "context_id": context["context_id"]}
        world.record("context", [context])
        world.record("sample", (keys | {"observed_us": at} | IDLE | more for at in times))
        begin = end
    return world


def asks_for_cuda(world: World, job: str, node: str, start: float, end: float, cuda: str, state: str) -> World:
    """A job that says which CUDA its image needs."""
    labels = {"gpuwatch.io/cuda-version": cuda}
    return world.job(job, [f"GPU-{node}"], start, end, node=node, labels=labels, state=state)


def only_labels(world: World, name: str, *drivers: str, hours: int) -> World:
    """Nodes whose samples name no driver, and whose labels do."""
    for number, driver in enumerate(drivers):
        runs(world, f"{name}-{number}", (hours, None), pool=name)
        for at in range(0, 60 * hours, 60):
            labels = json.dumps({"nvidia.com/cuda.driver-version.full": driver})
            offer(world, f"{name}-{number}", name, {"": 1}, None, labels=labels, observed_us=us(at))
    return world


MUST_NOT_FIRE: dict[str, Scene] = {
    "one driver everywhere": lambda w, c: [runs(w, f"{c}-{n}", (30, OLD), pool=c) for n in range(3)],
    "nobody says which driver": lambda w, c: [runs(w, f"{c}-{n}", (30, None), pool=c) for n in range(3)],
    "a rollout that is through in 20 hours": lambda w, c: [
        runs(w, f"{c}-{n}", (2 + 5 * n, OLD), (36 - 2 - 5 * n, NEW), pool=c) for n in range(5)
    ],
    "two rollouts of 20 hours with a day between": lambda w, c: [
        runs(w, f"{c}-{n}", (2 + 20 * n, OLD), (42 - 20 * n, NEW), (2 + 20 * n, "570.1"), (4, "570.1"), pool=c)
        for n in range(2)
    ],
    "pools with different drivers": lambda w, c: [
        runs(w, f"{c}-0", (30, OLD), pool=f"{c}-a"),
        runs(w, f"{c}-1", (30, NEW), pool=f"{c}-b"),
    ],
    "GPU models with different drivers in one pool": lambda w, c: [
        runs(w, f"{c}-0", (30, OLD), pool=c),
        runs(w, f"{c}-1", (30, NEW), pool=c, model="NVIDIA A100-SXM4-80GB"),
    ],
    "a job that needs a newer minor version of the same CUDA": lambda w, c: asks_for_cuda(
        runs(w, f"{c}-0", (30, OLD), pool=c), f"{c}-j", f"{c}-0", 0, 1800, "12.6", "COMPLETED"
    ),
    "a job that needs an older CUDA": lambda w, c: asks_for_cuda(
        runs(w, f"{c}-0", (30, OLD), pool=c), f"{c}-j", f"{c}-0", 0, 1800, "11.8", "COMPLETED"
    ),
}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Every case that must not fire, and one that must: it shows that pools keep the cases apart."""
    world = World(tmp_path_factory.mktemp("quiet"))
    for number, plant in enumerate(MUST_NOT_FIRE.values()):
        plant(world, f"case{number}")
    runs(runs(world, "drifts-0", (30, OLD), pool="drifts"), "drifts-1", (30, NEW), pool="drifts")
    world.analyze(60 * 48, detectors=[RULE])
    assert "drifts" in {one.subject for one in findings_of(world, RULE)}
    return world


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(quiet: World, case: str) -> None:
    pool = f"case{list(MUST_NOT_FIRE).index(case)}"

    assert [] == [one for one in findings_of(quiet, RULE) if one.subject.startswith(pool)]


def refused(world: World, node: str) -> None:
    """A pod that failed at once, since the NVIDIA runtime did not start its container."""
    pod = {
        "scheduler": "kubernetes",
        "kind": "k8s-json",
        "job_id": "ml/p",
        "run_key": "u",
        "pod": "p",
        "namespace": "ml",
    }
    row = pod | {"cluster": world.cluster, "node": node, "device_count": 1}
    row |= {"start_us": us(2340), "end_us": us(2341), "state": "Failed"}
    world.record("claim", [row])
    event = {
        "cluster": world.cluster,
        "event_id": "e1",
        "object_kind": "Pod",
        "namespace": "ml",
        "name": "p",
        "reason": "Failed",
        "message": "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver",
        "count": 1,
        "first_us": us(2630),
        "last_us": us(2630),
    }
    world.record("event", [event])


@pytest.fixture(scope="module")
def loud(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SubjectFinding]:
    """What the rule reports of the cases that must fire and of one that must not, by pool; all are measured for 44 hours."""
    world = World(tmp_path_factory.mktemp("loud"))
    for number, spans in enumerate((((4, OLD), (40, NEW)), ((44, OLD),), ((44, OLD),))):
        runs(world, f"two-{number}", *spans, pool="two")
    only_labels(world, "labels", OLD, OLD, NEW, hours=44)
    runs(runs(world, "follows-0", (36, OLD), (8, NEW), pool="follows"), "follows-1", (44, NEW), pool="follows")
    runs(world, "unmet-0", (44, OLD), pool="unmet")
    asks_for_cuda(world, "unmet", "unmet-0", 0, 1800, "13.0", "COMPLETED")
    runs(world, "newer-0", (44, OLD), pool="newer", cuda_driver_version=13000)
    asks_for_cuda(world, "newer", "newer-0", 0, 1800, "13.0", "COMPLETED")
    runs(world, "fails-0", (44, OLD), pool="fails")
    for hour in range(30):
        asks_for_cuda(world, f"fails-{hour}", "fails-0", 60 * hour + 20, 60 * hour + 21, "13.0", "FAILED")
    runs(runs(world, "refused-0", (44, OLD), pool="refused"), "refused-1", (44, NEW), pool="refused")
    refused(world, "refused-0")
    world.analyze(60 * 44, detectors=[RULE])
    listed = findings_of(world, RULE)

    assert ["fails", "follows", "labels", "refused", "two", "unmet"] == [one.subject for one in listed]
    assert sum(granted_s(world, RULE).values()) == sum(one.wasted_s for one in listed)
    return {one.subject: one for one in listed}


def test_two_drivers_for_more_than_a_day(loud: dict[str, SubjectFinding]) -> None:
    one = loud["two"]

    assert ("pool", "low", "open", 0) == (one.kind, one.severity, one.state, one.wasted_s)
    assert 4 * 60 == one.started
    assert (2, 3, 1) == tuple(one.evidence[name] for name in ("drivers", "nodes", "odd_nodes"))
    assert f"{OLD} on 2 nodes, {NEW} on 1 node" == one.evidence["versions"]
    assert "bring two-0 to it" in DRIVER_DRIFT.remedy(one.evidence)


def test_two_drivers_by_the_labels_of_the_nodes(loud: dict[str, SubjectFinding]) -> None:
    assert "low" == loud["labels"].severity


def test_it_ends_when_the_last_node_follows(loud: dict[str, SubjectFinding]) -> None:
    one = loud["follows"]

    assert ("resolved", 0, 36 * 60) == (one.state, one.started, one.ended)


def test_jobs_that_need_a_cuda_that_no_driver_of_the_pool_has(loud: dict[str, SubjectFinding]) -> None:
    one = loud["unmet"]

    assert ("medium", "CUDA 13.0 on unmet-0 with 12.2") == (one.severity, one.evidence["unmet"])
    assert 0 == one.wasted_s


def test_the_cuda_that_a_node_reports_comes_before_the_branch_of_its_driver(loud: dict[str, SubjectFinding]) -> None:
    assert "newer" not in loud


def test_starts_that_fail_are_high_and_cost_their_time(loud: dict[str, SubjectFinding]) -> None:
    one = loud["fails"]

    assert ("high", 30, Fraction(30 * 60)) == (one.severity, one.evidence["failed_starts"], one.wasted_s)


def test_containers_that_the_nvidia_runtime_refuses_to_start_are_high(loud: dict[str, SubjectFinding]) -> None:
    assert ("high", 1) == (loud["refused"].severity, loud["refused"].evidence["failed_starts"])


@pytest.mark.slow
def test_one_drift_keeps_one_key_when_hours_come_one_by_one(tmp_path: Path) -> None:
    at_once = runs(runs(World(tmp_path / "whole"), "n0", (36, OLD)), "n1", (4, OLD), (32, NEW))
    at_once.analyze(60 * 36, detectors=[RULE])

    expected = [(one.key, one.started) for one in findings_of(at_once, RULE)]
    assert [240] == [started for _, started in expected]
    by_hour = runs(runs(World(tmp_path / "hours"), "n0", (36, OLD)), "n1", (4, OLD), (32, NEW))
    assert expected == [(one.key, one.started) for one in hour_by_hour(by_hour, 36, RULE, step=9)]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(DRIVER_DRIFT) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
