"""A job of which accounting has only a total: its devices are divided over its nodes by what others leave free there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

from gpuwatch.collectors.slurm.text import spread
from gpuwatch.ledger.node_division import divide
from gpuwatch.ledger.placement_estimate import Node, Wanted, place
from tests.worlds.town import case
from tests.worlds.world import BUSY, HOUR, Gpu, World, claim, minutes, node, samples

Parts = Mapping[str, int]


def held(world: World, run: str, *, marks: str = " estimated") -> dict[str, float]:
    """Device-seconds of a run by node."""
    found: dict[str, float] = {}
    for name, start, end, who, _ in world.segments():
        if who == run + marks:
            found[name.split("/")[0]] = found.get(name.split("/")[0], 0) + end - start
    return found


def nodes(count: int, *names: str) -> list[dict[str, object]]:
    return [node(name, {"": count}, at=at) for name in names for at in (0, HOUR)]


def total(run: str, parts: Parts, start: float = 0, end: float = HOUR) -> list[dict[str, object]]:
    """A job of which only the total is known, spread evenly by its collector."""
    return [claim(run, start, end, name, count) for name, count in parts.items()]


def exact(run: str, name: str, indexes: str, start: float = 0, end: float | None = HOUR) -> dict[str, object]:
    count = len(indexes.split(","))
    return claim(run, start, end, name, count, kind="scontrol", device_indexes=indexes, evidence=HOUR)


# What must not move.


@case
def test_an_even_division_that_fits_stays(world: World) -> Iterator[None]:
    world.add(*nodes(8, "n1", "n2"), exact("1", "n1", "0,1"), *total("2", {"n1": 6, "n2": 6}))
    yield

    assert {"n1": 2 * 3600} == held(world, "1", marks="")
    assert {"n1": 6 * 3600, "n2": 6 * 3600} == held(world, "2")


@case
def test_what_scontrol_counts_on_a_node_is_never_divided_otherwise(world: World) -> Iterator[None]:
    world.add(
        *nodes(8, "n1", "n2"),
        exact("1", "n1", "0,1,2,3"),
        *(claim("2", 0, HOUR, name, count, kind="scontrol") for name, count in (("n1", 4), ("n2", 6))),
    )
    yield

    assert {"n1": 4 * 3600, "n2": 6 * 3600} == held(world, "2")


@case
def test_without_an_inventory_nothing_bounds_a_node(world: World) -> Iterator[None]:
    world.add(claim("1", 0, HOUR, "n1", 4), *total("2", {"n1": 6, "n2": 6}))
    yield

    assert {"n1": 6 * 3600, "n2": 6 * 3600} == held(world, "2")


# What others leave free.


@case
def test_a_job_takes_what_an_exact_neighbour_leaves_free(world: World) -> Iterator[None]:
    world.add(*nodes(8, "n1", "n2"), exact("1", "n1", "0,1,2,3", end=None), *total("2", {"n1": 6, "n2": 6}, 600, 3000))
    yield

    assert {"n1": 4 * 3600} == held(world, "1", marks="")
    assert {"n1": 4 * 2400, "n2": 8 * 2400} == held(world, "2")


@case
def test_an_even_total_is_divided_by_what_is_free_too(world: World) -> Iterator[None]:
    world.add(*nodes(8, "n1", "n2"), exact("1", "n1", "2,3,4,5,6,7"), *total("2", {"n1": 4, "n2": 4}))
    yield

    assert {"n1": 6 * 3600} == held(world, "1", marks="")
    assert {"n1": 2 * 3600, "n2": 6 * 3600} == held(world, "2")


@case
def test_a_job_of_one_node_that_starts_later_is_left_its_devices(world: World) -> Iterator[None]:
    world.add(*nodes(8, "n1", "n2"), *total("1", {"n1": 6, "n2": 6}), claim("2", 1800, HOUR, "n1", 4))
    yield

    assert {"n1": 4 * 3600, "n2": 8 * 3600} == held(world, "1")
    assert {"n1": 4 * 1800} == held(world, "2")


@case
def test_only_the_time_of_the_job_counts(world: World) -> Iterator[None]:
    world.add(*nodes(8, "n1", "n2"), exact("1", "n1", "0,1,2,3", 0, 600), *total("2", {"n1": 6, "n2": 6}, 600))
    yield

    assert {"n1": 6 * 3000, "n2": 6 * 3000} == held(world, "2")


@case
def test_the_rest_goes_to_nodes_in_the_order_of_their_numbers(world: World) -> Iterator[None]:
    world.add(*nodes(4, "n2", "n9", "n10"), exact("1", "n2", "0,1,2"), *total("2", {"n2": 2, "n9": 2, "n10": 2}))
    yield

    assert {"n2": 3600, "n9": 3 * 3600, "n10": 2 * 3600} == held(world, "2")


@case
def test_beside_an_estimated_neighbour_what_is_exact_counts(world: World) -> Iterator[None]:
    world.add(
        *nodes(4, "n1", "n2"),
        exact("1", "n1", "0,1,2"),
        claim("2", 0, HOUR, "n2", 3),
        *total("3", {"n1": 2, "n2": 2}, 600),
    )
    yield

    assert {"n1": 3 * 3600} == held(world, "1", marks="")
    assert {"n1": 1 * 3000, "n2": 1 * 3000} == held(world, "3")
    assert {"n2": 2 * 3000} == held(world, "3", marks=" estimated conflict")


@case
def test_a_job_for_which_no_device_is_free_all_the_time_keeps_its_device_hours(world: World) -> Iterator[None]:
    """Job 1 takes device 0 by the order of indexes; job 2 then has device 1 up to the exact job and device 0 after it."""
    world.add(
        *nodes(2, "n1"),
        claim("1", 0, 1200, "n1"),
        claim("2", 600, 3000, "n1"),
        exact("3", "n1", "1", 1800, None),
    )
    yield

    assert {"n1": 1200} == held(world, "1")
    assert {"n1": 2400} == held(world, "2")
    assert {"n1": 1800} == held(world, "3", marks="")


@case
def test_a_total_that_was_divided_before_makes_room_for_one_that_can_lie_nowhere_else(world: World) -> Iterator[None]:
    """Job 1 could have 2 + 1, but then job 2 had 2 + 0 of its 3 devices."""
    world.add(
        *nodes(2, "n0", "n1", "n2"),
        *total("1", {"n1": 2, "n2": 1}),
        *total("2", {"n0": 2, "n1": 1}, 1800),
    )
    yield

    assert {"n1": 3600, "n2": 2 * 3600} == held(world, "1")
    assert {"n0": 2 * 1800, "n1": 1800} == held(world, "2")


@case
def test_room_is_made_over_several_jobs(world: World) -> Iterator[None]:
    """Job 3 needs a device of n2, which job 2 can leave only if job 1 leaves one of n1."""
    world.add(
        *nodes(2, "n0", "n1", "n2", "n3"),
        *total("1", {"n0": 1, "n1": 1}),
        *total("2", {"n1": 1, "n2": 2}, 60),
        *total("3", {"n2": 1, "n3": 2}, 120),
    )
    yield

    assert {"n0": 2 * 3600} == held(world, "1")
    assert {"n1": 2 * 3540, "n2": 3540} == held(world, "2")
    assert {"n2": 3480, "n3": 2 * 3480} == held(world, "3")


@case
def test_measured_devices_bound_a_node_without_an_inventory(world: World) -> Iterator[None]:
    """Four of the eight measured devices of n1 are another job's by their labels."""
    gpus = [Gpu(f"GPU-{name}-{index}", name, index) for name in ("n1", "n2") for index in range(8)]
    for gpu in gpus:
        mine = gpu.node == "n1" and gpu.index < 4
        world.add(samples(gpu, minutes(0, HOUR), BUSY, job="1" if mine else None))
    world.add(claim("1", 0, HOUR, "n1", 4), *total("2", {"n1": 6, "n2": 6}))
    yield

    found: dict[str, int] = {}
    for name, start, end, who, _ in world.segments():
        assert name in {gpu.uuid for gpu in gpus}, "no device is invented"
        found[f"{name[:6]} {who}"] = found.get(f"{name[:6]} {who}", 0) + int(end - start)
    assert {"GPU-n1 1": 4 * 3600, "GPU-n1 2 estimated": 4 * 3600, "GPU-n2 2 estimated": 8 * 3600} == found


