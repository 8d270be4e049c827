"""Slurm's shards and MPS: jobs that hold shares of a GPU divide it by them, and nothing is counted twice or not at all."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from tests.worlds.templates import computed_once
from tests.worlds.world import CLUSTER, HOUR, T0_US, Gpu, World, claim, minutes, node, pod, samples

HALF = HOUR // 2


def shares(job: str, start: int, end: int, name: str, number: int, indexes: str | None = None) -> dict[str, Any]:
    """A claim of Slurm's on so many shares of the GPUs of a node."""
    labels = json.dumps({SHARES_LABEL: number}, separators=(",", ":"))
    return claim(job, start, end, name, labels=labels, device_indexes=indexes)


def gpus(name: str, number: int) -> list[Gpu]:
    return [Gpu(f"GPU-{name}-{n}", name, n) for n in range(number)]


@computed_once
def fleet() -> World:
    """Nodes with shards, with MPS, with an unknown number of shares, and of Kubernetes."""
    measured = [
        gpu for name, number in (("shard", 2), ("mps", 1), ("dark", 1), ("kube", 1)) for gpu in gpus(name, number)
    ]
    return World().add(
        *(samples(gpu, minutes(0, HOUR)) for gpu in measured),
        node("shard", {"": 2}, sharing="time-slicing", replicas=4),
        shares("a", 0, HOUR, "shard", 1, "0"),
        shares("b", HALF, HOUR, "shard", 3, "0"),
        claim("whole", 0, HOUR, "shard", device_indexes="1"),
        node("mps", {"": 1}, sharing="mps", replicas=100),
        shares("m", 0, HOUR, "mps", 50, "0"),
        shares("full", HALF, HOUR, "mps", 25),
        shares("u", 0, HOUR, "dark", 2),
        node("plan", {"": 2}, sharing="time-slicing", replicas=4),
        *(shares(f"p{n}", 0, HOUR, "plan", 2) for n in range(3)),
        shares("p4", HOUR, 2 * HOUR, "plan", 7),
        *(shares(f"s{n}", 0, HOUR, "unknown", 4) for n in range(2)),
        node("kube", {"": 1}, scheduler="kubernetes", sharing="time-slicing", replicas=4),
        *(pod(name, name, 0, HOUR, "kube", labels=f'{{"{SHARES_LABEL}":{n}}}') for n, name in ((1, "k1"), (3, "k3"))),
    ).book()  # fmt: skip


def held(world: World, name: str) -> list[tuple[str, int, int, str, str, str | None, bool]]:
    """The segments of a node: GPU, start, end, owner, share, how divided, estimated."""
    rows = world.store.sql(
        """select d.gpu_index, s.start_us, s.end_us, coalesce(r.run_key, s.free_bucket), s.share_num, s.share_den, s.split, s.estimated
        from segment s join device d using (device_id) left join run r using (run_id)
        where d.node = $name and s.cluster = $cluster order by all""",
        name=name,
        cluster=CLUSTER,
    )
    return [
        (index, (a - T0_US) // 10**6, (b - T0_US) // 10**6, who, str(Fraction(num, den)), split, estimated)
        for index, a, b, who, num, den, split, estimated in rows
        if a >= T0_US - 60 * 10**6
    ]


# What must not be divided by shares.


def test_labels_of_pods_are_no_shares() -> None:
    assert [(0, 0, HOUR, "k1", "1/2", "bound", True), (0, 0, HOUR, "k3", "1/2", "bound", True)] == held(fleet(), "kube")


def test_a_gpu_that_is_held_whole_on_a_node_with_shards_is_not_divided() -> None:
    assert [(1, 0, HOUR, "whole", "1", None, False)] == [row for row in held(fleet(), "shard") if row[0] == 1]


# Values.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(
            "shard",
            [
                (0, 0, HALF, "a", "1", None, False),
                (0, HALF, HOUR, "a", "1/4", "share", False),
                (0, HALF, HOUR, "b", "3/4", "share", False),
            ],
            id="shards divide a GPU by their number, and free ones do not count",
        ),
        pytest.param(
            "mps",
            [
                (0, 0, HALF, "m", "1/2", "replica", False),
                (0, 0, HALF, "schedulable", "1/2", "replica", False),
                (0, HALF, HOUR, "full", "1/4", "replica", True),
                (0, HALF, HOUR, "m", "1/2", "replica", False),
                (0, HALF, HOUR, "schedulable", "1/4", "replica", False),
            ],
            id="with MPS, unrequested shares are free",
        ),
        pytest.param("dark", [(0, 0, HOUR, "u", "1", None, True)], id="of an unknown number of shares, estimated"),
        pytest.param(
            "unknown",
            [(0, 0, HOUR, "s0", "1/2", "share", True), (0, 0, HOUR, "s1", "1/2", "share", True)],
            id="a node that nothing describes has one GPU for both",
        ),
    ],
)
def test_shares_divide_a_gpu(name: str, expected: list[Any]) -> None:
    assert expected == [row for row in held(fleet(), name) if row[0] == 0]


