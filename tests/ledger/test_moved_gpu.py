"""GPUs that were moved from one node to another: who is placed by count gets those that were on the node then."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ledger.test_nesting import FREE, seen
from tests.worlds.world import HOUR, Gpu, Seconds, World, claim, node

HALF = HOUR // 2
GAP = 300
"""Seconds that the GPU is nowhere."""


def spans(world: World) -> dict[str, list[tuple[Seconds, Seconds, str]]]:
    found: dict[str, list[tuple[Seconds, Seconds, str]]] = {}
    for name, start, end, who, _ in world.segments():
        found.setdefault(name, []).append((start, end, who.removesuffix(" estimated")))
    return found


def fleet(*rows: Any) -> World:
    """m is on n1 and then on n2, where o always is; s stays on n1."""
    return World().add(
        seen(Gpu("GPU-m", "n1", 0), 0, HALF),
        seen(Gpu("GPU-m", "n2", 1), HALF + GAP, HOUR),
        seen(Gpu("GPU-o", "n2", 0)),
        seen(Gpu("GPU-s", "n1", 1)),
        *rows,
    )  # fmt: skip


def test_a_node_name_that_a_gpu_has_between_two_stays_on_its_node_moves_nothing() -> None:
    """An exporter with a wrong host name for ten minutes: the job of that node gets the GPU of that node."""
    world = World().add(
        seen(Gpu("GPU-a", "n1"), 0, 1200),
        seen(Gpu("GPU-a", "n2", 1), 1200, 1800),
        seen(Gpu("GPU-a", "n1"), 1800, HOUR),
        seen(Gpu("GPU-b", "n2")),
        claim("1", 0, HOUR, "n1"),
        claim("2", 1200, 1800, "n2"),
    )
    world.book()

    assert {
        "GPU-a": [(0, HOUR, "1")],
        "GPU-b": [(0, 1200, FREE), (1200, 1800, "2"), (1800, HOUR, FREE)],
    } == spans(world)


def test_a_job_over_the_whole_time_takes_the_gpu_that_is_on_its_node_for_longest_and_none_is_invented() -> None:
    world = fleet(claim("1", 0, HOUR, "n1"), claim("2", 0, HOUR, "n2"))
    world.book()

    found = spans(world)
    assert {"GPU-m", "GPU-o", "GPU-s"} == set(found)
    assert ([(0, HOUR, "1")], [(0, HOUR, "2")]) == (found["GPU-s"], found["GPU-o"])


@pytest.mark.parametrize("inventory", [False, True], ids=["counts alone", "with an inventory of today"])
def test_jobs_hold_the_gpu_on_the_node_on_which_it_was(inventory: bool) -> None:
    nodes = [node("n1", {"": 1}, at=HOUR), node("n2", {"": 2}, at=HOUR)] if inventory else []
    jobs = [
        claim("before", 0, HALF, "n1", 2),
        claim("after", HALF + GAP, HOUR, "n2", 2),
        claim("alone", HALF + GAP, HOUR, "n1"),
    ]
    world = fleet(*nodes, *jobs)
    world.book()

    assert {
        "GPU-m": [(0, HALF, "before"), (HALF, HALF + GAP, FREE), (HALF + GAP, HOUR, "after")],
        "GPU-o": [(0, HALF + GAP, FREE), (HALF + GAP, HOUR, "after")],
        "GPU-s": [(0, HALF, "before"), (HALF, HALF + GAP, FREE), (HALF + GAP, HOUR, "alone")],
    } == spans(world)


def test_two_jobs_at_once_do_not_share_a_gpu_that_is_gone() -> None:
    """The second needs a GPU that nobody measures, as before the move was known."""
    world = fleet(claim("1", HALF + GAP, HOUR, "n1"), claim("2", HALF + GAP, HOUR, "n1"))
    world.book()

    found = spans(world)
    assert [(0, HALF + GAP, FREE), (HALF + GAP, HOUR, "1")] == found["GPU-s"]
    assert {who for _, _, who in found["GPU-m"]} == {FREE}
    assert [(HALF + GAP, HOUR, "2")] == [row for rows in found.values() for row in rows if row[2] == "2"]


def test_a_node_that_was_renamed_has_no_gpu_beside_the_one_that_went() -> None:
    """The old name is in an inventory of that time, the new one in one of today."""
    world = World().add(
        seen(Gpu("GPU-a", "old"), 0, HALF),
        seen(Gpu("GPU-a", "new"), HALF, HOUR),
        node("old", {"": 1}, at=0),
        node("new", {"": 1}, at=HOUR),
        claim("1", 0, 1200, "old"),
        claim("2", 2400, HOUR, "new"),
    )
    world.book()

    assert {"GPU-a": [(0, 1200, "1"), (1200, 2400, FREE), (2400, HOUR, "2")]} == spans(world)


def test_a_node_whose_inventory_was_read_after_the_move_has_another_gpu() -> None:
    world = World().add(
        seen(Gpu("GPU-a", "n1"), 0, HALF),
        seen(Gpu("GPU-a", "n2"), HALF, HOUR),
        node("n1", {"": 1}, at=HOUR),
        node("n2", {"": 1}, at=HOUR),
        claim("1", 0, 1200, "n1"),
    )
    world.book()

    assert {"GPU-a", "n1/gpu1"} == set(spans(world)) or {"GPU-a", "n1/gpu0"} == set(spans(world))
