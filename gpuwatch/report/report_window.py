"""The window of a report: a week, a month or any other; its name, the window that it is compared with, and the default one."""

from __future__ import annotations

import re

from gpuwatch.core.clock import DAY_US, HOUR_US, Window, from_us, parse_window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.report.files import last_week
from gpuwatch.store.database import Store

WEEK_US = 7 * DAY_US
FULL_DAYS_MIN, MONTH_FULL_DAYS_MIN = 6, 24
"""Full days of data that make a week, or a month, the default of a report."""


def week_window(week: str) -> Window:
    """The span of an ISO week such as 2026-W47, of a month such as 2026-11, or of `START,END`. Raises UsageError."""
    if "," in week:
        return parse_window(week, 0)
    if not re.fullmatch(r"\d{4}-(W\d{2}|\d{2})", week):
        raise UsageError(f"report: {week!r} is not an ISO week; write it as 2026-W47, or a month as 2026-11")
    return parse_window(week, 0)


def whole_hours(window: Window) -> Window:
    """The hours that a window touches."""
    return Window(window.start_us // HOUR_US * HOUR_US, -(-window.end_us // HOUR_US) * HOUR_US)


def name_of(week: str, window: Window) -> str:
    """A week or month by its name; any other window by its ends: `2026-11-20 to 2026-11-27 18:15`."""
    if "," not in week:
        return week
    return " to ".join(
        f"{from_us(at):%Y-%m-%d}{'' if at % DAY_US == 0 else f'{from_us(at): %H:%M}'}"
        for at in (window.start_us, window.end_us)
    )


def earlier_window(week: str, window: Window, covered: Window) -> Window:
    """The same part of the period before: of the week, or of the calendar month, which may be shorter; else as long a window."""
    if "," in week:
        shift_us = window.end_us - window.start_us
        return Window(covered.start_us - shift_us, min(covered.end_us - shift_us, window.start_us))
    before = parse_window("lastmonth", window.start_us).start_us
    shift_us = window.start_us - before if window.end_us - window.start_us > WEEK_US else WEEK_US
    return Window(covered.start_us - shift_us, min(covered.end_us - shift_us, window.start_us))


def overlap(one: Window, other: Window) -> Window | None:
    """The intersection of two windows, None if they do not overlap."""
    start_us, end_us = max(one.start_us, other.start_us), min(one.end_us, other.end_us)
    return Window(start_us, end_us) if start_us < end_us else None


def default_week(store: Store, now_us: int) -> str:
    """The last ended week with at least FULL_DAYS_MIN full days of data, else the one that ended last."""
    ledger_span, last = ledger_window(store), last_week(now_us)
    week = last
    while ledger_span is not None and week_window(week).end_us > ledger_span.start_us:
        window = week_window(week)
        if _full_days(overlap(window, ledger_span)) >= FULL_DAYS_MIN:
            return week
        week = last_week(window.start_us)
    return last


def default_month(store: Store, now_us: int) -> str:
    """The last ended month with at least MONTH_FULL_DAYS_MIN full days of data, else the month with most data, even if it goes on."""
    ledger_span, window = ledger_window(store), parse_window("month", now_us)
    most_us, found = 0, parse_window("lastmonth", now_us)
    while ledger_span is not None and window.end_us > ledger_span.start_us:
        covered = overlap(window, ledger_span)
        if window.end_us <= now_us and _full_days(covered) >= MONTH_FULL_DAYS_MIN:
            found = window
            break
        known_us = 0 if covered is None else covered.end_us - covered.start_us
        if known_us > most_us:
            most_us, found = known_us, window
        window = parse_window("lastmonth", window.start_us)
    return f"{from_us(found.start_us):%Y-%m}"


def _full_days(covered: Window | None) -> int:
    return 0 if covered is None else covered.end_us // DAY_US - -(-covered.start_us // DAY_US)