def test_random_fleets_have_each_device_once() -> None:
    """Each fleet has jobs that were placed without a collision; half of the nodes' totals are all that is known of them."""
    for seed in range(400):
        nodes_of, requests, lengths = _fleet(random.Random(seed))
        placed = place(nodes_of, divide(nodes_of, requests))

        taken = Counter((p.device_id, at) for p in placed for at in range(p.start_us, p.end_us))
        assert 1 == max(taken.values()), f"seed {seed}"
        held_us: Counter[int] = Counter()
        for p in placed:
            held_us[p.run_id] += p.end_us - p.start_us
        assert lengths == dict(held_us), f"seed {seed}"


def _fleet(draw: random.Random) -> tuple[dict[str, Node], list[Wanted], dict[int, int]]:
    """Nodes, what is known of jobs, and each job's device time."""
    names, size, until = (
        [f"n{n}" for n in range(draw.choice([2, 2, 3]))],
        draw.choice([2, 3, 4, 8]),
        draw.choice([2, 4, 6]),
    )
    busy: set[tuple[str, int, int]] = set()
    requests, lengths = list[Wanted](), dict[int, int]()
    for run in range(1, draw.randint(3, 7)):
        start = draw.randrange(until)
        times = range(start, draw.randint(start + 1, until))
        chosen = sorted(draw.sample(names, draw.randint(1, len(names))))
        free = {n: [g for g in range(size) if not any((n, g, at) in busy for at in times)] for n in chosen}
        if not all(free.values()):
            continue
        own = {n: sorted(draw.sample(free[n], draw.randint(1, len(free[n])))) for n in chosen}
        busy |= {(n, g, at) for n in chosen for g in own[n] for at in times}
        count = sum(map(len, own.values()))
        lengths[run] = count * len(times)
        span = (times.start, times.stop)
        if draw.random() < 0.4:
            known = [Wanted(run, None, n, None, len(g), *span, indexes=tuple(g), numbered=True) for n, g in own.items()]
        else:
            counts = zip(chosen, spread(count, len(chosen)), strict=True)
            known = [Wanted(run, None, n, None, c, *span, numbered=True, totals=True) for n, c in counts]
        requests += known
    return {name: Node("c", name, {"": size}, []) for name in names}, requests, lengths


