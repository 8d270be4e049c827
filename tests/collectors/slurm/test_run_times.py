"""Local times of the hour that clocks repeat, and of the hour that they skip: which instant they mean."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from gpuwatch.collectors.slurm.run_times import run_times
from gpuwatch.core.clock import HOUR_US, MINUTE_US, parse_rfc3339

BERLIN = ZoneInfo("Europe/Berlin")
"""Clocks go back from 03:00 to 02:00 on 2026-10-25 (01:00 UTC), and forward from 02:00 to 03:00 on 2026-03-29."""


def on(day: str, time: str | None) -> str | None:
    return None if time is None else f"{day}T{time}:00"


def utc(day: str, time: str | None) -> int | None:
    """`-23:30` is of the day before."""
    if time is None:
        return None
    back = 24 * HOUR_US if time.startswith("-") else 0
    return parse_rfc3339(f"{day}T{time.lstrip('-')}:00Z") - back


@pytest.mark.parametrize(
    ("submit", "start", "end", "minutes", "expected", "guessed"),
    [
        pytest.param(None, "02:30", "03:30", 120, (None, "00:30", "02:30"), False, id="starts before the clocks go back"),
        pytest.param(None, "02:30", "03:30", 60, (None, "01:30", "02:30"), False, id="starts after they went back"),
        pytest.param(None, "01:30", "02:30", 60, (None, "-23:30", "00:30"), False, id="ends before they go back"),
        pytest.param(None, "01:30", "02:30", 120, (None, "-23:30", "01:30"), False, id="ends after they went back"),
        pytest.param(None, "02:15", "02:15", 60, (None, "00:15", "01:15"), False, id="the same local time an hour apart"),
        pytest.param(None, "02:45", "02:15", None, (None, "00:45", "01:15"), False, id="the end follows the start"),
        pytest.param("02:50", "02:10", None, None, ("00:50", "01:10", None), False, id="the start follows the submission"),
        pytest.param("01:50", "02:10", "02:50", 40, ("-23:50", "00:10", "00:50"), True, id="both readings have the length"),
        pytest.param("02:40", "02:10", "02:50", 40, ("00:40", "01:10", "01:50"), False, id="the submission decides both"),
        pytest.param(None, "01:30", "02:30", None, (None, "-23:30", "00:30"), True, id="one or two hours: one"),
        pytest.param(None, "02:30", "03:30", None, (None, "01:30", "02:30"), True, id="one or two hours at the end: one"),
        pytest.param("01:00", "02:30", "03:30", None, ("-23:00", "01:30", "02:30"), True, id="its length before its wait"),
        pytest.param("01:00", "02:30", None, None, ("-23:00", "00:30", None), True, id="a job that runs, nothing decides"),
        pytest.param("02:30", "03:30", "04:30", 60, ("01:30", "02:30", "03:30"), False, id="a wait is no longer than printed"),
        pytest.param("01:00", "03:30", "04:30", 60, ("-23:00", "02:30", "03:30"), False, id="no time of that hour"),
    ],
)  # fmt: skip
def test_a_time_of_the_repeated_hour_is_the_instant_that_fits(
    submit: str | None,
    start: str,
    end: str | None,
    minutes: int | None,
    expected: tuple[str | None, ...],
    guessed: bool,
) -> None:
    day = "2026-10-25"
    length_us = None if minutes is None else minutes * MINUTE_US

    found = run_times(on(day, submit), on(day, start), on(day, end), length_us, BERLIN)

    assert tuple(utc(day, time) for time in expected) == found[:3]
    assert guessed == found.guessed


@pytest.mark.parametrize(
    ("start", "end", "minutes", "expected", "guessed"),
    [
        pytest.param("01:30", "02:30", 60, ("00:30", "01:30"), False, id="the length decides the end"),
        pytest.param("02:30", "03:30", 60, ("00:30", "01:30"), False, id="the length decides the start"),
        pytest.param("02:30", "03:10", None, ("00:30", "01:10"), False, id="the other reading ends before it starts"),
        pytest.param("02:10", "02:50", None, ("00:10", "00:50"), True, id="both skipped: as long as printed"),
    ],
)
def test_a_time_that_clocks_skip_makes_no_run_negative_or_longer(
    start: str, end: str, minutes: int | None, expected: tuple[str, str], guessed: bool
) -> None:
    day = "2026-03-29"
    found = run_times(None, on(day, start), on(day, end), None if minutes is None else minutes * MINUTE_US, BERLIN)

    assert tuple(utc(day, time) for time in expected) == found[1:3]
    assert guessed == found.guessed


def test_an_end_before_its_start_is_refused() -> None:
    with pytest.raises(ValueError, match="end precedes start"):
        run_times(None, "2026-11-21T03:00:00", "2026-11-21T02:00:00", HOUR_US, BERLIN)
