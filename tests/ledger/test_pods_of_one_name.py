"""Pods that follow each other under one name, as those of a StatefulSet, where no source recorded the end of the first."""

from __future__ import annotations

from collections.abc import Iterator

from tests.ledger.test_nesting import FREE, seen
from tests.worlds.town import case
from tests.worlds.world import HOUR, Gpu, Seconds, World, pod

HALF = HOUR // 2
ONE, TWO = Gpu("GPU-1", "n1"), Gpu("GPU-2", "n2")


def spans(world: World, device: str) -> list[tuple[Seconds, Seconds, str]]:
    return [(a, b, who.removesuffix(" estimated")) for name, a, b, who, _ in world.segments() if name == device]


# What holds on.


@case
def test_pods_of_one_name_in_two_namespaces_run_side_by_side(world: World) -> Iterator[None]:
    world.add(
        seen(ONE),
        seen(TWO),
        pod("db-0", "u1", 0, None, "n1", gpus="GPU-1"),
        pod("db-0", "u2", HALF, None, "n2", gpus="GPU-2", namespace="other"),
    )
    yield

    assert [(0, HOUR, "u1")] == spans(world, "GPU-1")


@case
def test_a_recorded_end_counts_as_it_is(world: World) -> Iterator[None]:
    """The clocks of two nodes differ by ten seconds."""
    world.add(
        seen(ONE),
        seen(TWO),
        pod("db-0", "u1", 0, HALF + 10, "n1", gpus="GPU-1"),
        pod("db-0", "u2", HALF, HOUR, "n2", gpus="GPU-2"),
    )
    yield

    assert [(0, HALF + 10, "u1"), (HALF + 10, HOUR, FREE)] == spans(world, "GPU-1")


@case
def test_the_newest_pod_of_a_name_runs_on(world: World) -> Iterator[None]:
    world.add(
        seen(ONE), pod("db-0", "u1", 0, 600, "n1", gpus="GPU-1"), pod("db-0", "u2", 600, None, "n1", gpus="GPU-1")
    )
    yield

    assert [(0, 600, "u1"), (600, HOUR, "u2")] == spans(world, "GPU-1")


# What ends.


@case
def test_a_pod_was_gone_when_the_next_of_its_name_started_on_another_node(world: World) -> Iterator[None]:
    """Its GPU is free then, so that the pod after it needs no GPU that nobody has seen."""
    world.add(
        seen(ONE),
        seen(TWO),
        pod("db-0", "u1", 0, None, "n1"),
        pod("db-0", "u2", HALF, None, "n2"),
        pod("x", "u3", HALF + 600, HOUR, "n1"),
    )
    yield

    assert [(0, HALF, "u1"), (HALF, HALF + 600, FREE), (HALF + 600, HOUR, "u3")] == spans(world, "GPU-1")
    assert [(0, HALF, FREE), (HALF, HOUR, "u2")] == spans(world, "GPU-2")
    assert {"GPU-1", "GPU-2"} == {name for name, *_ in world.segments()}


@case
def test_on_the_same_gpu_the_two_are_no_conflict(world: World) -> Iterator[None]:
    world.add(
        seen(ONE, 0, HALF, namespace="lab", pod="db-0"),
        seen(ONE, HALF, HOUR, namespace="lab", pod="db-0"),
        pod("db-0", "u1", 0, None, "n1"),
        pod("db-0", "u2", HALF, None, "n1"),
    )
    yield

    assert [(0, HALF, "u1"), (HALF, HOUR, "u2")] == spans(world, "GPU-1")


@case
def test_of_three_each_ends_with_the_next(world: World) -> Iterator[None]:
    world.add(seen(ONE), *(pod("db-0", f"u{n}", 600 * n, None, "n1", gpus="GPU-1") for n in range(3)))
    yield

    assert [(0, 600, "u0"), (600, 1200, "u1"), (1200, HOUR, "u2")] == spans(world, "GPU-1")
