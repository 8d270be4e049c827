"""Pools that hold GPUs in MIG mode beside whole ones: pools where nobody can be mistaken first."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from gpuwatch.core.model import PENDING, Records
from gpuwatch.detectors.mig_mixed_pool import MIG_MIXED_POOL
from tests.worlds.detectors import (
    H100,
    IDLE,
    PAGE_HEADINGS,
    WORK,
    World,
    page_headings,
    page_rows,
    printed_thresholds,
    us,
)
from tests.worlds.subjects import SubjectFinding, findings_of, granted_s, hour_by_hour, offer

RULE = "mig-mixed-pool"


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
    model: str = H100,
) -> World:
    """A pool of a node with one whole GPU and one with a GPU that is cut in two."""
    offer(world, f"{name}-whole", name, {"": 1}, strategy, scheduler=scheduler)
    offer(world, f"{name}-mig", name, {"3g.40gb": 2}, strategy, scheduler=scheduler)
    world.gpu(f"{name}-w", (length, WORK if whole_held else IDLE), node=f"{name}-whole", model=model)
    for gi in (1, 2):
        level = WORK if slices_held else IDLE
        world.gpu(f"{name}-m", (length, level), gi=gi, profile="3g.40gb", node=f"{name}-mig", model=model)
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


def cut_again(world: World, name: str) -> World:
    """A pool in which one GPU is cut while the others are whole, for half an hour."""
    offer(world, f"{name}-n", name, {"": 2}, "single")
    world.gpu(f"{name}-a", (180, WORK), node=f"{name}-n").gpu(
        f"{name}-b", (60, WORK), (31, None), (89, WORK), node=f"{name}-n"
    )
    return world.gpu(f"{name}-b", (30, WORK), gi=1, profile="7g.80gb", node=f"{name}-n", start=61)


class Case:
    """A case in the cluster of all of them: a pool of its name, GPUs of a model of its own, and requests for that model."""

    def __init__(self, world: World, number: int, name: str) -> None:
        self.world, self.name = world, name
        self.model, self.gpu_type = f"{H100} board{number:02}", f"board{number:02}"

    def pool(self, strategy: str | None = "mixed", scheduler: str = "kubernetes", **held: bool) -> Case:
        pool(self.world, self.name, strategy=strategy, scheduler=scheduler, model=self.model, **held)
        return self

    def waits(self, start: float, end: float, reason: str, profile: str | None = None, **more: object) -> Case:
        """A request for one GPU, or slice of a profile, that waits."""
        words = {"gpu_type": self.gpu_type} | more
        waits(self.world, f"{self.name} waits", start, end, 1, reason, profile, **words)
        return self

    def spare(self, pool: str | None = None) -> Case:
        """A whole GPU that is free elsewhere."""
        if pool is not None:
            offer(self.world, f"{self.name}-other", pool, {"": 1}, None, scheduler="slurm")
        self.world.gpu(f"{self.name}-spare", (180, IDLE), node=f"{self.name}-other", model=self.model)
        return self

    def partitions(self, queue: str) -> Case:
        """A Slurm request for a whole GPU, of which one is free in another partition."""
        self.pool(None, "slurm", slices_held=False).spare("elsewhere")
        return self.waits(30, 150, "Resources", scheduler="slurm", queue=queue)


SILENT: dict[str, Callable[[Case], object]] = {
    "a pool of each kind": lambda c: one_kind_each(c.world, c.name),
    "strategy mixed: slices have names of their own": lambda c: c.pool(),
    "strategy mixed and a request that waits for quota": lambda c: c.pool(slices_held=False).waits(
        0, 180, "WaitingForQuota"
    ),
    "strategy mixed and a wait of five minutes": lambda c: c.pool(slices_held=False).waits(60, 65, "Unschedulable"),
    "Slurm partitions with gres types": lambda c: c.pool(None, "slurm"),
    "a request that finds its kind elsewhere": lambda c: (
        c.pool(slices_held=False).spare().waits(30, 150, "Unschedulable")
    ),
    "a request for a profile of which a slice is free": lambda c: c.pool(whole_held=False, slices_held=False).waits(
        30, 150, "Unschedulable", "3g.40gb"
    ),
    "a request for a model whose name is part of a word": lambda c: c.pool(slices_held=False).waits(
        30, 150, "Unschedulable", gpu_type=c.gpu_type[1:]
    ),
    "a Slurm request for another partition": lambda c: c.partitions("elsewhere"),
    "a Slurm request for this and another partition": lambda c: c.partitions(f"{c.name},elsewhere"),
}
REPORTED: dict[str, Callable[[Case], object]] = {
    "both kinds": lambda c: c.pool("single"),
    "whole": lambda c: c.pool(slices_held=False).waits(30, 150, "Unschedulable"),
    "another profile": lambda c: c.pool(whole_held=False, slices_held=False).waits(30, 150, "Unschedulable", "1g.10gb"),
    "only other profiles": lambda c: c.pool(slices_held=False).waits(30, 150, "Unschedulable", "1g.10gb"),
    "partition": lambda c: c.partitions(c.name),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SubjectFinding]:
    """What the rule reports of all cases, which are one cluster, by pool."""
    world = World(tmp_path_factory.mktemp("cases"))
    for number, (name, plant) in enumerate((SILENT | REPORTED).items()):
        plant(Case(world, number, name))
    assert [] == world.analyze(180, detectors=[RULE]).failed_rules
    listed = findings_of(world, RULE)
    assert len(listed) == len({one.subject for one in listed})
    assert sum(granted_s(world, RULE).values()) == sum(one.wasted_s for one in listed)
    return {one.subject: one for one in listed}


@pytest.mark.parametrize("case", SILENT)
def test_says_nothing_of(findings: dict[str, SubjectFinding], case: str) -> None:
    assert [] == [subject for subject in findings if subject.startswith(case)]


def test_says_nothing_of_half_an_hour_while_a_gpu_is_repartitioned(tmp_path: Path) -> None:
    """In a world of its own: a GPU of unknown model that the node offers might suit the requests of other cases."""
    world = cut_again(World(tmp_path), "p")
    world.analyze(180, detectors=[RULE])

    assert [] == findings_of(world, RULE)


def test_nothing_else_is_reported(findings: dict[str, SubjectFinding]) -> None:
    """A free slice of another profile is not what a request waits for, and a Slurm request waits for its partition."""
    assert set(REPORTED) == set(findings)


def test_a_pool_of_both_kinds_where_a_request_cannot_say_which_it_means(findings: dict[str, SubjectFinding]) -> None:
    one = findings["both kinds"]

    assert ("pool", "low", "open", 0) == (one.kind, one.severity, one.state, one.wasted_s)
    assert (1, 1, 0) == tuple(one.evidence[name] for name in ("mig_gpus", "whole_gpus", "starved_requests"))
    assert "strategy single" in MIG_MIXED_POOL.summary(one.evidence)


def test_a_request_that_waits_for_whole_gpus_while_slices_are_free_is_high(findings: dict[str, SubjectFinding]) -> None:
    one = findings["whole"]

    assert ("high", 1, 60) == (one.severity, one.evidence["starved_requests"], one.evidence["waited_minutes"])
    # One slice for as long as the request waited: half of a GPU for two hours.
    assert Fraction(3600) == one.wasted_s
    assert "while others were free" in MIG_MIXED_POOL.summary(one.evidence)


def test_a_request_for_a_profile_counts_where_only_other_profiles_are_free(findings: dict[str, SubjectFinding]) -> None:
    """All whole GPUs are held: what is free is two slices of another profile."""
    one = findings["only other profiles"]

    assert ("high", 1, Fraction(3600)) == (one.severity, one.evidence["starved_requests"], one.wasted_s)


@pytest.mark.slow
def test_one_pool_keeps_one_key_when_hours_come_one_by_one(tmp_path: Path) -> None:
    at_once = pool(World(tmp_path / "whole"), "p", length=360)
    at_once.analyze(360, detectors=[RULE])

    expected = [(one.key, one.started) for one in findings_of(at_once, RULE)]
    assert 1 == len(expected)
    by_hour = hour_by_hour(pool(World(tmp_path / "hours"), "p", length=360), 6, RULE, step=2)
    assert expected == [(one.key, one.started) for one in by_hour]


def test_the_page_says_what_the_rule_does() -> None:
    page = Path(__file__).parents[2] / "docs" / "detectors" / f"{RULE}.md"

    assert printed_thresholds(MIG_MIXED_POOL) == page_rows(page)
    assert list(PAGE_HEADINGS) == page_headings(page)