def test_shares_without_indexes_fill_one_gpu_after_the_other() -> None:
    """Four shares a GPU: of three jobs of two, two are on the first GPU; seven shares need both."""
    found = held(fleet(), "plan")

    assert [(0, "1/2"), (0, "1/2"), (0, "1"), (1, "1"), (1, "1")] == [(row[0], row[4]) for row in found]
    assert {"p0", "p1", "p2"} == {row[3] for row in found if row[1] == 0}
    assert [0, 1] == [row[0] for row in found if row[3:] in (("p4", "1", None, True),)]
    assert all(row[6] for row in found)


def drawn(seed: int) -> tuple[int, bool, list[tuple[str, int, int, int]]]:
    """Shares of a GPU, whether by MPS, and jobs of any spans and shares: (job, start, end, shares)."""
    rng = random.Random(seed)
    replicas = rng.choice((3, 7, 100))
    mps = rng.random() < 0.5
    jobs = range(rng.randint(1, 6))
    return replicas, mps, [
        (f"j{seed}-{n}", *sorted(rng.sample(range(0, HOUR, 10), 2)), rng.randint(1, replicas)) for n in jobs
    ]  # fmt: skip


@computed_once
def drawn_fleet() -> World:
    """A node of one GPU for every seed."""
    world = World()
    for seed in range(18):
        replicas, mps, jobs = drawn(seed)
        name = f"n{seed}"
        world.add(
            samples(gpus(name, 1)[0], minutes(0, HOUR)),
            node(name, {"": 1}, sharing="mps" if mps else "time-slicing", replicas=replicas),
            *(shares(job, start, end, name, number, "0") for job, start, end, number in jobs),
        )
    return world.book()


@pytest.mark.parametrize("seed", range(18))
def test_nothing_is_lost_and_everyone_pays_by_share(seed: int) -> None:
    """By shards or MPS: an independent sweep over the seconds says the same."""
    replicas, mps, jobs = drawn(seed)
    expected: dict[str, Fraction] = defaultdict(Fraction)
    for at in range(0, HOUR, 10):
        here = [(job, number) for job, start, end, number in jobs if start <= at < end]
        whole = sum(number for _, number in here)
        for job, number in here:
            expected[job] += Fraction(10 * number, max(whole, replicas) if mps else whole)
    found: dict[str, Fraction] = defaultdict(Fraction)
    at_once: dict[Any, Fraction] = defaultdict(Fraction)
    for _, start, end, who, share, *_ in held(drawn_fleet(), f"n{seed}"):
        found[who] += (end - start) * Fraction(share)
        at_once[start, end] += Fraction(share)
    found.pop("schedulable", None)
    assert dict(expected) == dict(found)
    assert {Fraction(1)} == set(at_once.values())
