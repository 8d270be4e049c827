"""The period of a report: weeks, months, what they are compared with, and the default."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.core.clock import DAY_US, HOUR_US, Window, parse_rfc3339, parse_window
from gpuwatch.core.errors import UsageError
from gpuwatch.report import report_window
from gpuwatch.report.files import mailed_files
from gpuwatch.report.report_window import default_month, default_week, earlier_window, name_of, week_window

NOW_US = parse_rfc3339("2026-11-25T10:00:00Z")
MONDAY_US = parse_rfc3339("2026-11-23T00:00:00Z")


def test_a_month_is_a_period_too() -> None:
    november = Window(parse_rfc3339("2026-11-01T00:00:00Z"), parse_rfc3339("2026-12-01T00:00:00Z"))

    assert november == week_window("2026-11")


@pytest.mark.parametrize("text", ["2026", "2026-W4", "2026-11-01", "lastweek"])
def test_other_windows_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="ISO week"):
        week_window(text)


def test_a_month_is_compared_with_the_month_before_though_it_is_longer() -> None:
    """March has three days more than February: they are compared with February whole."""
    march, february = parse_window("2026-03", 0), parse_window("2026-02", 0)

    assert february == earlier_window("2026-11", march, march)


def test_a_part_of_a_week_is_compared_with_the_same_part() -> None:
    week = week_window("2026-W47")
    part = Window(week.start_us + DAY_US, week.end_us - HOUR_US)

    assert Window(part.start_us - 7 * DAY_US, part.end_us - 7 * DAY_US) == earlier_window("2026-11", week, part)


@pytest.mark.parametrize(
    ("begun_us", "ended_us", "expected"),
    [
        pytest.param(MONDAY_US - 30 * DAY_US, NOW_US, "2026-W47", id="the week that ended last"),
        pytest.param(MONDAY_US - 7 * DAY_US + HOUR_US, NOW_US, "2026-W47", id="six full days and most of a seventh"),
        pytest.param(
            MONDAY_US - 5 * DAY_US, NOW_US, "2026-W47", id="no week has six: the last one, whose lack it shows"
        ),
        pytest.param(MONDAY_US - 30 * DAY_US, MONDAY_US - 2 * DAY_US, "2026-W46", id="the last week has five"),
        pytest.param(MONDAY_US - 40 * DAY_US, MONDAY_US - 20 * DAY_US, "2026-W44", id="data ended weeks ago"),
    ],
)
def test_the_default_is_the_last_week_with_six_full_days(
    monkeypatch: pytest.MonkeyPatch, begun_us: int, ended_us: int, expected: str
) -> None:
    monkeypatch.setattr(report_window, "ledger_window", lambda store: Window(begun_us, ended_us))
    store: Any = None

    assert expected == default_week(store, NOW_US)


@pytest.mark.parametrize(
    ("begun_us", "ended_us", "expected"),
    [
        pytest.param(NOW_US - 60 * DAY_US, NOW_US, "2026-10", id="the month that ended last"),
        pytest.param(NOW_US - 28 * DAY_US, NOW_US, "2026-11", id="three days of it are known: the month that goes on"),
        pytest.param(NOW_US - 45 * DAY_US, NOW_US, "2026-11", id="no ended month has 24 days, and this one has more"),
        pytest.param(NOW_US - 45 * DAY_US, NOW_US - 23 * DAY_US, "2026-10", id="this month has least"),
        pytest.param(NOW_US - 90 * DAY_US, NOW_US - 40 * DAY_US, "2026-09", id="data ended in October"),
        pytest.param(NOW_US - 3 * HOUR_US, NOW_US, "2026-11", id="three hours of data"),
    ],
)
def test_the_default_is_the_last_month_with_24_full_days_or_the_one_with_most(
    monkeypatch: pytest.MonkeyPatch, begun_us: int, ended_us: int, expected: str
) -> None:
    monkeypatch.setattr(report_window, "ledger_window", lambda store: Window(begun_us, ended_us))
    store: Any = None

    assert expected == default_month(store, NOW_US)


def test_without_data_the_default_is_the_month_that_ended_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_window, "ledger_window", lambda store: None)
    store: Any = None

    assert "2026-10" == default_month(store, NOW_US)


def test_a_monthly_report_is_mailed_too(tmp_path: Any) -> None:
    (tmp_path / "2026-11").mkdir()
    (tmp_path / "2026-11" / "fleet.pdf").write_bytes(b"%PDF")

    assert {"pdf": b"%PDF"} == mailed_files(tmp_path, "2026-11/fleet")


def test_a_window_that_is_no_week_is_compared_with_as_long_a_one_before() -> None:
    """Up to the part that has data; its name has its ends, without the time at midnight."""
    text = "2026-11-03T00:00:00Z,2026-11-06T18:15:00Z"
    window = week_window(text)
    covered = Window(window.start_us + DAY_US, window.end_us)
    length = window.end_us - window.start_us

    assert Window(window.start_us + DAY_US - length, window.start_us) == earlier_window(text, window, covered)
    assert "2026-11-03 to 2026-11-06 18:15" == name_of(text, window)
    assert "2026-W45" == name_of("2026-W45", week_window("2026-W45"))
