"""Adjacent days with few samples are computed together, and give what each of them gives alone."""

from __future__ import annotations

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.ledger import hours as ledger_hours
from gpuwatch.ledger.hours import BATCH_DAYS_MAX, _batches
from gpuwatch.ledger.parts import HERE
from tests.worlds.world import BUSY, HOUR, IDLE, T0_US, Gpu, World, claim, minutes, node, samples

DAY = 24 * HOUR


def days(world: World, *numbers: int) -> list[list[int]]:
    """The days of each batch of the first hour of these days."""
    wanted = [T0_US + number * DAY_US for number in numbers]
    return [[(hour - T0_US) // DAY_US for hour in batch] for batch in _batches(world.store, wanted, HERE)]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([3], [[3]], id="one day"),
        pytest.param([0, 1, 2], [[0, 1, 2]], id="adjacent days"),
        pytest.param([0, 2, 3], [[0], [2, 3]], id="a day without hours is not read"),
        pytest.param(list(range(9)), [list(range(BATCH_DAYS_MAX)), [7, 8]], id="a week at most"),
    ],
)
def test_days_without_samples(numbers: list[int], expected: list[list[int]]) -> None:
    assert expected == days(World(), *numbers)


def test_days_with_many_samples_are_computed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples on the first day, ten on the second, none on the others; at most eleven together."""
    monkeypatch.setattr(ledger_hours, "BATCH_SAMPLES_MAX", 11)
    world = World().add(samples(Gpu(), [30, 90]), samples(Gpu(), [DAY + 30 + 60 * n for n in range(10)])).seal()

    assert [[0], [1, 2, 3]] == days(world, 0, 1, 2, 3)


def test_a_batch_gives_what_its_days_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job over midnight, idle before and after it, on one of two GPUs."""
    found = []
    for most in (1, 500_000):
        monkeypatch.setattr(ledger_hours, "BATCH_SAMPLES_MAX", most)
        world = World().add(
            node(devices={"": 2}),
            claim("1", 20 * HOUR, 51 * HOUR, device_indexes="0"),
            samples(Gpu(), minutes(20 * HOUR, 23 * HOUR), BUSY),
            samples(Gpu(), minutes(23 * HOUR, 26 * HOUR), IDLE),
            samples(Gpu(), minutes(26 * HOUR, 51 * HOUR, 600), BUSY),
            samples(Gpu("GPU-b", index=1), minutes(20 * HOUR, 51 * HOUR, 600), IDLE),
        )
        world.attribute()
        world.recompute(range(20, 51))
        found.append(world.derived())

    assert found[0] == found[1]
    assert set(range(20, 51)) == {(row["hour_us"] - T0_US) // HOUR_US for row in found[0]["ledger_hour"]}


def test_hours_of_one_day_need_no_count() -> None:
    assert [[T0_US, T0_US + 5 * HOUR_US]] == _batches(World().store, [T0_US, T0_US + 5 * HOUR_US], HERE)