# Where nothing fits.


@case
def test_an_estimate_takes_no_time_from_an_exact_neighbour(world: World) -> Iterator[None]:
    world.add(*nodes(4, "n1"), exact("1", "n1", "0,1,2"), claim("2", 600, HOUR, "n1", 2))
    yield

    assert 3 * 3600 == sum(sum(held(world, "1", marks=marks).values()) for marks in ("", " conflict"))
    assert {"n1": 3000} == held(world, "1", marks=" conflict")
    assert {"n1": 3000} == held(world, "2")


def test_where_nothing_fits_the_division_stays() -> None:
    wanted = [Wanted(1, None, name, None, 3, 0, 100, totals=True) for name in ("a", "b")]
    full = [Wanted(2, None, "a", None, 2, 0, 100, indexes=(0, 1), numbered=True)]
    fleet = {name: Node("c", name, {"": 2}, []) for name in ("a", "b")}

    assert [2, 3, 3] == [w.count for w in divide(fleet, [*full, *wanted])]


def test_the_answer_does_not_depend_on_the_order_of_the_records() -> None:
    wanted = [
        *(Wanted(1, None, name, None, 3, 0, 100, totals=True) for name in ("a", "b")),
        *(Wanted(2, None, name, None, 2, 0, 100, totals=True) for name in ("a", "b")),
        Wanted(3, None, "a", None, 2, 50, 200, indexes=(1, 3), numbered=True),
    ]

    def placed(requests: list[Wanted]) -> list[tuple[int, int, bool]]:
        fleet = {name: Node("c", name, {"": 6}, []) for name in ("a", "b")}
        return sorted((p.run_id, p.device_id, p.estimated) for p in place(fleet, divide(fleet, requests)))

    assert placed(wanted) == placed(wanted[::-1])
    assert 2 == sum(1 for run, _, estimated in placed(wanted) if run == 3 and not estimated)
