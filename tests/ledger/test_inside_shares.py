"""Runs inside runs that hold a part of a GPU: the inner run divides that part, and takes nothing from the others."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from tests.ledger.test_nesting import ray, seen
from tests.ledger.test_slurm_shares import gpus, shares
from tests.worlds.town import case
from tests.worlds.world import HOUR, World, claim, node, pod

FREE = "schedulable"
HALF = HOUR // 2
SHARDS = {"sharing": "time-slicing", "replicas": 4}


def at(world: World, second: int, name: str = "n1") -> dict[str, str]:
    """Who holds which part of the first GPU of a node at a moment."""
    here = [row for row in world.segments() if row[0] == f"GPU-{name}-0" and row[1] <= second < row[2]]
    return {who.removesuffix(" estimated"): share for _, _, _, who, share in here}


def measured(name: str = "n1", number: int = 1) -> list[Any]:
    return [s for gpu in gpus(name, number) for s in seen(gpu)]


# What keeps its part.


@case
def test_pods_that_share_a_gpu_equally_and_ray_in_one_of_them(world: World) -> Iterator[None]:
    world.add(
        measured(),
        node("n1", {"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4),
        pod("worker-0", "u1", 0, HOUR, gpus="GPU-n1-0"),
        pod("other", "u2", 0, HOUR, gpus="GPU-n1-0"),
        ray("j", "a1", 600, 1200),
    )
    yield

    assert {"u1": "1/2", "u2": "1/2"} == at(world, 0)
    assert {"j@s1": "1/2", "u2": "1/2"} == at(world, 600)


@case
def test_two_pods_of_one_job_on_a_gpu_and_ray_in_one_of_them(world: World) -> Iterator[None]:
    """The run holds the GPU for two pods; Ray has the part of one."""
    both = {"gpus": "GPU-n1-0", "run_key": "gang"}
    world.add(
        measured(),
        node("n1", {"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4),
        *(pod(name, name, 0, HOUR, **both) | {"job_id": "lab/gang"} for name in ("worker-0", "worker-1")),
        pod("other", "u2", 0, HOUR, gpus="GPU-n1-0"),
        ray("j", "a1", 600, 1200),
    )
    yield

    assert {"gang": "2/3", "u2": "1/3"} == at(world, 0)
    assert {"gang": "1/3", "j@s1": "1/3", "u2": "1/3"} == at(world, 600)


# Slurm's shares, with nothing of Kubernetes.


@case
def test_ray_in_a_shard_job_has_that_jobs_part_of_the_gpu(world: World) -> Iterator[None]:
    world.add(
        measured(),
        node("n1", {"": 1}, **SHARDS),
        shares("a", 0, HOUR, "n1", 1, "0"),
        shares("b", HALF, HOUR, "n1", 3, "0"),
        ray("j", "a1", HALF + 600, HALF + 1200, node="n1"),
    )
    yield

    assert {"a": "1"} == at(world, 0)
    assert {"a": "1/4", "b": "3/4"} == at(world, HALF)
    assert {"a": "1/4", "j@s1": "3/4"} == at(world, HALF + 600)
    assert {"a": "1/4", "b": "3/4"} == at(world, HALF + 1200)


@case
def test_half_a_gpu_of_ray_in_a_shard_job_is_half_of_its_part(world: World) -> Iterator[None]:
    world.add(
        measured(),
        node("n1", {"": 1}, **SHARDS),
        shares("b", 0, HOUR, "n1", 3, "0"),
        shares("a", 0, HALF, "n1", 1, "0"),
        ray("j", "a1", HALF, HOUR, node="n1", size=0.5),
        ray("k", "a2", HALF + 600, HOUR, node="n1", size=0.25),
    )
    yield

    assert {"a": "1/4", "b": "3/4"} == at(world, 0)
    assert {"b": "1/2", "j@s1": "1/2"} == at(world, HALF)
    assert {"b": "1/4", "j@s1": "1/2", "k@s1": "1/4"} == at(world, HALF + 600)


@case
def test_ray_in_an_mps_job_has_the_shares_of_that_job_and_the_rest_stays_free(world: World) -> Iterator[None]:
    world.add(
        measured(),
        node("n1", {"": 1}, sharing="mps", replicas=100),
        shares("m", 0, HOUR, "n1", 30, "0"),
        ray("j", "a1", 600, 1200, node="n1"),
        ray("k", "a2", 1800, 2400, node="n1", size=0.5),
    )
    yield

    assert {"m": "3/10", FREE: "7/10"} == at(world, 0)
    assert {"j@s1": "3/10", FREE: "7/10"} == at(world, 600)
    assert {"k@s1": "3/20", "m": "3/20", FREE: "7/10"} == at(world, 1800)


# Shares inside a pod, and Ray inside those.


@case
def test_ray_in_a_shard_job_in_a_slinky_pod_has_that_jobs_part(world: World) -> Iterator[None]:
    labels = '{"nodeset.slinky.slurm.net/pod-name":"slinky-0"}'
    world.add(
        measured("k1"),
        node("k1", {"": 1}, scheduler="kubernetes"),
        node("slinky-0", {"": 1}, at=0, **SHARDS),
        pod("slinky-0", "u1", 0, HOUR, "k1", gpus="GPU-k1-0", labels=labels),
        claim("b", 600, 3000, node="slinky-0", device_indexes="0", labels=f'{{"{SHARES_LABEL}":3}}'),
        claim("a", 0, 1800, node="slinky-0", device_indexes="0", labels=f'{{"{SHARES_LABEL}":1}}'),
        ray("j", "a1", 1200, 2400, node="slinky-0"),
    )
    yield

    assert {"a": "1"} == at(world, 0, "k1")
    assert {"a": "1/4", "b": "3/4"} == at(world, 600, "k1")
    assert {"a": "1/4", "j@s1": "3/4"} == at(world, 1200, "k1")
    assert {"j@s1": "1"} == at(world, 1800, "k1")
    assert {"b": "1"} == at(world, 2400, "k1")
    assert {"u1": "1"} == at(world, 3000, "k1")


@case
def test_ray_in_a_pod_that_holds_a_part_of_a_gpu_has_that_part(world: World) -> Iterator[None]:
    """By the fraction that the pods requested."""
    world.add(
        measured(),
        node("n1", {"": 1}, scheduler="kubernetes"),
        pod("worker-0", "u1", 0, HOUR, gpus="GPU-n1-0", fraction=0.3),
        pod("other", "u2", 0, HOUR, gpus="GPU-n1-0", fraction=0.5),
        ray("j", "a1", 600, 1200),
    )
    yield

    assert {"u1": "3/10", "u2": "1/2", FREE: "1/5"} == at(world, 0)
    assert {"j@s1": "3/10", "u2": "1/2", FREE: "1/5"} == at(world, 600)


@pytest.mark.parametrize("seed", range(12))
def test_inner_runs_never_hold_more_or_less_than_a_sweep_gives_them(seed: int) -> None:
    """Shard or MPS jobs one after the other on a GPU, each with runs of Ray of any size: held as a sweep by the second says."""
    rng = Random(seed)
    replicas, mps = rng.choice((3, 4, 100)), rng.random() < 0.5
    world = World().add(measured(), node("n1", {"": 1}, sharing="mps" if mps else "time-slicing", replicas=replicas))
    outer = rng.randint(1, replicas)
    beside = rng.randint(0, replicas - outer)
    world.add(shares("o", 0, HOUR, "n1", outer, "0"))
    if beside:  # It ends before Ray starts: else Ray could be in either.
        world.add(shares("x", 0, HALF, "n1", beside, "0"))
    inner = [
        (f"j{n}", *sorted(rng.sample(range(HALF, HOUR, 60), 2)), rng.choice((0.1, 0.25, 0.5, 1)))
        for n in range(rng.randint(1, 4))
    ]
    world.add(*(ray(name, name, start, end, node="n1", size=size) for name, start, end, size in inner))
    world.book()

    for second in range(0, HOUR, 60):
        bound = outer + (beside if second < HALF else 0)
        part = Fraction(outer, replicas if mps else bound)
        asked = {name: Fraction(str(size)) for name, start, end, size in inner if start <= second < end}
        whole = max(Fraction(1), sum(asked.values(), Fraction(0)))
        expected = {f"{name}@s1": part * size / whole for name, size in asked.items()}
        expected["o"] = part - sum(expected.values())
        if second < HALF and beside:
            expected["x"] = Fraction(beside, replicas if mps else bound)
        expected[FREE] = 1 - sum(expected.values())
        assert {who: share for who, share in expected.items() if share} == {
            who: Fraction(share) for who, share in at(world, second).items()
        }, second
