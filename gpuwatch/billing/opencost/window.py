"""Windows, steps and sets of OpenCost's API, which rounds windows differently from the rest of gpuwatch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Window, from_us, parse_rfc3339, to_us
from gpuwatch.core.errors import UsageError

UNITS_US = {"s": SECOND_US, "m": MINUTE_US, "h": HOUR_US, "d": DAY_US, "w": 7 * DAY_US}
STEPS_MAX = 2000
"""Sets of one query before they are accumulated."""
STEP_US_MIN = MINUTE_US
LATEST_S = 253_402_300_799
"""Last second of the year 9999."""

_LENGTH = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_OFFSET = re.compile(r"(\d{1,6})([mhdw]) offset (\d{1,6})([mhdw])", re.ASCII)
_UNIX = re.compile(r"(\d{1,12})[,|-](\d{1,12})", re.ASCII)
_PIECE = re.compile(r"(\d{1,12})([smhdw])", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,12}[smhdw])+", re.ASCII)

GRAMMAR = (
    "use today, yesterday, week, lastweek, month, lastmonth, a duration such as 60m, 24h, 7d or 2w, "
    "`24h offset 2h`, START,END in RFC 3339, or two Unix times"
)


def parse_window(text: str, now_us: int) -> Window:
    """The window of OpenCost's `window` parameter; all times are UTC.

    Days begin at midnight and weeks on Sunday. `week` and `month` end now, `7d` ends with the current day and `24h`
    with the current hour (rounded outward); an `offset` is exact. Raises UsageError.
    """
    try:
        found = _named(text, now_us) or _duration(text, now_us) or _pair(text)
        for at_us in found or ():
            from_us(at_us)  # raises outside the years 1 to 9999
    except (ValueError, OverflowError) as error:
        raise UsageError(f"illegal window: {text}: {error}") from error
    if found is None:
        raise UsageError(f"illegal window: {text or '(none)'}; {GRAMMAR}")
    start_us, end_us = found
    if start_us >= end_us:
        raise UsageError(f"illegal window: {text}: the end must follow the start")
    return Window(start_us, end_us)


def _midnight(day: date) -> int:
    return to_us(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _named(text: str, now_us: int) -> tuple[int, int] | None:
    today = from_us(now_us).date()
    day, one = _midnight(today), DAY_US
    sunday = day - (today.weekday() + 1) % 7 * one
    first = today.replace(day=1)
    before = (first - timedelta(days=1)).replace(day=1)
    # A week or month that has just begun would be empty.
    now_us = max(now_us, day + SECOND_US)
    return {
        "today": (day, day + one),
        "yesterday": (day - one, day),
        "week": (sunday, now_us),
        "lastweek": (sunday - 7 * one, sunday),
        "month": (_midnight(first), now_us),
        "lastmonth": (_midnight(before), _midnight(first)),
    }.get(text)


def _duration(text: str, now_us: int) -> tuple[int, int] | None:
    if match := _LENGTH.fullmatch(text):
        unit_us = UNITS_US[match[2]]
        grain_us = min(unit_us, DAY_US)
        end_us = now_us // grain_us * grain_us + grain_us
        return end_us - int(match[1]) * unit_us, end_us
    if match := _OFFSET.fullmatch(text):
        end_us = now_us - int(match[3]) * UNITS_US[match[4]]
        return end_us - int(match[1]) * UNITS_US[match[2]], end_us
    return None


def _pair(text: str) -> tuple[int, int] | None:
    if match := _UNIX.fullmatch(text):
        start_s, end_s = int(match[1]), int(match[2])
        if max(start_s, end_s) > LATEST_S:
            raise ValueError("Unix times are in seconds")
        return start_s * SECOND_US, end_s * SECOND_US
    start, comma, end = text.partition(",")
    return (parse_rfc3339(start), parse_rfc3339(end)) if comma else None


def parse_duration(text: str) -> int:
    """Microseconds of `1d`, `90m` or `1h30m`. Raises UsageError."""
    if not _DURATION.fullmatch(text):
        raise UsageError(f"step {text[:50]!r}: use a duration such as 10m, 1h, 1d or 1w")
    return sum(int(number) * UNITS_US[unit] for number, unit in _PIECE.findall(text))


@dataclass(frozen=True)
class Sets:
    """A window cut into steps of one length (the last may be shorter), and the steps of each set of the answer."""

    window: Window
    step_us: int
    of_step: tuple[int, ...]
    """The number of the set that each step belongs to."""

    def windows(self) -> list[Window]:
        """Start and end of each set."""
        found = []
        for _, steps in groupby(range(len(self.of_step)), key=self.of_step.__getitem__):
            members = list(steps)
            start_us = self.window.start_us + members[0] * self.step_us
            end_us = self.window.start_us + (members[-1] + 1) * self.step_us
            found.append(Window(start_us, min(end_us, self.window.end_us)))
        return found


def _week(moment: datetime) -> date:
    return moment.date() - timedelta(days=(moment.weekday() + 1) % 7)


CALENDAR: dict[str, tuple[int, Callable[[datetime], object]]] = {
    "hour": (HOUR_US, lambda t: (t.date(), t.hour)),
    "day": (HOUR_US, lambda t: t.date()),
    "week": (DAY_US, _week),
    "month": (DAY_US, lambda t: (t.year, t.month)),
    "quarter": (DAY_US, lambda t: (t.year, (t.month - 1) // 3)),
}
"""Calendar periods that sets are accumulated to: the longest step allowed, and the key of a period."""


def cut(window: Window, step: str | None, accumulate: str) -> Sets:
    """The sets of a window. Raises UsageError.

    `step` is a duration or a period of CALENDAR; None means the whole window, or the day or hour that `accumulate` needs.
    `accumulate` is none, all, or a period of CALENDAR.
    """
    if step in CALENDAR:
        # A set of a calendar's length is made of days, since months differ.
        accumulate = step if accumulate == "none" else accumulate
        step = None if accumulate in CALENDAR else ("1h" if step == "hour" else "1d")
    step_us = _step_us(window, step, accumulate)
    count = -(-(window.end_us - window.start_us) // step_us)
    if count > STEPS_MAX:
        raise UsageError(f"step {step}: cuts the window into {count} sets, more than {STEPS_MAX}; use a longer step")
    if accumulate == "none":
        return Sets(window, step_us, tuple(range(count)))
    if accumulate == "all":
        return Sets(window, step_us, (0,) * count)
    longest_us, period = CALENDAR[accumulate]
    if step_us > longest_us and not (accumulate == "day" and step_us == DAY_US):
        raise UsageError(f"accumulate {accumulate}: takes a step of {'1h' if longest_us == HOUR_US else '1d'} or less")
    periods = [period(from_us(window.start_us + i * step_us)) for i in range(count)]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(periods))}
    return Sets(window, step_us, tuple(numbers[name] for name in periods))


def _step_us(window: Window, step: str | None, accumulate: str) -> int:
    """The length of a step, at most that of the window."""
    length_us = window.end_us - window.start_us
    if step is not None:
        step_us = min(parse_duration(step), length_us)
    elif accumulate in CALENDAR:
        step_us = min(HOUR_US if accumulate == "hour" or window.start_us % DAY_US else DAY_US, length_us)
    else:
        step_us = length_us
    if step_us < min(STEP_US_MIN, length_us):
        raise UsageError(f"step {step}: shorter than a minute")
    return step_us
