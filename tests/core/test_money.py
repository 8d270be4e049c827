"""Exact money: rounding keeps totals and forgets the order of rows."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.core.money import format_quantity, fraction_to_decimal, largest_remainder

values_strategy = st.lists(
    st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**4), min_size=0, max_size=30
)


def keys(count: int) -> list[str]:
    return [f"row-{n:03d}" for n in range(count)]


@pytest.mark.parametrize(
    ("expected", "value", "places"),
    [
        pytest.param("0.333333333333", Fraction(1, 3), 12, id="a third at twelve places"),
        pytest.param("0.12", Fraction(1, 8), 2, id="a tie goes to the even digit below"),
        pytest.param("0.38", Fraction(3, 8), 2, id="a tie goes to the even digit above"),
        pytest.param("-0.12", Fraction(-1, 8), 2, id="a negative tie mirrors the positive one"),
        pytest.param("7", Fraction(7), 0, id="no places"),
        pytest.param("0.00", Fraction(-1, 1000), 2, id="nothing below zero is minus zero"),
    ],
)
def test_fractions_round_half_to_even(expected: str, value: Fraction, places: int) -> None:
    found = fraction_to_decimal(value, places)

    assert expected == str(found)


def test_a_large_amount_keeps_every_digit_in_a_narrow_decimal_context() -> None:
    with localcontext() as context:
        context.prec = 5
        found = fraction_to_decimal(Fraction(10**25 + 1, 3))

    assert "3333333333333333333333333.666666666667" == str(found)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        pytest.param("123.500000", Fraction(247, 2), id="six places are always there"),
        pytest.param("0.000000", Decimal("1E-20"), id="no exponent"),
        pytest.param("100000000000000000000.000000", 10**20, id="no exponent for a large one"),
    ],
)
def test_quantities_are_plain_decimals(expected: str, value: Fraction | Decimal | int) -> None:
    assert expected == format_quantity(value)


def test_a_thousand_in_seven_parts_gives_five_rows_the_missing_cent() -> None:
    found = largest_remainder([Fraction(1000, 7)] * 7, 2, keys(7))

    assert [Decimal("142.86")] * 5 + [Decimal("142.85")] * 2 == found


@pytest.mark.parametrize(
    ("expected", "values"),
    [
        pytest.param([], [], id="nothing to round"),
        pytest.param(["1.10", "2.20"], [Fraction("1.1"), Fraction("2.2")], id="exact cents stay"),
        pytest.param(["0.01", "0.00"], [Fraction("0.005")] * 2, id="a tie goes to the smaller key"),
        pytest.param(["-0.01", "0.00"], [Fraction("-0.005")] * 2, id="negatives mirror positives"),
        pytest.param(["0.00", "0.01"], [Fraction("0.004"), Fraction("0.006")], id="the largest part wins"),
        pytest.param(["1.01", "-0.50"], [Fraction("1.006"), Fraction("-0.5")], id="a credit keeps its cents"),
    ],
)
def test_missing_units_go_to_the_largest_parts(expected: list[str], values: list[Fraction]) -> None:
    found = largest_remainder(values, 2, keys(len(values)))

    assert expected == [f"{amount:f}" for amount in found]


def test_a_published_total_is_kept_inside_its_rows() -> None:
    found = largest_remainder([Fraction(1, 300)] * 3, 2, keys(3), total=Decimal("0.01"))

    assert [Decimal("0.01"), Decimal("0.00"), Decimal("0.00")] == found


@pytest.mark.parametrize(
    ("values", "names", "total"),
    [
        pytest.param([Fraction(1)], [], None, id="a key is missing"),
        pytest.param([Fraction(1)] * 2, ["a", "a"], None, id="a key repeats"),
        pytest.param([Fraction(1)], ["a"], Decimal("1.01"), id="the total is a cent off"),
        pytest.param([Fraction("0.004")], ["a"], Decimal("0.005"), id="the total has more places"),
    ],
)
def test_what_cannot_be_rounded_the_same_way_twice_is_refused(
    values: list[Fraction], names: list[str], total: Decimal | None
) -> None:
    with pytest.raises(ValueError, match=r"keys|total"):
        largest_remainder(values, 2, names, total=total)


@given(values_strategy)
def test_the_rounded_values_sum_to_the_rounded_total(values: list[Fraction]) -> None:
    found = largest_remainder(values, 2, keys(len(values)))

    assert fraction_to_decimal(sum(values, Fraction(0)), 2) == sum(found, Decimal(0))


@given(values_strategy)
def test_each_value_moves_less_than_one_unit(values: list[Fraction]) -> None:
    found = largest_remainder(values, 2, keys(len(values)))

    assert all(abs(Fraction(rounded) - exact) < Fraction(1, 100) for rounded, exact in zip(found, values, strict=True))


@given(values_strategy)
def test_a_credit_note_mirrors_its_bill(values: list[Fraction]) -> None:
    bill = largest_remainder(values, 2, keys(len(values)))

    assert [-amount for amount in bill] == largest_remainder([-value for value in values], 2, keys(len(values)))


@given(values_strategy.flatmap(lambda values: st.tuples(st.just(values), st.permutations(range(len(values))))))
def test_the_order_of_rows_does_not_matter(case: tuple[list[Fraction], list[int]]) -> None:
    values, order = case
    names = keys(len(values))
    straight = dict(zip(names, largest_remainder(values, 2, names), strict=True))
    shuffled = largest_remainder([values[i] for i in order], 2, [names[i] for i in order])

    assert [straight[names[i]] for i in order] == shuffled


@given(values_strategy, st.booleans())
def test_rows_follow_a_total_rounded_either_way(values: list[Fraction], up: bool) -> None:
    cents = sum(values, Fraction(0)) * 100
    total = Decimal(-(-cents.numerator // cents.denominator) if up else cents.numerator // cents.denominator) / 100

    assert total == sum(largest_remainder(values, 2, keys(len(values)), total=total), Decimal(0))
