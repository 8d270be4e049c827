"""Quotas tried on the past: whose runs wait, what stays unused, and which requests of others start sooner."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.reclaim.quota_replay import Held, Moved, peak, under_quota
from gpuwatch.reclaim.quotas import try_quotas
from tests.findings.test_contention import waits
from tests.reclaim.test_limits import priced
from tests.worlds.detectors import WORK, World, us

DAY = Window(us(0), us(1440))


def run(number: int, gpus: int, start: int, end: int) -> Held:
    return Held(number, Fraction(gpus), start, end)


def starts(runs: list[Held], quota: int, from_us: int = 0) -> dict[int, int | None]:
    return {one.run.number: one.start_us for one in under_quota(runs, Fraction(quota), from_us)}


@pytest.mark.parametrize(
    ("runs", "quota", "expected"),
    [
        pytest.param([], 4, {}, id="no runs"),
        pytest.param([run(0, 4, 0, 10), run(1, 4, 5, 15)], 8, {0: 0, 1: 5}, id="both fit"),
        pytest.param([run(0, 4, 0, 10), run(1, 4, 5, 15)], 4, {0: 0, 1: 10}, id="the second waits for the first"),
        pytest.param([run(0, 4, 0, 10), run(1, 4, 10, 15)], 4, {0: 0, 1: 10}, id="one ends when the other starts"),
        pytest.param([run(0, 5, 1, 10)], 4, {0: None}, id="more than the quota never starts"),
        pytest.param(
            [run(0, 3, 0, 10), run(1, 4, 1, 5), run(2, 1, 2, 4)], 4, {0: 0, 1: 10, 2: 2},
            id="a run that does not fit holds up no other",
        ),
        pytest.param(
            [run(0, 4, 0, 10), run(1, 4, 1, 5), run(2, 4, 2, 4)], 4, {0: 0, 1: 10, 2: 14}, id="in order of their starts"
        ),
    ],
)  # fmt: skip
def test_runs_wait_for_their_own_quota(runs: list[Held], quota: int, expected: dict[int, int | None]) -> None:
    assert expected == starts(runs, quota)


def test_a_run_from_before_the_window_goes_on() -> None:
    runs = [run(0, 6, -5, 10), run(1, 1, 3, 5)]

    assert {0: -5, 1: 10} == starts(runs, 4)


SOME = st.lists(st.tuples(st.integers(1, 8), st.integers(0, 50), st.integers(1, 30)), max_size=15)


@settings(max_examples=150, deadline=None)
@given(some=SOME, quota=st.integers(1, 12))
def test_the_quota_is_never_exceeded_and_nothing_starts_earlier(some: list[tuple[int, int, int]], quota: int) -> None:
    runs = [run(n, gpus, start, start + length) for n, (gpus, start, length) in enumerate(some)]
    moved = under_quota(runs, Fraction(quota), 0)
    begun = [
        Held(one.run.number, one.run.gpus, one.start_us, one.start_us + one.run.end_us - one.run.start_us)
        for one in moved
        if one.start_us is not None
    ]

    assert len(runs) == len(moved)
    assert peak(begun) <= quota
    assert all(one.delay_us >= 0 for one in moved)
    assert {one.run.number for one in moved if one.start_us is None} == {
        n for n, one in enumerate(runs) if one.gpus > quota
    }
    if peak(runs) <= quota:
        assert [Moved(one, one.start_us) for one in sorted(runs, key=lambda one: (one.start_us, one.number))] == moved


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three jobs of ada, one GPU each: from minute 0, 30 and 60, each for two hours. Bob waits for a GPU."""
    world = World(tmp_path_factory.mktemp("quota"))
    for number, start in enumerate((0, 30, 60)):
        world.gpu(f"g{number}", (120, WORK), start=start)
        world.job(f"job{number}", [f"g{number}"], start, start + 120)
    waits(world, "bobs", 40, 150, 1)
    return priced(world)


def asked(world: World, gpus: str | None = None, **words: Any) -> dict[str, Any]:
    return try_quotas(world.store, world.state, DAY, "ada", gpus=None if gpus is None else Decimal(gpus), **words)


def level(found: dict[str, Any], gpus: int) -> dict[str, Any]:
    return next(item for item in found["items"] if Fraction(item["gpus"]) == gpus)


def test_an_unknown_team_has_nothing_to_try(tmp_path: Path) -> None:
    world = World(tmp_path)
    found = try_quotas(world.store, world.state, DAY, "nobody")

    assert ([], 0, "0.000000") == (found["items"], found["runs"], found["peak_gpus"])


def test_a_quota_of_the_peak_changes_nothing(world: World) -> None:
    found = asked(world)
    whole = level(found, 3)

    assert ("3.000000", 3, "6.000000") == (found["peak_gpus"], found["runs"], found["held_gpu_hours"])
    assert (0, 0, 0) == (whole["delayed_runs"], whole["too_large_runs"], whole["sooner"]["requests"])
    assert "66.000000" == whole["unused_gpu_hours"]


def test_a_smaller_quota_delays_the_runs_beyond_it(world: World) -> None:
    """Two at once: the third starts at 120 instead of 60. One at once: the second at 120, the third at 240."""
    found = asked(world)

    assert (1, "1.000000", 3600) == tuple(
        level(found, 2)[name] for name in ("delayed_runs", "waiting_hours", "median_s")
    )
    assert (2, "4.500000") == tuple(level(found, 1)[name] for name in ("delayed_runs", "waiting_hours"))
    assert [{"name": "ada", "runs": 2, "waiting_hours": "4.500000"}] == level(found, 1)["users"]


def test_a_request_of_another_team_gets_the_gpu_of_a_delayed_run(world: World) -> None:
    """The third run's GPU is free from minute 60: bob starts then instead of at 150."""
    found = level(asked(world), 2)["sooner"]

    assert (1, "1.500000") == (found["requests"], found["waiting_hours"])
    assert level(asked(world, with_requests=False), 2)["sooner"] is None


def test_a_quota_that_is_asked_for_is_tried_too(world: World) -> None:
    found = asked(world, "0.5")

    assert 3 == level(found, Fraction(1, 2))["too_large_runs"]  # type: ignore[arg-type]


def test_waits_for_a_quota_are_counted_apart(world: World) -> None:
    waits(world, "adas", 40, 100, 1, user_name="ada", reason="QOSMaxGRESPerUser")

    assert {"requests": 1, "waiting_hours": "1.000000"} == asked(world)["waited_for_quota"]


def test_a_window_longer_than_31_days_is_refused(world: World) -> None:
    with pytest.raises(UsageError, match="at most 31 days"):
        try_quotas(world.store, world.state, Window(us(0), us(32 * 1440)), "ada")
