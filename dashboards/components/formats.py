"""Formats numbers, times and names for display."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

MISSING = "–"
"""Shown where nothing was measured, instead of a zero."""

SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "CHF": "CHF ", "INR": "₹"}
OWNERS = {
    "__platform__": "Platform",
    "__unallocated__": "No team assigned",
    "__idle__": "Idle",
    "__shared__": "Shared",
}
HOUR_S = 3600
UNITS = ((Decimal(10) ** 9, "bn"), (Decimal(10) ** 6, "M"), (Decimal(1000), "k"))
SIGNIFICANT = 6
"""Digits of an exact value in a tooltip."""
PERIOD = re.compile(r"(\d{4})-(?:W(\d\d)|(0[1-9]|1[0-2]))", re.ASCII)
"""Names of weeks and months."""
ZONE = re.compile(r"[A-Za-z][\w+-]{0,30}(?:/[\w+-]{1,30}){0,2}", re.ASCII)
"""Names of time zones."""

_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
"""The time zone of the page that is drawn."""


def number(value: object) -> Decimal | None:
    """A finite number from JSON (string, int, float), or None."""
    if value is None or isinstance(value, bool):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def total(values: Iterable[object]) -> Decimal | None:
    """The sum of the known numbers; None if none is known."""
    known = [found for value in values if (found := number(value)) is not None]
    return sum(known, Decimal(0)) if known else None


def short(value: Decimal) -> str:
    """`12.3`, `1,284`, `48.2 k`, `1.25 M`: at most four digits."""
    size = abs(value)
    if size >= 999_950_000:
        return f"{value / 1_000_000_000:.2f} G"
    if size >= 999_950:
        return f"{value / 1_000_000:.2f} M"
    if size >= 10_000:
        return f"{value / 1000:.1f} k"
    if size >= 100 or value == value.to_integral_value():
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 1 else f"{value:.2g}" if size < Decimal("0.1") else f"{value:.2f}"


def exact(value: object, unit: str = "") -> str:
    """A number for a tooltip: at most six significant digits, or all of its whole part, with its unit."""
    amount = number(value)
    if amount is None:
        return ""
    whole = len(str(abs(int(amount)))) if abs(amount) >= 1 else amount.adjusted() + 1 if amount else 0
    text = f"{amount:,.{max(0, min(SIGNIFICANT - whole, 12))}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}".strip()


def money_places(values: Iterable[object]) -> int:
    """The decimals of a column of money: cents only if every amount is below 1,000."""
    known = [abs(found) for value in values if (found := number(value)) is not None]
    return 2 if max(known, default=Decimal(0)) < 1000 else 0


def fixed(value: object, places: int) -> str:
    """A number of a column whose numbers all have as many decimals: `1,284.50`, or `< 1` for what would round to zero."""
    amount = number(value)
    if amount is None:
        return MISSING
    least = Decimal(1).scaleb(-places)
    if amount and abs(amount) * 2 < least:
        return f"< {least:f}" if amount > 0 else f"> -{least:f}"
    return f"{amount:,.{places}f}"


def sign_of(currency: str | None) -> str:
    """The sign of a currency for a header: `$`, or its code."""
    return SIGNS.get(currency or "", currency or "").strip()


def money(value: object, currency: str | None) -> str:
    """`$48.2 k`; with cents below 1,000."""
    amount = number(value)
    if amount is None:
        return MISSING
    sign = SIGNS.get(currency or "", f"{currency} " if currency else "")
    size = abs(amount)
    text = f"{size:,.2f}" if 0 < size < 1000 else short(size.quantize(Decimal(1)))
    return f"{'-' if amount < 0 else ''}{sign}{text}"


def rounded(value: object, currency: str | None) -> str:
    """Money in a sentence, as the reports print it: `$3.20`, `$399`, `$48.2 k`; three digits, cents only below 100."""
    amount = number(value)
    if amount is None:
        return MISSING
    sign = SIGNS.get(currency or "", f"{currency} " if currency else "")
    return f"{'-' if amount < 0 else ''}{sign}{_three_digits(abs(amount))}"


def _three_digits(size: Decimal) -> str:
    for unit, name in UNITS:
        if size >= unit * Decimal("0.9995"):  # 999.6 is 1.00 k
            scaled = size / unit
            places = max(0, 2 - scaled.adjusted())
            text = f"{scaled:.{places}f}"
            if len(text.replace(".", "")) > 3:  # 9.996 is 10.0
                text = f"{scaled:.{max(0, places - 1)}f}"
            return f"{text} {name}"
    if size >= 100 or not size:
        return f"{size:.0f}"
    return f"{size:.2f}"


def gpu_time(seconds: object) -> str:
    """GPU-seconds as `1,284 GPU-h`, or minutes below an hour."""
    amount = number(seconds)
    if amount is None:
        return MISSING
    if amount and abs(amount) < HOUR_S:
        return f"{short((amount / 60).quantize(Decimal('0.1')))} GPU-min"
    return f"{short(amount / HOUR_S)} GPU-h"


def hours(seconds: object) -> str:
    """GPU-seconds as hours without a unit, for table columns: one decimal in every row, so that they align."""
    amount = number(seconds)
    return MISSING if amount is None else fixed(amount / HOUR_S, 1)


def percent(ratio: object) -> str:
    """A ratio (0..1) as `37 %`, with one decimal below 10 %."""
    value = number(ratio)
    if value is None:
        return MISSING
    value *= 100
    if value == 0:
        return "0 %"
    if abs(value) < Decimal("0.05"):
        return "< 0.1 %" if value > 0 else "> -0.1 %"
    return f"{value:.1f} %" if abs(value) < Decimal("9.95") else f"{value:.0f} %"


def change(now: object, before: object) -> str | None:
    """`+12 %` against the previous period; None if there is nothing to compare with."""
    new, old = number(now), number(before)
    if new is None or old is None or old == 0:
        return None
    ratio = (new - old) / abs(old)
    if abs(ratio) < Decimal("0.005"):
        return "no change"
    if abs(ratio) >= 10:
        return f"{'+' if ratio > 0 else '-'}{abs(ratio):,.0f}×"
    return f"{'+' if ratio > 0 else '−'}{abs(ratio) * 100:.0f} %"


def points(now: object, before: object) -> str | None:
    """The change of a ratio in percentage points: `+3.1 pt`."""
    new, old = number(now), number(before)
    if new is None or old is None:
        return None
    gap = (new - old) * 100
    return "no change" if abs(gap) < Decimal("0.05") else f"{'+' if gap > 0 else '−'}{abs(gap):.1f} pt"


def moment(text: object) -> datetime | None:
    """An RFC 3339 time, or None."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def before(at: datetime, seconds: int) -> str:
    """The instant so many seconds earlier, as the API takes it."""
    return (at - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def use_zone(name: str | None) -> None:
    """Sets the time zone of the page that is drawn: an IANA name; UTC for None and for a name that is none."""
    try:
        _zone.set(ZoneInfo(name) if name and ZONE.fullmatch(name) else UTC)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        _zone.set(UTC)


def zone_word() -> str:
    """The time zone for headers and notes: `UTC`, or its city such as `New York`."""
    return str(_zone.get()).rpartition("/")[2].replace("_", " ")


def local(at: datetime) -> datetime:
    """A time in the time zone of the page."""
    return at.astimezone(_zone.get())


def when(text: object) -> str:
    """`21 Nov 06:40 UTC`; in another time zone with its abbreviation."""
    at = moment(text)
    return f"{clock(text)} {local(at):%Z}" if at else MISSING


def clock(text: object) -> str:
    """`21 Nov 06:40`, where the header names the time zone."""
    at = moment(text)
    return f"{local(at):%-d %b %H:%M}" if at else MISSING


def day(text: object) -> str:
    """`21 Nov`. A midnight of UTC stands for its UTC day, as the ledger has it, in every time zone."""
    at = moment(text)
    if at is None:
        return MISSING
    whole = at.astimezone(UTC).time() == time()
    return f"{at.astimezone(UTC) if whole else local(at):%-d %b}"


def span(start: object, end: object, zone: bool = True) -> str:
    """`9 Nov 00:00 – 12 Nov 00:00 UTC`; within a day `9 Nov 00:00 – 12:00 UTC`. `zone`: whether it is named."""
    low, high = moment(start), moment(end)
    last = when(end) if zone else clock(end)
    if low and high and local(low).date() == local(high).date():
        last = f"{local(high):%H:%M} {local(high):%Z}" if zone else f"{local(high):%H:%M}"
    return f"{clock(start)} – {last}"


def period(name: object) -> str:
    """`2026-11` as `November 2026`, `2026-W47` as `week 47 of 2026`."""
    found = PERIOD.fullmatch(str(name))
    if found is None:
        return clip(name, 20)
    year, week, month = found.groups()
    if week:
        return f"week {int(week)} of {year}"
    return f"{datetime(int(year), int(month), 1):%B} {year}"


def duration(seconds: object) -> str:
    """`45 s`, `12 min`, `6 h`, `3 d`."""
    amount = number(seconds)
    if amount is None:
        return MISSING
    size = float(amount)
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if size >= 2 * length:
            return f"{size / length:.0f} {unit}"
    return f"{size:.0f} s"


def owner(name: object) -> str:
    """The label of a team, user or special owner."""
    return OWNERS.get(str(name), str(name)) if name not in (None, "") else MISSING


def device(name: str) -> str:
    """A GPU by the first part of its UUID, with its slice."""
    gpu, slash, rest = name.partition("/")
    return f"{'-'.join(gpu.split('-')[:2]) if gpu.startswith('GPU-') else gpu}{slash}{rest}"


def inside(word: str) -> str:
    """A label for the middle of a sentence: with a lower-case first letter, except for abbreviations."""
    return word if word[1:2].isupper() else word[:1].lower() + word[1:]


def workload(name: object) -> str:
    """A workload class: `compute-tensor` as `compute tensor`."""
    return clip(str(name).replace("_", " ").replace("-", " "), 40) if name else MISSING


def sentence(text: str) -> str:
    """Text with a capital first letter."""
    return text[:1].upper() + text[1:]


def clip(text: object, length: int = 80) -> str:
    """At most `length` characters; names from outside may be very long."""
    full = str(text) if text is not None else MISSING
    return full if len(full) <= length else f"{full[: length - 1]}…"
