"""Exchange rates: which one is in force, what is refused, and prices converted exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.rates import fx
from gpuwatch.rates.csv_table import RowsRefused, whole
from gpuwatch.rates.fx import Exchange, Fx
from gpuwatch.state import State

HEADER = "from,to,rate,valid_from"
NOVEMBER = parse_rfc3339("2026-11-01")


def rate(usd: str, day: int = 0, base: str = "EUR", quote: str = "USD") -> Exchange:
    return Exchange(base, quote, Decimal(usd), NOVEMBER + day * DAY_US)


def card(*rates: Exchange, days: int = 35, currency: str | None = "USD") -> Fx:
    return Fx(rates, currency, days)


@pytest.mark.parametrize(
    ("words", "base", "quote", "day"),
    [
        pytest.param("none of this pair is given", "GBP", "USD", 0, id="another pair says nothing"),
        pytest.param("none of this pair is given", "USD", "EUR", 0, id="a pair is never turned round"),
        pytest.param("the first begins 2026-11-01T00:00:00Z", "EUR", "USD", -1, id="before the first"),
        pytest.param("older than 35 days", "EUR", "USD", 35, id="the latest is too old"),
    ],
)
def test_a_rate_that_is_not_known(words: str, base: str, quote: str, day: int) -> None:
    with pytest.raises(UsageError, match=words):
        card(rate("1.1")).at(base, quote, NOVEMBER + day * DAY_US)


@pytest.mark.parametrize(
    ("expected", "day"),
    [
        pytest.param("1.1", 0, id="from its first instant"),
        pytest.param("1.1", 9, id="until the next one"),
        pytest.param("1.2", 10, id="the latest that began"),
        pytest.param("1.2", 44, id="up to its age"),
    ],
)
def test_the_rate_in_force(expected: str, day: int) -> None:
    rates = card(rate("1.2", 10), rate("1.1"))

    assert Decimal(expected) == rates.at("EUR", "USD", NOVEMBER + day * DAY_US).rate


def test_without_a_reporting_currency_nothing_is_converted() -> None:
    rates = card(rate("1.1"), currency=None)

    assert [(0, None, None)] == rates.pieces("EUR", 0, None)
    assert fx.Converted(Decimal(2), "EUR", None) == rates.convert(Decimal(2), "EUR", NOVEMBER)


def test_what_has_no_rate_is_not_converted() -> None:
    assert None is card(rate("1.1")).convert(Decimal(2), "GBP", NOVEMBER)


def test_a_converted_amount_says_by_which_rate() -> None:
    by = rate("1.1")

    assert fx.Converted(Decimal("2.739"), "USD", by) == card(by).convert(Decimal("2.49"), "EUR", NOVEMBER)


def test_a_span_is_cut_where_the_rate_changes_and_where_it_ends() -> None:
    first, second = rate("1.1"), rate("1.2", 10)
    start, end = NOVEMBER - DAY_US, NOVEMBER + 60 * DAY_US

    assert [
        (start, NOVEMBER, None),
        (NOVEMBER, second.valid_from_us, first),
        (second.valid_from_us, second.valid_from_us + 35 * DAY_US, second),
        (second.valid_from_us + 35 * DAY_US, end, None),
    ] == card(second, first).pieces("EUR", start, end)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10**7)), max_size=6, unique_by=lambda row: row[0]),
    st.integers(1, 20),
    st.integers(-5, 70),
    st.one_of(st.none(), st.integers(1, 70)),
)
def test_pieces_adjoin_and_agree_with_the_rate_of_each_instant(
    rows: list[tuple[int, int]], days: int, start: int, length: int | None
) -> None:
    rates = card(*(rate(str(Decimal(value) / 1000), day) for day, value in rows), days=days)
    start_us = NOVEMBER + start * DAY_US
    end_us = None if length is None else start_us + length * DAY_US
    pieces = rates.pieces("EUR", start_us, end_us)

    assert (start_us, end_us) == (pieces[0][0], pieces[-1][1])
    assert [end for _, end, _ in pieces[:-1]] == [begin for begin, _, _ in pieces[1:]]
    for from_us, until_us, by in pieces:
        assert until_us is None or from_us < until_us
        for at in (from_us, (from_us + 200 * DAY_US if until_us is None else until_us) - 1):
            converted = rates.convert(Decimal(3), "EUR", at)
            assert (None if by is None or at >= by.valid_from_us + days * DAY_US else by) == (
                converted and converted.by
            )


amounts = st.integers(0, 10**16).map(lambda n: Decimal(n).scaleb(-6))
factors = st.integers(1, 10**12).map(lambda n: Decimal(n).scaleb(-6))


@settings(max_examples=200, deadline=None)
@given(amounts, factors)
def test_a_conversion_is_exact(amount: Decimal, factor: Decimal) -> None:
    """Price and rate of six places have a product of twelve: nothing is lost, however long it is."""
    got = fx.exchanged(amount, Exchange("EUR", "USD", factor, 0))

    assert Fraction(amount) * Fraction(factor) == Fraction(got)


def test_beyond_twelve_places_it_is_rounded_half_to_even() -> None:
    got = fx.exchanged(Decimal("0.000000000001"), Exchange("EUR", "USD", Decimal("0.5"), 0))

    assert (Decimal(0), fraction_to_decimal(Fraction(1, 2 * 10**12))) == (got, got)


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        pytest.param("line 3: from is not a three-letter", "eur,USD,1.1,2026-11-02", id="lower case"),
        pytest.param("line 3: to is not a three-letter", "EUR,,1.1,2026-11-02", id="no currency"),
        pytest.param("line 3: from and to are the same currency", "EUR,EUR,1,2026-11-02", id="one currency"),
        pytest.param("line 3: rate is not above 0", "EUR,USD,0,2026-11-02", id="nothing"),
        pytest.param("line 3: rate is not above 0", "EUR,USD,-1,2026-11-02", id="negative"),
        pytest.param("line 3: rate is not a plain decimal", "EUR,USD,1e3,2026-11-02", id="an exponent"),
        pytest.param("line 3: valid_from is not an RFC 3339 time", "EUR,USD,1.1,soon", id="no time"),
        pytest.param("line 3 repeats line 2", "EUR,USD,1.2,2026-11-01", id="two that begin at once"),
    ],
)
def test_a_file_with_a_bad_line_is_refused_whole(reason: str, line: str) -> None:
    with pytest.raises(RowsRefused, match=reason):
        whole(fx.parse_fx, f"{HEADER}\nEUR,USD,1.1,2026-11-01\n{line}\n", "fx.csv")


def test_another_file_is_no_exchange_rates() -> None:
    with pytest.raises(UnreadableInput, match="no column from, to, rate"):
        fx.parse_fx("gpu_model,valid_from\nH100,2026-11-01\n", "rates.csv", Rejects())


@pytest.mark.parametrize(("currency", "days"), [("usd", 35), ("USD", 0), ("USD", 10**6)])
def test_a_card_that_makes_no_sense_is_refused(currency: str, days: int) -> None:
    with pytest.raises(UsageError):
        Fx((), currency, days)


def test_what_was_set_is_read_back_and_setting_it_again_changes_nothing() -> None:
    found = card(rate("1.1"), rate("0.9", 1, "USD", "EUR"), days=7)
    with State.open("sqlite://") as state:
        assert Fx() == Fx.read(state)
        assert True is fx.replace(state, found, "ann", "fx.csv", 1)
        assert False is fx.replace(state, Fx(found.rates[::-1], "USD", 7), "ann", "fx.csv", 2)
        assert (found, 1) == (Fx.read(state), state.card_version("fx"))
        with pytest.raises(UsageError, match="begin at the same time"):
            fx.replace(state, card(rate("1.1"), rate("1.2")), "ann", "fx.csv", 3)
