"""Two ledgers from one reading of the books are the ledgers of two readings, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.billing import chargeback
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.state import State
from tests.billing.test_dimensions import END, START, fleet
from tests.worlds.world import HOUR, World, us

WINDOWS = {
    "whole days": Window(us(START), us(END)),
    "days that are cut by seconds": Window(us(START) + 1_234_567, us(END) - 7_654_321),
    "a price that changes within": Window(us(START + 20 * HOUR), us(START + 26 * HOUR)),
    "a part of one minute": Window(us(0) + 3, us(0) + 30_000_001),
    "no data": Window(us(END + HOUR), us(END + 3 * HOUR)),
}


@pytest.fixture(scope="module")
def books() -> tuple[World, State]:
    return fleet(policy=False)


CASES = [
    *((name, {}, DAY_US) for name in WINDOWS),
    ("days that are cut by seconds", {}, HOUR_US),
    ("days that are cut by seconds", {"teams": ["a", "lab"]}, DAY_US),
    ("a price that changes within", {"cluster": "c1"}, HOUR_US),
    ("a price that changes within", {"pool": "none"}, DAY_US),
]


@pytest.mark.parametrize(("name", "where", "step_us"), CASES, ids=str)
def test_both_are_what_they_are_alone(
    books: tuple[World, State], name: str, where: dict[str, Any], step_us: int
) -> None:
    world, state = books
    window = WINDOWS[name]
    by_team, in_steps = chargeback.ledger_in_steps(world.store, window, step_us, **where)

    assert chargeback.ledger(world.store, state, window, ("team", "bucket"), **where) == by_team
    assert chargeback.ledger(world.store, state, window, ("bucket",), step_us=step_us, **where) == in_steps


def test_there_is_something_to_compare(books: tuple[World, State]) -> None:
    world, _ = books
    by_team, in_steps = chargeback.ledger_in_steps(world.store, WINDOWS["days that are cut by seconds"], DAY_US)

    assert {"a", "lab", "__platform__"} <= {row.group["team"] for row in by_team.items}
    assert 3 == len({row.start_us for row in in_steps.items})
    assert by_team.cost == in_steps.cost is not None
