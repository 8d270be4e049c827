"""Numbers in words: what a person says, never more exact than true."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from gpuwatch.core.clock import Window, parse_rfc3339
from gpuwatch.report import text as report_text
from gpuwatch.report.facts import Amount


def plain(text: str) -> str:
    """With breaking spaces."""
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("0", "$0", id="nothing has no cents"),
        pytest.param("0.004", "$0.00", id="less than half a cent"),
        pytest.param("3.1", "$3.10", id="small amounts have cents"),
        pytest.param("482.4", "$482", id="hundreds have none"),
        pytest.param("999.4", "$999", id="just below a thousand"),
        pytest.param("999.6", "$1.00 k", id="never $1000"),
        pytest.param("48213.55", "$48.2 k", id="three digits"),
        pytest.param("999700", "$1.00 M", id="never 1000 k"),
        pytest.param("1234567890", "$1.23 bn", id="billions"),
        pytest.param("-31", "\u2212$31.00", id="a credit"),
    ],
)
def test_money(value: str, expected: str) -> None:
    """Three significant digits."""
    assert expected == plain(report_text.money(Decimal(value), "USD"))


def test_money_of_other_currencies_names_them() -> None:
    """A sign where everybody knows it, else the code."""
    assert ["€12.00", "CHF 12.00", "12.00"] == [plain(report_text.money(12, c)) for c in ("EUR", "CHF", None)]


def test_what_has_no_price_is_not_shown_as_free() -> None:
    """Unknown is not zero."""
    lacking = Amount(Decimal(7200), (), Decimal(7200))
    half = lacking + Amount(Decimal(3600), (("USD", Decimal("2.50")),))

    assert "no price" == report_text.amount_money(lacking)
    assert "$2.50 + 2 GPU-h without price" == plain(report_text.amount_money(half))
    assert "$0" == report_text.amount_money(Amount(), "USD")


def test_currencies_are_distinguished() -> None:
    """Amounts in two currencies are never added."""
    both = Amount(Decimal(1), (("EUR", Decimal(3)),)) + Amount(Decimal(1), (("USD", Decimal(4)),))

    assert "€3.00 + $4.00" == report_text.amount_money(both)
    assert both.cost_in("USD") is None


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        pytest.param(None, "unknown", id="no ratio"),
        pytest.param(Fraction(0), "0 %", id="none"),
        pytest.param(Fraction(1, 100000), "< 0.1 %", id="a trace is not none"),
        pytest.param(Fraction(13, 1000), "1.3 %", id="small ones have a decimal"),
        pytest.param(Fraction(996, 10000), "10 %", id="9.96 is ten, not 10.0"),
        pytest.param(Fraction(37, 100), "37 %", id="others have none"),
        pytest.param(Fraction(9988, 10000), "99.9 %", id="nearly all is not all"),
        pytest.param(Fraction(99999, 100000), "> 99.9 %", id="all but a trace is not all"),
        pytest.param(Fraction(1), "100 %", id="all"),
        pytest.param(Fraction(-1, 4), "\u221225 %", id="below zero"),
    ],
)
def test_percent(ratio: Fraction | None, expected: str) -> None:
    """Never rounded to nothing or to everything."""
    assert expected == plain(report_text.percent(ratio))


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param(5, None, "", id="nothing to compare with"),
        pytest.param(0, 0, "same", id="nothing both times"),
        pytest.param(1004, 1000, "same", id="less than half a percent"),
        pytest.param(5, 0, "new", id="there was none"),
        pytest.param(103, 100, "▲ 3.0 %", id="more"),
        pytest.param(50, 100, "▼ 50 %", id="less"),
        pytest.param(0, 100, "▼ 100 %", id="none any more"),
        pytest.param(1300, 100, "▲ 13 times", id="many times as much"),
        pytest.param(5, -2, "not comparable", id="after a credit"),
    ],
)
def test_change(now: int, before: int | None, expected: str) -> None:
    """Against the week before."""
    assert expected == plain(report_text.change(now, before))


def test_change_of_a_ratio_is_in_points() -> None:
    """37 % after 34 % is 3 points, not 9 %."""
    listed = [
        plain(report_text.points(Fraction(now, 100), Fraction(before, 100))) for now, before in ((37, 34), (30, 31))
    ]

    assert ["▲ 3 points", "▼ 1 point"] == listed
    assert "" == report_text.points(None, Fraction(1))


def test_a_column_adds_up_as_shown() -> None:
    """Rows are rounded together: a reader who adds them finds the total."""
    rows = [Decimal("333.40"), Decimal("333.40"), Decimal("333.40"), None]

    assert ["$334", "$333", "$333", "no price"] == report_text.column(rows, "USD")
    assert ["$0.10", "\u2212$0.05"] == report_text.column([Decimal("0.10"), Decimal("-0.05")], "USD")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param("2026-11-16", "2026-11-23", "Monday 16 to Sunday 22 November 2026", id="a week"),
        pytest.param("2026-11-30", "2026-12-07", "Monday 30 November to Sunday 6 December 2026", id="over a month"),
        pytest.param("2026-12-28", "2027-01-04", "Monday 28 December 2026 to Sunday 3 January 2027", id="over a year"),
        pytest.param("2026-11-16", "2026-11-17", "Monday 16 November 2026", id="a day"),
        pytest.param("2026-11-16T05", "2026-11-17", "16 November 2026 05:00 to 17 November 2026 00:00", id="hours"),
    ],
)
def test_days(start: str, end: str, expected: str) -> None:
    """The end of a window is the day before it."""
    span = Window(*(parse_rfc3339(text if "T" not in text else f"{text}:00:00") for text in (start, end)))

    assert expected == report_text.days(span)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], ["0.0"], id="no rows"),
        pytest.param(["6880.4", "1809.4", "17318.4"], ["26,008", "6,881", "1,809", "17,318"], id="whole hours add up"),
        pytest.param(["1.05", "2.05", "0"], ["3.1", "1.1", "2.0", "0.0"], id="few hours have tenths, and add up"),
        pytest.param(["500", "0.2"], ["500", "500", "< 1"], id="a little is not nothing"),
        pytest.param(["5", "0.01"], ["5.0", "5.0", "< 0.1"], id="nor where there are tenths"),
        pytest.param(["200", "-40"], ["160", "200", "\u221240"], id="corrections may be negative"),
    ],
)
def test_a_column_of_hours_adds_up(values: list[str], expected: list[str]) -> None:
    """The total first."""
    assert expected == [plain(one) for one in report_text.hour_column([Fraction(value) for value in values])]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("2026-11", "November 2026"), ("2026-W47", "2026-W47"), ("2026-11-21", "2026-11-21"), ("quarter", "quarter")],
)
def test_a_month_is_named(name: str, expected: str) -> None:
    assert expected == report_text.period(name)
