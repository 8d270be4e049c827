"""A forecast says nothing of what it cannot know, and brackets what follows the pattern."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.billing.forecast import dates, forecast_cost, run_out

MONDAY = date(2026, 11, 2)


def week(amounts: list[int], weeks: int = 2) -> list[tuple[date, Decimal]]:
    return [(MONDAY + timedelta(days=n), Decimal(amounts[n % 7])) for n in range(7 * weeks)]


def test_less_than_a_week_foretells_nothing() -> None:
    assert forecast_cost(Decimal(10), week([1] * 7, 1)[:6], dates(MONDAY, MONDAY + timedelta(7)), 1.0) is None


def test_a_weekly_pattern_goes_on_as_it_was() -> None:
    rest = dates(MONDAY + timedelta(14), MONDAY + timedelta(21))
    found = forecast_cost(Decimal(100), week([10, 10, 10, 10, 10, 1, 1]), rest, 1.0)
    assert found is not None
    assert (Decimal("152.00"), Decimal("152.00"), Decimal("152.00")) == (found.amount, found.low, found.high)


def test_the_rest_of_today_is_a_part_of_a_day() -> None:
    found = forecast_cost(Decimal(0), week([8] * 7), [MONDAY + timedelta(14)], 0.25)
    assert found is not None
    assert Decimal("2.00") == found.amount


def test_noise_makes_the_interval_wider_and_never_less_than_what_is_spent() -> None:
    noisy = [(day, amount + (n % 3) * 40) for n, (day, amount) in enumerate(week([0] * 7, 4))]
    near = forecast_cost(Decimal(5), noisy, dates(MONDAY, MONDAY + timedelta(1)), 1.0)
    far = forecast_cost(Decimal(5), noisy, dates(MONDAY, MONDAY + timedelta(16)), 1.0)
    assert near is not None and far is not None
    assert Decimal(5) <= near.low < near.amount < near.high
    assert near.high - near.amount < far.high - far.amount


def test_the_day_on_which_money_runs_out() -> None:
    rest = dates(MONDAY + timedelta(14), MONDAY + timedelta(28))
    assert MONDAY + timedelta(16) == run_out(Decimal(80), Decimal(100), week([10] * 7), rest)
    assert run_out(Decimal(80), Decimal(1000), week([10] * 7), rest) is None
    assert rest[0] == run_out(Decimal(101), Decimal(100), [], rest)


@pytest.mark.parametrize("known", [7, 10, 14, 28])
@pytest.mark.parametrize("ahead", [3, 20])
def test_four_of_five_lie_in_the_interval(known: int, ahead: int) -> None:
    """Where days err independently and alike: 300 periods drawn from a seed, of few and of many known days."""
    rng = random.Random(known * 100 + ahead)
    inside = 0
    for _ in range(300):
        drawn = [max(0.0, rng.gauss(100, 30)) for _ in range(known + ahead)]
        days = [(MONDAY + timedelta(n), Decimal(f"{amount:.2f}")) for n, amount in enumerate(drawn[:known])]
        found = forecast_cost(
            Decimal(0), days, dates(MONDAY + timedelta(known), MONDAY + timedelta(known + ahead)), 1.0
        )
        assert found is not None
        inside += found.low <= Decimal(f"{sum(drawn[known:]):.2f}") <= found.high

    assert 0.70 < inside / 300 < 0.90


def test_a_spike_widens_what_may_come() -> None:
    """One day of ten times the cost is no pattern: the middle rises by its part of the weekday, the upper end above it."""
    plain = week([10] * 7, 4)
    spiked = [(day, amount * 10 if n == 9 else amount) for n, (day, amount) in enumerate(plain)]
    rest = dates(MONDAY + timedelta(28), MONDAY + timedelta(35))
    calm, wild = (forecast_cost(Decimal(0), days, rest, 1.0) for days in (plain, spiked))
    assert calm is not None and wild is not None

    assert (Decimal("70.00"), Decimal("92.50")) == (calm.amount, wild.amount)
    assert wild.low < calm.amount and Decimal(140) < wild.high


def test_nothing_spent_is_nothing_foretold() -> None:
    found = forecast_cost(Decimal(0), week([0] * 7), dates(MONDAY, MONDAY + timedelta(14)), 0.5)
    assert found is not None
    assert (0, 0, 0) == (found.amount, found.low, found.high)


@given(
    st.lists(st.decimals(0, 10**6, places=2), min_size=7, max_size=80),
    st.integers(0, 31),
    st.decimals(0, 10**6, places=2),
)
def test_bounds_hold_the_middle(amounts: list[Decimal], ahead: int, spent: Decimal) -> None:
    days = [(MONDAY + timedelta(n), amount) for n, amount in enumerate(amounts)]
    found = forecast_cost(spent, days, dates(MONDAY, MONDAY + timedelta(ahead)), 1.0)
    assert found is not None
    assert spent <= found.low <= found.amount <= found.high
