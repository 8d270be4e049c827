"""Time: UTC microseconds, windows, and local times of files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpuwatch.core.errors import UsageError

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
ZONE_US_MAX = 14 * HOUR_US
"""No time zone is further ahead of UTC."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    """An aware datetime as microseconds since the epoch, exactly (no float)."""
    if moment.tzinfo is None:
        raise ValueError("naive datetime: set its time zone first")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """Integer microseconds as an aware UTC datetime."""
    return _EPOCH + timedelta(microseconds=us)


def second_floor(us: int) -> int:
    """The last full second at or before an instant."""
    return us // SECOND_US * SECOND_US


def day_floor(us: int) -> int:
    """The last UTC midnight at or before an instant."""
    return us // DAY_US * DAY_US


def rfc3339(us: int) -> str:
    """`2026-11-21T02:08:29Z`, with a fraction only if it is not zero."""
    return f"{from_us(us).replace(tzinfo=None).isoformat()}Z"


def parse_rfc3339(text: str, tz: tzinfo = UTC) -> int:
    """An RFC 3339 time in microseconds; a date alone is its midnight, a time without a zone is of `tz`.

    Raises ValueError, also for times outside the years 1 to 9999 in UTC.
    """
    moment = datetime.fromisoformat(text.strip())
    try:
        return to_us((moment if moment.tzinfo else moment.replace(tzinfo=tz)).astimezone(UTC))
    except OverflowError as error:
        raise ValueError(f"{text!r}: not within the years 1 to 9999 of UTC") from error


def zone(name: str) -> ZoneInfo:
    """An IANA time zone, or UsageError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"unknown time zone {name!r}: use an IANA name such as Europe/Berlin") from error


def local_us(text: str, tz: ZoneInfo) -> int:
    """A naive local time such as Slurm's (`2026-11-21T02:08:28`) in microseconds; the first of two where clocks go back."""
    return to_us(datetime.fromisoformat(text).replace(tzinfo=tz))


@dataclass(frozen=True)
class Window:
    """A half-open span of time [start_us, end_us)."""

    start_us: int
    end_us: int
    zone: str | None = None
    """The time zone of its days, if it was asked for in one; None: UTC."""

    def __post_init__(self) -> None:
        if self.start_us >= self.end_us:
            raise UsageError(
                f"window {rfc3339(self.start_us)},{rfc3339(self.end_us)} is empty: the end must follow the start"
            )


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _span(start: date, end: date, tz: tzinfo) -> Window:
    first_us, end_us = (to_us(datetime(d.year, d.month, d.day, tzinfo=tz)) for d in (start, end))
    return Window(first_us, end_us)


def _month(first: date, tz: tzinfo) -> Window:
    return _span(first, (first + timedelta(days=32)).replace(day=1), tz)


ENDED_US = DAY_US
"""Data that stopped longer ago has ended: it is of files, or its sources are gone. Windows of it end with it."""
WINDOW_HELP = (
    "today, yesterday, week, lastweek, month, lastmonth, hours, days or weeks back (24h, 7d, 2w), 2026-W47, 2026-11, 2026-11-21 "
    "or START,END (RFC 3339). Days are UTC days; with @ZONE, as in today@Europe/Berlin, they are days of that time zone."
)


def parse_window(text: str, now_us: int) -> Window:
    """A window in words: `today`, `lastweek`, `7d`, `2w`, `2026-W47`, `2026-11`, `2026-11-21` (a UTC day), `START,END`.

    With `@` and an IANA time zone (`lastweek@Europe/Berlin`), days, weeks, months and times without a zone are of that zone.
    """
    words, at, name = text.partition("@")
    if not at:
        return _window(text, now_us, UTC)
    if re.fullmatch(_BACK, words):
        raise UsageError(f"window {text!r}: {words} counts back from now, in every time zone; leave out @{name}")
    found = _window(words, now_us, zone(name))
    try:
        rfc3339(found.start_us), rfc3339(found.end_us)
    except OverflowError as error:
        raise UsageError(f"window {text!r}: outside the years 1 to 9999") from error
    return replace(found, zone=None if name == "UTC" else name)


_BACK = r"(\d{1,5})([hdw])"


def _window(text: str, now_us: int, tz: tzinfo) -> Window:
    today = from_us(now_us).astimezone(tz).date()
    monday, first = _monday(today), today.replace(day=1)
    named = {
        "today": lambda: _span(today, today + timedelta(days=1), tz),
        "yesterday": lambda: _span(today - timedelta(days=1), today, tz),
        "week": lambda: _span(monday, monday + timedelta(days=7), tz),
        "lastweek": lambda: _span(monday - timedelta(days=7), monday, tz),
        "month": lambda: _month(first, tz),
        "lastmonth": lambda: _month((first - timedelta(days=1)).replace(day=1), tz),
    }
    if text in named:
        return named[text]()
    if match := re.fullmatch(_BACK, text):
        length = int(match[1]) * {"h": HOUR_US, "d": DAY_US, "w": 7 * DAY_US}[match[2]]
        return Window(now_us - length, now_us)
    try:
        if match := re.fullmatch(r"(\d{4})-W(\d{2})", text):
            start = date.fromisocalendar(int(match[1]), int(match[2]), 1)
            return _span(start, start + timedelta(days=7), tz)
        if match := re.fullmatch(r"(\d{4})-(\d{2})", text):
            return _month(date(int(match[1]), int(match[2]), 1), tz)
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            day = date.fromisoformat(text)
            return _span(day, day + timedelta(days=1), tz)
        if "," in text:
            start_text, end_text = text.split(",", 1)
            return Window(parse_rfc3339(start_text, tz), parse_rfc3339(end_text, tz))
    except (ValueError, OverflowError) as error:
        if "," in text:
            raise UsageError(f"window {text!r}: {error}") from error
        problem = error if "W" in text else "there is no such month or day"
        forms = "a month is written 2026-11, a week 2026-W46, a day 2026-11-21"
        raise UsageError(f"window {text!r}: {problem}; {forms}") from error
    raise UsageError(
        f"window {text!r} is not valid: use today, yesterday, week, lastweek, month, lastmonth, 24h, 7d, 2w, "
        "2026-W47, 2026-11, 2026-11-21 or START,END in RFC 3339"
    )
