"""The time that there is data of."""

from __future__ import annotations

from tests.worlds.api import Api

COVERAGE = "/api/v1/coverage"
HOUR_US = 3_600_000_000


def test_data_that_stopped_a_week_ago_has_ended(filled: Api) -> None:
    """Six hours of Monday; it is Tuesday of the week after. A token of a team sees the same: it names nobody."""
    expected = {"start": "2026-11-02T00:00:00Z", "end": "2026-11-02T06:00:00Z", "ended": True}

    assert expected == filled.get(COVERAGE).json()
    assert {"start": None, "end": None, "ended": False} == filled.get(COVERAGE, params={"cluster": "c9"}).json()


def test_data_of_yesterday_goes_on(filled: Api) -> None:
    filled.moment[0] -= 6 * 24 * HOUR_US + 20 * HOUR_US

    assert False is filled.get(COVERAGE).json()["ended"]


def test_a_service_without_data_has_no_end(bare: Api) -> None:
    assert {"start": None, "end": None, "ended": False} == bare.get(COVERAGE).json()
