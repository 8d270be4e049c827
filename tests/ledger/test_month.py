"""Dollars a month: what is never projected first, then the rate and its words."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.ledger.month import Basis


@pytest.mark.parametrize(
    ("basis", "bucket", "expected"),
    [
        pytest.param(Basis(14 * DAY_US, 6 * HOUR_US), "hoarded", None, id="six measured hours of two weeks"),
        pytest.param(Basis(14 * DAY_US, 23 * HOUR_US), "gap", None, id="less than a day"),
        pytest.param(Basis(14 * DAY_US, 24 * HOUR_US), "gap", Fraction("3043.75"), id="a day"),
        pytest.param(
            Basis(14 * DAY_US, 10 * DAY_US), "hoarded", Fraction("304.375"), id="only the measured days count"
        ),
        pytest.param(Basis(10 * DAY_US, 0), "stranded", Fraction("304.375"), id="free GPUs: the days with records"),
        pytest.param(Basis(10 * DAY_US, 0), "hoarded", None, id="nothing was measured"),
    ],
)
def test_a_hundred_dollars_a_month(basis: Basis, bucket: str, expected: Fraction | None) -> None:
    assert expected == basis.a_month(Fraction(100), bucket)


def test_nothing_is_nothing_a_month_however_little_was_measured() -> None:
    assert Fraction(0) == Basis(HOUR_US, 0).a_month(Fraction(0), "hoarded")


@pytest.mark.parametrize(
    ("measured_us", "expected"),
    [
        pytest.param(HOUR_US, "the 1 measured hour", id="one"),
        pytest.param(6 * HOUR_US, "the 6 measured hours", id="six"),
        pytest.param(47 * HOUR_US + HOUR_US // 2, "the 47.5 measured hours", id="less than two days"),
        pytest.param(60 * HOUR_US, "the 2.5 measured days", id="days"),
        pytest.param(7 * DAY_US, "", id="a week is not mentioned"),
    ],
)
def test_how_little_was_measured_is_shown(measured_us: int, expected: str) -> None:
    assert expected == Basis(14 * DAY_US, measured_us).words()
    assert "the 3 recorded hours" == Basis(3 * HOUR_US, measured_us).words("stranded")


@pytest.mark.parametrize(
    ("basis", "bucket", "days"),
    [
        pytest.param(Basis(14 * DAY_US, 0), "hoarded", 14, id="nothing was measured: the days with records"),
        pytest.param(Basis(14 * DAY_US, 6 * HOUR_US), "hoarded", 1, id="a few hours are a day"),
        pytest.param(Basis(14 * DAY_US, 7 * DAY_US), "hoarded", 7, id="the measured days"),
        pytest.param(Basis(14 * DAY_US, 7 * DAY_US), "stranded", 14, id="free GPUs: the days with records"),
    ],
)
def test_a_rate_a_day_is_over_the_days_that_its_cost_was_counted_in(basis: Basis, bucket: str, days: int) -> None:
    """A gang's $53 of 14 days without measurements is $3.80 a day, not $53."""
    assert days == basis.days(bucket)
