"""Doctor's check of the server's clock."""

from __future__ import annotations

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.quality.clock_history import add
from gpuwatch.quality.own_clock import CONFIRMED, WITHDRAWN, Step
from gpuwatch.quality.own_clock_check import SET_CLOCK, server_clock
from gpuwatch.settings import Settings
from tests.worlds.world import HOUR, T0_US, Gpu, World, claim, minutes, one_hour, samples, us

NOW_US = T0_US + HOUR_US
SETTINGS = Settings()


def test_a_clock_without_steps_is_fine() -> None:
    check = server_clock(one_hour().store, SETTINGS, NOW_US)

    assert ("ok", "the server's clock made no step in the last 7 days") == (check.status, check.what)


def test_samples_within_the_tolerance_are_not_of_the_future() -> None:
    assert "ok" == server_clock(one_hour().store, SETTINGS, us(HOUR - 600)).status


def test_days_that_retention_deleted_in_order_are_fine() -> None:
    world = World().add(*(samples(Gpu(), minutes(n * 24 * HOUR, n * 24 * HOUR + 600)) for n in range(3))).seal()
    keep = Settings(raw_retention_days=1, minute_retention_days=1)
    world.store.run("store/retention/retain", raw_until_us=T0_US + DAY_US, minute_until_us=T0_US)

    assert "ok" == server_clock(world.store, keep, T0_US + 3 * DAY_US).status
    # Raw samples are kept for longer from now on: what is gone is not the clock's fault.
    assert "ok" == server_clock(world.store, SETTINGS, T0_US + 3 * DAY_US).status


@pytest.mark.parametrize("outcome", [CONFIRMED, WITHDRAWN])
def test_steps_of_the_last_week_are_listed_with_their_outcome(outcome: str) -> None:
    world = one_hour()
    add(world.store, [Step(NOW_US - 8 * DAY_US, DAY_US), Step(NOW_US - DAY_US, 25 * DAY_US, outcome)])
    check = server_clock(world.store, SETTINGS, NOW_US)

    what = f"the server's clock made a step in the last 7 days: 25.0 days ahead at 2026-11-01T01:00:00Z ({outcome})"
    assert ("warn", what) == (check.status, check.what)
    assert SET_CLOCK == check.fix


def test_a_clock_in_doubt_fails() -> None:
    check = server_clock(one_hour().store, SETTINGS, NOW_US, "the clock stepped")

    assert ("fail", "the clock stepped") == (check.status, check.what)


def test_what_a_wrong_clock_left_is_named_with_the_command_that_mends_it() -> None:
    world = one_hour().add(samples(Gpu(), [25 * 24 * HOUR])).book()
    world.store.run("store/retention/retain", raw_until_us=T0_US + DAY_US, minute_until_us=T0_US)
    check = server_clock(world.store, SETTINGS, NOW_US)

    assert "fail" == check.status
    assert (
        "a wrong clock left 1 record of the future, up to 2026-11-27T00:00:00Z, and "
        "598.0 GPU-hours of capacity in the future, and a recent day whose raw samples were deleted"
    ) == check.what
    assert "gpuwatch repair --dry-run" in check.fix


def _job(end: float, zone: str | None) -> dict[str, object]:
    return claim("7", 0, end, naive_zone=zone)


@pytest.mark.parametrize(
    ("ahead", "zone", "what"),
    [
        pytest.param(
            9 * HOUR, "UTC", "times without an offset were read in the zone UTC", id="nine hours of local time"
        ),
        pytest.param(9 * HOUR, None, "a wrong clock left 1 record of the future", id="a record with an offset"),
        pytest.param(20 * HOUR, "UTC", "a wrong clock left 1 record of the future", id="more than any zone"),
    ],
)
def test_local_times_of_an_eastern_zone_are_not_blamed_on_the_clock(ahead: float, zone: str | None, what: str) -> None:
    now = 30 * HOUR
    world = World().add(_job(now + ahead, zone)).book()
    check = server_clock(world.store, SETTINGS, us(now))

    assert "fail" == check.status
    assert what in check.what
    assert ("--timezone" in check.fix) == ("zone" in what)
