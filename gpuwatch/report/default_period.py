"""The week or month of a report that names none: the last one with enough data."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, Window, from_us, parse_window
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.report.files import last_week
from gpuwatch.report.week_facts import overlap, week_window
from gpuwatch.store.database import Store

FULL_DAYS_MIN, MONTH_FULL_DAYS_MIN = 6, 24
"""Full days of data that make a week, or a month, the default of a report."""


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
