"""Pools that hold GPUs in MIG mode beside whole ones: pools where nobody can be mistaken first."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.core.model import PENDING, Records
from gpuwatch.detectors.mig_mixed_pool import MIG_MIXED_POOL
from tests.worlds.detectors import IDLE, PAGE_HEADINGS, WORK, World, page_headings, page_rows, printed_thresholds, us
from tests.worlds.subjects import granted_s, hour_by_hour, offer, said

RULE = "mig-mixed-pool"
Scene = Callable[[World, str], object]


def waits(
    world: World, job: str, start: float, end: float, devices: int, reason: str, profile: str | None, **more: object
) -> World:
    """A request that waits from one minute to another, and is heard of then."""
    row = dict.fromkeys(PENDING.names, None) | {
        "cluster": world.cluster,
        "scheduler": "kubernetes",
        "job_id": job,
        "submit_us": us(start),
        "evidence_us": us(end),
        "device_count": devices,
        "profile": profile,
        "node_count": 1,
        "reason": reason,
        **more,
    }
    world.store.append(Records("pending", pa.Table.from_pylist([row], schema=PENDING)))
    return world


def pool(
    world: World,
    name: str,
    *,
    strategy: str | None = "single",
    whole_held: bool = True,
    slices_held: bool = True,
    length: float = 180,
    scheduler: str = "kubernetes",
) -> World:
    """A pool of a node with one whole GPU and one with a GPU that is cut in two."""
    offer(world, f"{name}-whole", name, {"": 1}, strategy, scheduler=scheduler)
    offer(world, f"{name}-mig", name, {"3g.40gb": 2}, strategy, scheduler=scheduler)
    world.gpu(f"{name}-w", (length, WORK if whole_held else IDLE), node=f"{name}-whole")
    for gi in (1, 2):
        world.gpu(f"{name}-m", (length, WORK if slices_held else IDLE), gi=gi, profile="3g.40gb", node=f"{name}-mig")
    if whole_held:
        world.job(f"{name}-job", [f"{name}-w"], 0, None, heard=length, node=f"{name}-whole")
    if slices_held:
        for number in (1, 2):
            world.job(f"{name}-s{number}", 1, 0, None, heard=length, node=f"{name}-mig", profile="3g.40gb")
    return world


def one_kind_each(world: World, name: str) -> World:
    """Two pools, one of slices and one of whole GPUs."""
    offer(world, f"{name}-n1", f"{name}-mig", {"3g.40gb": 2}, "single")
    offer(world, f"{name}-n2", f"{name}-whole", {"": 1}, "single")
    for gi in (1, 2):
        world.gpu(f"{name}-m", (180, WORK), gi=gi, profile="3g.40gb", node=f"{name}-n1")
    return world.gpu(f"{name}-w", (180, WORK), node=f"{name}-n2")


def cut_anew(world: World, name: str) -> World:
    """A pool in which one GPU is cut while the others are whole, for half an hour."""
    offer(world, f"{name}-n", name, {"": 2}, "single")
    world.gpu(f"{name}-a", (180, WORK), node=f"{name}-n").gpu(
        f"{name}-b", (60, WORK), (31, None), (89, WORK), node=f"{name}-n"
    )
    return world.gpu(f"{name}-b", (30, WORK), gi=1, profile="7g.80gb", node=f"{name}-n", start=61)


MUST_NOT_FIRE: dict[str, Scene] = {
    "a pool of each kind": one_kind_each,
    "strategy mixed: slices have names of their own": lambda w, n: pool(w, n, strategy="mixed"),
    "strategy mixed and a request that waits for quota": lambda w, n: waits(
        pool(w, n, strategy="mixed", slices_held=False), f"{n}-q", 0, 180, 1, "WaitingForQuota", None
    ),
    "strategy mixed and a wait of five minutes": lambda w, n: waits(
        pool(w, n, strategy="mixed", slices_held=False), f"{n}-q", 60, 65, 1, "Unschedulable", None
    ),
    "Slurm partitions with gres types": lambda w, n: pool(w, n, strategy=None, scheduler="slurm"),
    "half an hour while a GPU is cut anew": cut_anew,
}


@pytest.mark.parametrize("case", MUST_NOT_FIRE)
def test_says_nothing_of(tmp_path: Path, case: str) -> None:
    world = World(tmp_path)
    MUST_NOT_FIRE[case](world, "p")
    world.analyze(180, detectors=[RULE])

    assert [] == said(world, RULE)


def test_a_pool_of_both_kinds_where_a_request_cannot_say_which_it_means(tmp_path: Path) -> None:
    world = pool(World(tmp_path), "p")
    world.analyze(180, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("pool", "p", "low", "open", 0) == (one.kind, one.subject, one.severity, one.state, one.wasted_s)
    assert (1, 1, 0) == tuple(one.evidence[name] for name in ("mig_gpus", "whole_gpus", "starved_requests"))
    assert "strategy single" in MIG_MIXED_POOL.summary(one.evidence)


def test_a_request_that_waits_for_whole_gpus_while_slices_are_free_is_high(tmp_path: Path) -> None:
    world = pool(World(tmp_path), "p", strategy="mixed", slices_held=False)
    waits(world, "q", 30, 150, 1, "Unschedulable", None).analyze(180, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("p", "high", 1, 60) == (
        one.subject,
        one.severity,
        one.evidence["starved_requests"],
        one.evidence["waited_minutes"],
    )
    # One slice for as long as the request waited: half of a GPU for two hours.
    assert Fraction(3600) == sum(granted_s(world, RULE).values()) == one.wasted_s
    assert "while others were free" in MIG_MIXED_POOL.summary(one.evidence)


def test_a_request_that_finds_its_kind_elsewhere_does_not_count(tmp_path: Path) -> None:
    world = pool(World(tmp_path), "p", strategy="mixed", slices_held=False)
    world.gpu("spare", (180, IDLE), node="other")
    waits(world, "q", 30, 150, 1, "Unschedulable", None).analyze(180, detectors=[RULE])

    assert [] == said(world, RULE)


@pytest.mark.parametrize(("profile", "findings"), [("1g.10gb", 1), ("3g.40gb", 0)])
def test_a_free_slice_of_another_profile_is_not_what_a_request_waits_for(
    tmp_path: Path, profile: str, findings: int
) -> None:
    world = pool(World(tmp_path), "p", strategy="mixed", whole_held=False, slices_held=False)
    waits(world, "q", 30, 150, 1, "Unschedulable", profile).analyze(180, detectors=[RULE])

    assert findings == len(said(world, RULE))


def test_a_request_for_a_profile_counts_where_only_other_profiles_are_free(tmp_path: Path) -> None:
    """All whole GPUs are held: what is free is two slices of another profile."""
    world = pool(World(tmp_path), "p", strategy="mixed", slices_held=False)
    waits(world, "q", 30, 150, 1, "Unschedulable", "1g.10gb").analyze(180, detectors=[RULE])
    (one,) = said(world, RULE)

    assert ("high", 1, Fraction(3600)) == (one.severity, one.evidence["starved_requests"], one.wasted_s)


@pytest.mark.parametrize(("queue", "findings"), [("p", 1), ("elsewhere", 0), ("p,elsewhere", 0)])
def test_a_slurm_request_waits_for_its_partitions(tmp_path: Path, queue: str, findings: int) -> None:
    """A whole GPU is free in another partition."""
    world = pool(World(tmp_path), "p", strategy=None, slices_held=False, scheduler="slurm")
    offer(world, "other", "elsewhere", {"": 1}, None, scheduler="slurm")
    world.gpu("spare", (180, IDLE), node="other")
    waits(world, "q", 30, 150, 1, "Resources", None, scheduler="slurm", queue=queue).analyze(180, detectors=[RULE])

    assert findings == len(said(world, RULE))


@pytest.mark.slow
def test_one_pool_keeps_one_key_when_hours_come_one_by_one(tmp_path: Path) -> None:
    at_once = pool(World(tmp_path / "whole"), "p", length=360)
    at_once.analyze(360, detectors=[RULE])

    expected = [(one.key, one.started) for one in said(at_once, RULE)]
    assert 1 == len(expected)
    by_hour = hour_by_hour(pool(World(tmp_path / "hours"), "p", length=360), 6, RULE, step=2)
    assert expected == [(one.key, one.started) for one in by_hour]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(MIG_MIXED_POOL) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
