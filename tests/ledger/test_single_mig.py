"""Pods of Kubernetes nodes whose GPUs are all cut alike: `nvidia.com/gpu` is a slice, of the profile at that time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.worlds.town import case
from tests.worlds.world import HOUR, Gpu, World, minutes, node, pod, samples

SMALL, LARGE = {"1g.10gb": 7}, {"3g.40gb": 2}
HALF = HOUR // 2


def cut(devices: dict[str, int], at: int | None, strategy: str | None = "single") -> dict[str, Any]:
    return node("n1", devices, at, scheduler="kubernetes", mig_strategy=strategy, gpu_model="NVIDIA H100 80GB HBM3")


def held(world: World) -> list[tuple[str, float, float, str]]:
    """(device, start, end, run) of what pods held."""
    rows = [(name, a, b, who.removesuffix(" estimated")) for name, a, b, who, _ in world.segments()]
    return [row for row in rows if row[3].startswith("u")]


# What stays as it is.


@case
def test_slices_that_pods_ask_for_by_name_are_those(world: World) -> Iterator[None]:
    """Strategy mixed: the node was cut otherwise later."""
    world.add(
        cut(SMALL, HOUR, "mixed"),
        cut(LARGE, 2 * HOUR, "mixed"),
        pod("a", "u1", 0, HALF, profile="1g.10gb"),
        pod("a", "u1", 0, HALF, profile="3g.40gb"),
    )
    yield

    assert [("n1/1g.10gb/0", 0, HALF, "u1"), ("n1/3g.40gb/0", 0, HALF, "u1")] == held(world)


@case
def test_claimed_devices_are_those_of_the_claim(world: World) -> Iterator[None]:
    world.add(cut(SMALL, HOUR), cut(LARGE, 2 * HOUR), pod("a", "u1", 0, HALF, profile="3g.40gb", kind="dra"))
    yield

    assert [("n1/3g.40gb/0", 0, HALF, "u1")] == held(world)


@case
def test_a_node_with_whole_gpus_gives_whole_gpus(world: World) -> Iterator[None]:
    world.add(cut({"": 8}, HOUR), cut({"": 8}, 2 * HOUR), pod("a", "u1", 0, HALF))
    yield

    assert [("n1/gpu0", 0, HALF, "u1")] == held(world)


# What changes.


@case
def test_a_finished_pod_that_was_read_again_after_its_node_was_cut_otherwise_held_one_slice(
    world: World,
) -> Iterator[None]:
    world.add(
        cut(SMALL, HOUR),
        pod("a", "u1", 0, HALF, profile="1g.10gb"),
        cut(LARGE, 3 * HOUR),
        pod("a", "u1", 0, HALF, profile="3g.40gb"),
        pod("b", "u2", 2 * HOUR, 3 * HOUR, profile="3g.40gb"),
    )
    yield

    assert [("n1/1g.10gb/0", 0, HALF, "u1"), ("n1/3g.40gb/0", 2 * HOUR, 3 * HOUR, "u2")] == held(world)


@case
def test_a_pod_that_was_read_before_its_node_held_one_slice(world: World) -> Iterator[None]:
    world.add(
        pod("a", "u1", 0, None, evidence=HALF), pod("a", "u1", 0, HALF, profile="1g.10gb"), cut(SMALL, HOUR, None)
    )
    yield

    assert [("n1/1g.10gb/0", 0, HALF, "u1")] == held(world)


@case
def test_a_finished_pod_that_was_read_only_after_the_change_held_what_the_node_had_then(world: World) -> Iterator[None]:
    world.add(cut(SMALL, HALF), cut(LARGE, 6 * HOUR), pod("a", "u1", 0, HALF, profile="3g.40gb"))
    yield

    assert [("n1/1g.10gb/0", 0, HALF, "u1")] == held(world)


@case
def test_measured_slices_show_what_the_node_had_before_the_first_record(world: World) -> Iterator[None]:
    world.add(
        samples(Gpu("GPU-a", "n1", gi=7, profile="1g.10gb"), minutes(0, HALF)),
        samples(Gpu("GPU-a", "n1", gi=1, profile="3g.40gb"), minutes(HALF, HOUR)),
        cut(LARGE, HOUR),
        pod("a", "u1", 0, 1200, profile="3g.40gb"),
    )
    yield

    assert [("GPU-a/GI-7", 0, 1200, "u1")] == held(world)


# Whole GPUs that nobody measures.


@case
def test_pods_that_were_given_one_unmeasured_gpu_share_it(world: World) -> Iterator[None]:
    world.add(
        node("n1", {"": 4}, scheduler="kubernetes"),
        pod("a", "u1", 0, HOUR, kind="dra", gpus="GPU-2"),
        pod("b", "u2", HALF, HOUR, kind="dra", gpus="GPU-2"),
        pod("c", "u3", 0, HOUR, kind="dra", gpus="GPU-3"),
        pod("d", "u4", 0, HOUR),
    )
    yield

    shares = [(name, a, b, who.removesuffix(" estimated"), share) for name, a, b, who, share in world.segments()]
    one, other, any_ = "n1/gpu0", "n1/gpu1", "n1/gpu2"
    mine = [row for row in shares if row[3].startswith("u")]
    assert sorted([("u1", 0, HALF, "1"), ("u1", HALF, HOUR, "1/2"), ("u2", HALF, HOUR, "1/2")]) == sorted(
        (who, a, b, share) for name, a, b, who, share in mine if who in ("u1", "u2")
    )
    assert 1 == len({name for name, *_, who, _ in mine if who in ("u1", "u2")})
    assert {one, other, any_} == {name for name, *_ in mine}
