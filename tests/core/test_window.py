"""Windows in words: days, weeks and months of UTC, or of a time zone behind an @."""

from __future__ import annotations

import pytest

from gpuwatch.core.clock import Window, parse_rfc3339, parse_window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import parameters

NOW_US = parse_rfc3339("2026-11-24T23:30:00Z")
"""A Tuesday; in Berlin it is Wednesday already."""


def ends(text: str) -> tuple[str, str]:
    found = parse_window(text, NOW_US)
    return rfc3339(found.start_us), rfc3339(found.end_us)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        pytest.param("today", "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z", id="without a zone, days are of UTC"),
        pytest.param("today@UTC", "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z", id="UTC is a zone, too"),
        pytest.param("today@Europe/Berlin", "2026-11-24T23:00:00Z", "2026-11-25T23:00:00Z", id="Berlin is a day on"),
        pytest.param("today@America/New_York", "2026-11-24T05:00:00Z", "2026-11-25T05:00:00Z", id="Virginia is not"),
        pytest.param("week@Europe/Berlin", "2026-11-22T23:00:00Z", "2026-11-29T23:00:00Z", id="a week from Monday"),
        pytest.param("lastweek@Asia/Kolkata", "2026-11-15T18:30:00Z", "2026-11-22T18:30:00Z", id="half an hour"),
        pytest.param(
            "2026-10-25@Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", id="a day of 25 hours"
        ),
        pytest.param("2026-03@America/New_York", "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z", id="clocks change"),
        pytest.param("2026-W47@Asia/Tokyo", "2026-11-15T15:00:00Z", "2026-11-22T15:00:00Z", id="an ISO week"),
        pytest.param(
            "2026-11-20,2026-11-22T06:00@Europe/Berlin",
            "2026-11-19T23:00:00Z",
            "2026-11-22T05:00:00Z",
            id="times without a zone are of this one",
        ),
        pytest.param(
            "2026-11-20T00:00:00Z,2026-11-21T00:00:00+09:00@Europe/Berlin",
            "2026-11-20T00:00:00Z",
            "2026-11-20T15:00:00Z",
            id="times with an offset keep it",
        ),
    ],
)
def test_a_window(text: str, start: str, end: str) -> None:
    assert (start, end) == ends(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("today@", "unknown time zone ''", id="no name"),
        pytest.param("today@Europe", "unknown time zone 'Europe'", id="a folder of zones"),
        pytest.param("today@../etc/passwd", "unknown time zone", id="a path"),
        pytest.param("today@Berlin", "use an IANA name such as Europe/Berlin", id="a city"),
        pytest.param("7d@Europe/Berlin", "7d counts back from now", id="a window that counts back"),
        pytest.param("always@Europe/Berlin", "window 'always' is not valid", id="no window"),
        pytest.param("0001-01-01@Asia/Tokyo", "outside the years 1 to 9999", id="begins before the first year in UTC"),
    ],
)
def test_a_window_that_is_none(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("'", "['\"]")):
        parse_window(text, NOW_US)


def test_rows_of_utc_days_are_refused_in_a_window_of_another_zone() -> None:
    """They would not be the days of the window, and nobody would see it."""
    berlin = parse_window("week@Europe/Berlin", NOW_US)
    with pytest.raises(UsageError, match="of UTC.*leave out @Europe/Berlin"):
        parameters(berlin, ("team", "day"))

    assert not parameters(berlin, ("team",))["by_period"]
    for same in (parse_window("week@UTC", NOW_US), Window(berlin.start_us, berlin.end_us)):
        assert parameters(same, ("day",))["by_period"]
