"""Numbers for people: $48.2 k, 1,284 GPU-h, 37 %."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.clock import Window, from_us
from gpuwatch.core.money import Number, format_quantity, largest_remainder
from gpuwatch.report.facts import HOUR_S, Amount

SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹", "KRW": "₩"}
MISSING = "unknown"
NO_PRICE = "no price"
GAP = "\u00a0"
"""Between a number and its unit: never a line break."""
MINUS = "\u2212"
STEPS = ((Fraction(10**9), "bn"), (Fraction(10**6), "M"), (Fraction(10**3), "k"))
DIGITS = 3
"""Significant digits of an amount in a sentence."""
SAME_RATIO = Fraction(1, 200)
"""A smaller change counts as none."""
NINE = Fraction(995, 100)
"""From here on a number has no decimal: 9.96 shows as 10."""
HOURS_WHOLE = 100
"""From this total on, a column of GPU-hours has no decimals."""
MANY_TIMES = 10
"""Growth above this shows as a factor."""


def money(value: Number, currency: str | None) -> str:
    """`$48.2 k`, `-$3.10`, `CHF 980`: three significant digits, cents only below a hundred."""
    exact = Fraction(value)
    sign, size = (MINUS if exact < 0 else ""), abs(exact)
    return f"{sign}{_prefix(currency)}{_short(size)}"


def amount_money(amount: Amount, currency: str | None = None) -> str:
    """The money of an amount in all its currencies, and the time without a price; `currency` is the unit of zero."""
    parts = [money(cost, each) for each, cost in amount.costs]
    if amount.unpriced_gpu_seconds:
        lacking = f"{hours(Fraction(amount.unpriced_gpu_seconds) / HOUR_S)} without price"
        return " + ".join([*parts, lacking]) if parts else NO_PRICE
    return " + ".join(parts) or money(0, currency)


def worth(cost: Fraction | None, gpu_hours: Fraction, currency: str | None) -> str:
    """The money of an amount, or its GPU-hours without a price."""
    return hours(gpu_hours) if cost is None else money(cost, currency)


def places_of(values: Sequence[Decimal | None]) -> int:
    """Decimals of a column of money: none, or cents where all are small."""
    return 0 if sum(abs(value) for value in values if value is not None) >= 1000 else 2


def figures(values: Sequence[Decimal | None], places: int) -> list[Decimal | None]:
    """The numbers that a column shows: rounded so that they add up. None stays None."""
    known = [value for value in values if value is not None]
    rounded = iter(largest_remainder(known, places, [f"{n:09d}" for n in range(len(known))]))
    return [None if value is None else next(rounded) for value in values]


def figure(value: Decimal, places: int, currency: str | None) -> str:
    """A figure of a column in a sentence: never another number than the column shows."""
    return plain(value, 0, currency) if places == 0 and abs(value) < 1000 else money(value, currency)


def column(values: Sequence[Decimal | None], currency: str | None, places: int | None = None) -> list[str]:
    """A column of money that adds up as shown, by default with the decimals of places_of. None is NO_PRICE."""
    places = places_of(values) if places is None else places
    return [NO_PRICE if value is None else plain(value, places, currency) for value in figures(values, places)]


def cells(amounts: Sequence[Amount], currency: str | None, places: int | None = None) -> list[str]:
    """A column of amounts: as `column` where the cost is fully known, in words where there are several currencies or some
    time has no price.
    """
    costs = [amount.cost_in(currency) for amount in amounts]
    rows = zip(amounts, costs, column(costs, currency, places), strict=True)
    return [amount_money(amount, currency) if cost is None else text for amount, cost, text in rows]


def plain(value: Decimal, places: int, currency: str | None) -> str:
    """`$48,213` or `$12.34`: with thousands separators, no units."""
    sign = MINUS if value < 0 else ""
    return f"{sign}{_prefix(currency)}{abs(value):,.{places}f}"


def hours(value: Number) -> str:
    """`1,284 GPU-h`."""
    return f"{count(value)}{GAP}GPU-h"


def count(value: Number) -> str:
    """`1,284`, `9.5`, `< 0.1`."""
    exact = Fraction(value)
    if exact < 0:
        return f"{MINUS}{count(-exact)}"
    if 0 < exact < Fraction(1, 10):
        return f"<{GAP}0.1"
    if exact == 0 or exact >= NINE or exact.denominator == 1:
        return f"{round(exact):,}"
    return format_quantity(exact, 1)


def hour_column(values: Sequence[Fraction]) -> list[str]:
    """The total of a column of GPU-hours, then its rows, rounded so that they add up: to whole hours, or tenths where all are few."""
    whole = sum(values, Fraction(0))
    places = 0 if whole >= HOURS_WHOLE else 1
    rounded = largest_remainder(values, places, [f"{n:09d}" for n in range(len(values))])
    shown = [whole, *values]
    return [
        _hour_cell(one, exact, places) for one, exact in zip([sum(rounded, Decimal(0)), *rounded], shown, strict=True)
    ]


def _hour_cell(rounded: Decimal, exact: Fraction, places: int) -> str:
    if not rounded and exact:
        return f"<{GAP}{'1' if places == 0 else '0.1'}"
    return f"{MINUS if rounded < 0 else ''}{abs(rounded):,.{places}f}"


def percent(ratio: Number | float | None) -> str:
    """`37 %` of a ratio 0..1: one decimal where it is small or nearly all, never rounded to all or to nothing."""
    if ratio is None:
        return MISSING
    exact = Fraction(ratio) * 100
    if exact < 0:
        return f"{MINUS}{percent(-exact / 100)}"
    if exact in (0, 100):
        return f"{exact}{GAP}%"
    if exact < Fraction(1, 10):
        return f"<{GAP}0.1{GAP}%"
    if Fraction(999, 10) < exact < 100:
        return f">{GAP}99.9{GAP}%"
    places = 1 if exact < NINE or Fraction(995, 10) <= exact < 100 else 0
    return f"{format_quantity(exact, places)}{GAP}%"


def at_roofline(efficiency: Number | float) -> str:
    """The roofline efficiency in a sentence."""
    return f"Of the working time, the hardware ran at {percent(efficiency)} of its roofline: a quality of the code, not waste."


def ratio(part: Number, whole: Number) -> Fraction | None:
    """part / whole, None where the whole is zero."""
    return Fraction(part) / Fraction(whole) if whole else None


def change(now: Number, before: Number | None) -> str:
    """`▲ 12 %`, `▼ 3.0 %`, `same`, `new`; empty where there is nothing to compare with."""
    if before is None:
        return ""
    one, other = Fraction(now), Fraction(before)
    if other <= 0:
        return "same" if one == other else "new" if other == 0 else "not comparable"
    grown = (one - other) / other
    if abs(grown) < SAME_RATIO:
        return "same"
    if grown > MANY_TIMES:
        return f"▲{GAP}{count(one / other)}{GAP}times"
    return f"{'▲' if grown > 0 else '▼'}{GAP}{percent(abs(grown))}"


def points(now: Number | None, before: Number | None) -> str:
    """The change of a ratio in percentage points: `▲ 3 points`."""
    if now is None or before is None:
        return ""
    moved = (Fraction(now) - Fraction(before)) * 100
    if abs(moved) < Fraction(1, 2):
        return "same"
    size = round(abs(moved))
    return f"{'▲' if moved > 0 else '▼'}{GAP}{size}{GAP}{'point' if size == 1 else 'points'}"


def days(window: Window) -> str:
    """`Monday 16 to Sunday 22 November 2026`; with times where an end is not midnight."""
    start, end = from_us(window.start_us), from_us(window.end_us)
    if start.time() == end.time() == start.replace(hour=0, minute=0, second=0, microsecond=0).time():
        last = end - timedelta(days=1)
        if start.date() == last.date():
            return f"{start:%A} {start.day} {start:%B %Y}"
        first = f"{start:%A} {start.day}"
        first += "" if (start.month, start.year) == (last.month, last.year) else f" {start:%B}"
        first += "" if start.year == last.year else f" {start:%Y}"
        return f"{first} to {last:%A} {last.day} {last:%B %Y}"
    return f"{moment(window.start_us)} to {moment(window.end_us)}"


def period(name: str) -> str:
    """`2026-11` as `November 2026`; another name of a period as it is."""
    year, _, month = name.partition("-")
    return f"{datetime(int(year), int(month), 1):%B %Y}" if month.isdecimal() and year.isdecimal() else name


def moment(at_us: int) -> str:
    """`21 November 2026 06:00`, UTC."""
    at = from_us(at_us)
    return f"{at.day} {at:%B %Y %H:%M}"


def instant(at_us: int) -> str:
    """`21 Nov 06:00`, UTC: where the year is obvious."""
    at = from_us(at_us)
    return f"{at.day} {at:%b %H:%M}"


def span(start_us: int, end_us: int) -> str:
    """`21 Nov 06:00 to 09:30`, or with a second date where it is another day; UTC."""
    start, end = instant(start_us), instant(end_us)
    same_day = from_us(start_us).date() == from_us(end_us).date()
    return f"{start} to {end.rpartition(' ')[2] if same_day else end}"


def _prefix(currency: str | None) -> str:
    if currency is None:
        return ""
    return SYMBOLS.get(currency, f"{currency}{GAP}")


def _short(size: Fraction) -> str:
    for step, unit in STEPS:
        # 999.6 shows as 1.00 k.
        if size >= step * Fraction(9995, 10000):
            return f"{_significant(size / step)}{GAP}{unit}"
    return _significant(size) if size >= 100 else format_quantity(size, 0 if size == 0 else 2)


def _significant(size: Fraction) -> str:
    places = max(0, DIGITS - len(str(int(size))))
    text = format_quantity(size, places)
    if size >= 1000:
        return f"{round(size):,}"
    return text if len(text.replace(".", "")) <= DIGITS else format_quantity(size, max(0, places - 1))
