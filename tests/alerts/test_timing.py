"""Quiet hours, holidays and digests: in the channel's own time zone, also when clocks change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.alerts.timing import Timing
from gpuwatch.core.clock import DAY_US, MINUTE_US, parse_rfc3339, rfc3339

NIGHT = Timing(quiet_hours="22:00-07:00")
BERLIN = Timing(quiet_hours="22:00-07:00", timezone="Europe/Berlin")
WEEKEND = Timing(quiet_hours="18:00-08:00", quiet_days=("sat", "sun"), holidays=("2026-11-23", "12-25"))


def until(timing: Timing, at: str) -> str | None:
    """The end of the quiet time that holds at `at`."""
    found_us = timing.quiet_until_us(parse_rfc3339(at))
    return None if found_us is None else rfc3339(found_us)


@pytest.mark.parametrize(
    ("timing", "at", "expected"),
    [
        pytest.param(Timing(), "2026-11-21T03:00:00Z", None, id="no quiet hours"),
        pytest.param(NIGHT, "2026-11-21T21:59:59Z", None, id="a second before they begin"),
        pytest.param(NIGHT, "2026-11-21T07:00:00Z", None, id="the moment they end"),
        pytest.param(WEEKEND, "2026-11-20T12:00:00Z", None, id="a working day"),
        pytest.param(NIGHT, "2026-11-21T22:00:00Z", "2026-11-22T07:00:00Z", id="the moment they begin"),
        pytest.param(NIGHT, "2026-11-22T03:00:00Z", "2026-11-22T07:00:00Z", id="after midnight"),
        pytest.param(Timing(quiet_hours="12:00-13:30"), "2026-11-21T12:10:00Z", "2026-11-21T13:30:00Z", id="by day"),
        pytest.param(BERLIN, "2026-11-21T21:00:00Z", "2026-11-22T06:00:00Z", id="of another time zone"),
        pytest.param(
            WEEKEND, "2026-11-20T19:00:00Z", "2026-11-24T08:00:00Z", id="an evening, a weekend and a holiday in a row"
        ),
        pytest.param(WEEKEND, "2027-12-25T09:00:00Z", "2027-12-27T08:00:00Z", id="a holiday of every year"),
        pytest.param(BERLIN, "2026-10-25T00:30:00Z", "2026-10-25T06:00:00Z", id="the night in which clocks go back"),
        pytest.param(BERLIN, "2026-03-29T00:30:00Z", "2026-03-29T05:00:00Z", id="the night in which they go forward"),
        pytest.param(
            Timing(quiet_hours="01:00-02:30", timezone="Europe/Berlin"),
            "2026-10-25T01:10:00Z",
            "2026-10-25T01:30:00Z",
            id="an end that comes twice",
        ),
    ],
)
def test_quiet_times_end_when_they_say(timing: Timing, at: str, expected: str | None) -> None:
    assert expected == until(timing, at)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 366 * 24 * 60),
    st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"]),
    st.sampled_from(["22:00-07:00", "01:00-02:30", "00:00-23:59", None]),
    st.lists(st.sampled_from(["mon", "wed", "sat", "sun"]), unique=True),
)
def test_after_a_quiet_time_it_is_not_quiet(minutes: int, zone: str, hours: str | None, days: list[str]) -> None:
    timing = Timing(quiet_hours=hours, quiet_days=tuple(days), timezone=zone)
    at_us = parse_rfc3339("2026-01-01") + minutes * MINUTE_US
    end_us = timing.quiet_until_us(at_us)

    assert end_us is None or (at_us < end_us <= at_us + 5 * DAY_US and timing.quiet_until_us(end_us) is None)


@pytest.mark.parametrize(
    ("timing", "at", "expected"),
    [
        pytest.param(Timing(), "2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z", id="at once"),
        pytest.param(NIGHT, "2026-11-21T03:00:00Z", "2026-11-21T07:00:00Z", id="when the night is over"),
        pytest.param(
            Timing(digest="daily", digest_at="09:30", timezone="Europe/Berlin"),
            "2026-11-21T08:30:00Z",
            "2026-11-22T08:30:00Z",
            id="a digest in its time zone",
        ),
        pytest.param(
            Timing(digest="hourly", timezone="Asia/Kolkata"),
            "2026-11-21T08:10:00Z",
            "2026-11-21T08:30:00Z",
            id="the full hour of a zone that is half an hour off",
        ),
        pytest.param(
            Timing(digest="daily", quiet_hours="07:00-09:00"),
            "2026-11-21T01:00:00Z",
            "2026-11-21T09:00:00Z",
            id="a digest that falls into a quiet time",
        ),
        pytest.param(
            Timing(digest="daily", quiet_days=("sat", "sun")),
            "2026-11-20T12:00:00Z",
            "2026-11-23T00:00:00Z",
            id="a digest of a weekend",
        ),
    ],
)
def test_a_message_is_due(timing: Timing, at: str, expected: str) -> None:
    assert expected == rfc3339(timing.due_us(parse_rfc3339(at)))


@pytest.mark.parametrize(
    ("urgent", "expected"),
    [
        pytest.param("none", set(), id="nothing passes"),
        pytest.param("critical", {"critical"}, id="critical passes"),
        pytest.param("medium", {"medium", "high", "critical"}, id="from medium up"),
    ],
)
def test_what_is_urgent_passes(urgent: str, expected: set[str]) -> None:
    assert expected == Timing(urgent=urgent).passing
