"""Since when the fleet owns a node that no exporter measures: all nodes of one inventory alike."""

from __future__ import annotations

import pytest

from tests.worlds.world import HOUR, World, claim, node, us

DAY = 24 * HOUR
Owned = dict[str, tuple[float, float]]


def owned(world: World) -> Owned:
    """Start and end of the time in which each device was owned."""
    spans: Owned = {}
    for name, start, end, _, _ in world.book().segments():
        first, last = spans.get(name, (start, end))
        spans[name] = (min(first, start), max(last, end))
    return spans


def test_a_node_whose_first_job_came_late_was_idle_before() -> None:
    """The node list is dated after the jobs; one node was never used."""
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 10 * HOUR, node="late"),
        *(node(name, {"": 1}, at=12 * HOUR) for name in ("early", "late", "unused")),
    )

    assert dict.fromkeys(("early/gpu0", "late/gpu0", "unused/gpu0"), (0, 12 * HOUR)) == owned(world)


def test_a_node_list_without_a_time_covers_all_evidence() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 9 * HOUR, node="late"),
        *(node(name, {"": 1}) for name in ("early", "late")),
    )

    assert dict.fromkeys(("early/gpu0", "late/gpu0"), (0, 10 * HOUR)) == owned(world)


@pytest.mark.parametrize(
    ("created", "start"),
    [
        pytest.param(-100 * DAY, 0, id="created long before: since the cluster's first evidence"),
        pytest.param(6 * HOUR, 6 * HOUR, id="created later: since then"),
        pytest.param(9 * HOUR, 0, id="booted after its first job: that was not its first boot"),
    ],
)
def test_a_node_is_owned_since_its_creation_at_the_earliest(created: float, start: float) -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        claim("2", 8 * HOUR, 10 * HOUR, node="late"),
        node("early", {"": 1}, at=12 * HOUR),
        node("late", {"": 1}, at=12 * HOUR, created_us=us(created)),
    )

    assert {"early/gpu0": (0, 12 * HOUR), "late/gpu0": (start, 12 * HOUR)} == owned(world)


def test_the_first_of_several_boots_counts() -> None:
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        node("early", {"": 1}, at=12 * HOUR),
        node("late", {"": 1}, at=6 * HOUR, created_us=us(5 * HOUR)),
        node("late", {"": 1}, at=12 * HOUR, created_us=us(11 * HOUR)),
    )

    assert (5 * HOUR, 12 * HOUR) == owned(world)["late/gpu0"]


def test_a_node_that_the_inventory_lists_only_later_was_added() -> None:
    """No boot is known, and earlier lists do not have it."""
    world = World().add(
        claim("1", 0, 10 * HOUR, node="early"),
        *(node("early", {"": 1}, at=at) for at in (0, 3 * DAY)),
        node("added", {"": 1}, at=3 * DAY),
        claim("2", 3 * DAY, 3 * DAY + HOUR, node="added"),
    )

    assert (3 * DAY, 3 * DAY + HOUR) == owned(world)["added/gpu0"]
