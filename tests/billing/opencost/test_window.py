"""OpenCost's windows, steps and sets: every form of the grammar, on a Wednesday at 14:30:20 UTC."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.billing.opencost.window import STEPS_MAX, cut, parse_duration, parse_window
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, parse_rfc3339, rfc3339
from gpuwatch.core.errors import UsageError

NOW = "2026-11-18T14:30:20Z"
NOW_US = parse_rfc3339(NOW)

WINDOWS = [
    ("today", "2026-11-18T00:00:00Z", "2026-11-19T00:00:00Z", "today is the whole day, also what is to come"),
    ("yesterday", "2026-11-17T00:00:00Z", "2026-11-18T00:00:00Z", "yesterday is a whole day"),
    ("week", "2026-11-15T00:00:00Z", NOW, "a week begins on Sunday and ends now"),
    ("lastweek", "2026-11-08T00:00:00Z", "2026-11-15T00:00:00Z", "the week before is Sunday to Sunday"),
    ("month", "2026-11-01T00:00:00Z", NOW, "a month begins on the first and ends now"),
    ("lastmonth", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z", "the month before is whole"),
    ("60m", "2026-11-18T13:31:00Z", "2026-11-18T14:31:00Z", "minutes end with the one that runs"),
    ("24h", "2026-11-17T15:00:00Z", "2026-11-18T15:00:00Z", "hours end with the one that runs"),
    ("7d", "2026-11-12T00:00:00Z", "2026-11-19T00:00:00Z", "days are today and the six before"),
    ("1d", "2026-11-18T00:00:00Z", "2026-11-19T00:00:00Z", "one day is today"),
    ("2w", "2026-11-05T00:00:00Z", "2026-11-19T00:00:00Z", "weeks end with the day that runs"),
    ("24h offset 2h", "2026-11-17T12:30:20Z", "2026-11-18T12:30:20Z", "an offset is exact"),
    ("7d offset 1d", "2026-11-10T14:30:20Z", "2026-11-17T14:30:20Z", "an offset of days is exact too"),
    ("1d offset 1w", "2026-11-10T14:30:20Z", "2026-11-11T14:30:20Z", "an offset of a week is seven days"),
    (
        "2026-11-01T00:00:00Z,2026-11-03T06:00:00Z",
        "2026-11-01T00:00:00Z",
        "2026-11-03T06:00:00Z",
        "two RFC 3339 times are taken as they are",
    ),
    ("2026-11-01,2026-11-03", "2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z", "two dates are their midnights"),
    ("1586822400,1586908800", "2020-04-14T00:00:00Z", "2020-04-15T00:00:00Z", "two Unix times"),
    ("1586822400-1586908800", "2020-04-14T00:00:00Z", "2020-04-15T00:00:00Z", "two Unix times with a hyphen"),
]
REFUSED = [
    ("", "a window is required"),
    ("bogus", "a word that is none"),
    ("2026-W47", "our own weeks are not OpenCost's"),
    ("7D", "units are in lower case"),
    ("7y", "there is no year"),
    ("0d", "no length"),
    ("-7d", "a negative length"),
    ("24h offset", "an offset without a length"),
    ("2026-11-03T00:00:00Z,2026-11-01T00:00:00Z", "the end before the start"),
    ("1586908800,1586822400", "Unix times the wrong way round"),
    ("999999999999,9999999999999", "milliseconds"),
    ("2026-13-01,2026-14-01", "a month that is none"),
    ("999999w", "before the year 1 there is nothing"),
]


@pytest.mark.parametrize(("text", "start", "end"), [w[:3] for w in WINDOWS], ids=[w[3] for w in WINDOWS])
def test_every_form_of_a_window(text: str, start: str, end: str) -> None:
    found = parse_window(text, NOW_US)

    assert (start, end) == (rfc3339(found.start_us), rfc3339(found.end_us))


@pytest.mark.parametrize("text", [w[0] for w in REFUSED], ids=[w[1] for w in REFUSED])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="illegal window"):
        parse_window(text, NOW_US)


def test_a_sunday_is_the_first_day_of_its_week() -> None:
    found = parse_window("week", parse_rfc3339("2026-11-15T08:00:00Z"))

    assert "2026-11-15T00:00:00Z" == rfc3339(found.start_us)


def test_a_month_that_has_just_begun_is_not_empty() -> None:
    found = parse_window("month", parse_rfc3339("2026-11-01T00:00:00Z"))

    assert "2026-11-01T00:00:01Z" == rfc3339(found.end_us)


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"[0-9]{1,9}[mhdw]?( offset [0-9]{1,9}[mhdw])?|[0-9]{1,14}[-,|][0-9]{1,14}")
)
def test_any_text_is_a_window_or_refused(text: str) -> None:
    try:
        found = parse_window(text, NOW_US)
    except UsageError:
        return

    assert found.start_us < found.end_us


DURATIONS = [("10m", 600), ("1h30m", 5400), ("1d", 86_400), ("2w", 1_209_600), ("90s", 90)]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_durations(text: str, seconds: int) -> None:
    assert seconds * 1_000_000 == parse_duration(text)


DAYS = Window(parse_rfc3339("2026-11-12T00:00:00Z"), parse_rfc3339("2026-11-19T00:00:00Z"))
SETS = [
    (None, "none", 1, "without a step there is one set"),
    ("1d", "none", 7, "a set each day"),
    ("3d", "none", 3, "the last set is shorter"),
    ("1d", "all", 1, "accumulated they are one"),
    ("day", "none", 7, "a step by its word"),
    (None, "day", 7, "accumulated by day, the step follows"),
    ("1h", "day", 7, "hours make days"),
    (None, "week", 2, "weeks end with Saturday"),
    (None, "month", 1, "one month"),
    ("month", "none", 1, "a step of a month"),
    (None, "quarter", 1, "one quarter"),
    (None, "hour", 168, "hours"),
]


@pytest.mark.parametrize(("step", "accumulate", "count"), [s[:3] for s in SETS], ids=[s[3] for s in SETS])
def test_sets_of_seven_days(step: str | None, accumulate: str, count: int) -> None:
    windows = cut(DAYS, step, accumulate).windows()

    assert count == len(windows)
    assert (DAYS.start_us, DAYS.end_us) == (windows[0].start_us, windows[-1].end_us)
    assert [w.end_us for w in windows[:-1]] == [w.start_us for w in windows[1:]]


def test_a_week_of_the_calendar_begins_on_sunday() -> None:
    windows = cut(DAYS, None, "week").windows()

    assert "2026-11-15T00:00:00Z" == rfc3339(windows[1].start_us)


CUTS_REFUSED = [
    ("1s", "none", "a second is too short"),
    ("1m", "none", "too many sets"),
    ("1d2", "none", "no duration"),
    ("", "none", "an empty step"),
    ("2d", "day", "days are not made of two"),
    ("1w", "month", "months are not made of weeks"),
]


@pytest.mark.parametrize(("step", "accumulate"), [s[:2] for s in CUTS_REFUSED], ids=[s[2] for s in CUTS_REFUSED])
def test_steps_that_are_refused(step: str, accumulate: str) -> None:
    with pytest.raises(UsageError):
        cut(DAYS, step, accumulate)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**10),
    st.integers(1, 40 * DAY_US),
    st.sampled_from([None, "10m", "1h", "90m", "1d", "day", "week", "hour", "month"]),
    st.sampled_from(["none", "all", "hour", "day", "week", "month", "quarter"]),
)
def test_sets_are_the_window(start_h: int, length_us: int, step: str | None, accumulate: str) -> None:
    """Whatever it is cut into, the sets follow each other from its start to its end."""
    start_us = start_h % (50 * 365 * 24) * HOUR_US
    window = Window(start_us, start_us + length_us)
    try:
        sets = cut(window, step, accumulate)
    except UsageError:
        return
    windows = sets.windows()

    assert len(sets.of_step) <= STEPS_MAX
    assert (window.start_us, window.end_us) == (windows[0].start_us, windows[-1].end_us)
    assert [w.end_us for w in windows[:-1]] == [w.start_us for w in windows[1:]]
    assert len(windows) == sets.of_step[-1] + 1
