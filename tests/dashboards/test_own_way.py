"""One's own way through the pages: time zone, windows by calendar, saved views."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.components import figures, formats
from gpuwatch.dashboards.shell import filters
from gpuwatch.dashboards.shell import saved_views as views
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards.laid_out import answering, links, shown, text

NIGHT = "2026-11-21T23:30:00Z"


@pytest.fixture
def zone() -> Iterator[None]:
    yield
    formats.use_zone(None)


@pytest.mark.parametrize("name", [None, "", "UTC", "No/Where", "../../etc/passwd", "<b>", "a" * 200])
def test_an_unknown_time_zone_is_utc(zone: None, name: str | None) -> None:
    formats.use_zone(name)

    assert ("UTC", "21 Nov 23:30 UTC") == (formats.zone_word(), formats.when(NIGHT))


def test_times_follow_the_time_zone(zone: None) -> None:
    formats.use_zone("Asia/Tokyo")

    assert ("22 Nov 08:30", "22 Nov 08:30 JST") == (formats.clock(NIGHT), formats.when(NIGHT))
    assert "22 Nov 08:30 – 10:00 JST" == formats.span(NIGHT, "2026-11-22T01:00:00Z")
    assert "22 Nov 08:30 – 10:00" == formats.span(NIGHT, "2026-11-22T01:00:00Z", zone=False)


def test_a_day_of_the_ledger_keeps_its_name_in_every_time_zone(zone: None) -> None:
    formats.use_zone("America/New_York")

    assert ("21 Nov", "21 Nov") == (formats.day("2026-11-21T00:00:00Z"), formats.day("2026-11-21"))
    assert "20 Nov" == formats.day("2026-11-21T03:00:00Z")


def test_charts_follow_the_time_zone(zone: None) -> None:
    figure = {
        "data": [{"x": [NIGHT, None], "y": [1.5, 2], "name": "2026"}],
        "layout": {"xaxis": {"range": (NIGHT, NIGHT)}},
    }

    assert figure is figures.in_zone(figure)
    formats.use_zone("Asia/Tokyo")
    moved = figures.in_zone(figure)
    assert {"x": ["2026-11-22T08:30:00", None], "y": [1.5, 2], "name": "2026"} == moved["data"][0]
    assert ["2026-11-22T08:30:00"] * 2 == moved["layout"]["xaxis"]["range"]


@pytest.mark.parametrize(
    ("window", "days"),
    [
        pytest.param("7d", None, id="a named window"),
        pytest.param("2026-11-02T06:00:00Z,2026-11-04T00:00:00Z", None, id="within a day"),
        pytest.param("x,y", None, id="no times"),
        pytest.param("0001-01-01,9999-12-31", None, id="the ends of time"),
        pytest.param("2026-11-02,2026-11-05", ["2026-11-02", "2026-11-04"], id="dates"),
        pytest.param("2026-11-02T00:00:00Z,2026-11-03T00:00:00Z", ["2026-11-02", "2026-11-02"], id="midnights"),
    ],
)
def test_the_calendar_shows_windows_of_whole_days(window: str, days: list[str] | None) -> None:
    assert days == filters.days_of(window)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"window": "7d", "days": [None, None]}, None, id="nothing chosen"),
        pytest.param({"window": "7d", "days": ["2026-11-02", None]}, None, id="only the first day"),
        pytest.param({"window": "7d", "days": ["x", "2026-11-02"]}, None, id="no date"),
        pytest.param({"window": "7d", "days": ["2026-11-02", "2026-11-04"]}, "2026-11-02%2C2026-11-05", id="both days"),
        pytest.param({"window": "7d", "days": ["2026-11-04", "2026-11-02"]}, "2026-11-02%2C2026-11-05", id="backwards"),
    ],
)
def test_days_of_the_calendar_become_the_window(values: Any, expected: str | None) -> None:
    found = filters.changed(Query("/jobs"), values)

    assert (None if expected is None else f"?window={expected}") == found


def test_a_named_window_replaces_days() -> None:
    query = Query("/jobs", {"window": "2026-11-02,2026-11-05"})

    assert "?window=24h" == filters.changed(query, {"window": "24h", "days": ["2026-11-02", "2026-11-04"]})


class Kept:
    """An API that records what was changed, or fails."""

    def __init__(self, failure: ApiFailure | None = None) -> None:
        self.failure = failure
        self.changes: list[tuple[Any, ...]] = []

    async def change(self, *words: Any) -> None:
        if self.failure:
            raise self.failure
        self.changes.append(words)


def test_a_view_is_saved_with_its_address() -> None:
    api: Any = Kept()
    note, left = asyncio.run(views.saved(api, "  my / week ", "/ui/jobs?window=24h"))

    assert [("PUT", "views/my%20%2F%20week", {"address": "/ui/jobs?window=24h"})] == api.changes
    assert ("Saved as my / week.", "") == (note, left)


def test_a_view_without_a_name_is_not_saved_and_a_refused_one_keeps_it() -> None:
    api: Any = Kept()
    refused: Any = Kept(ApiFailure(400, "bad_request", "100 views are saved already"))

    assert ("Give the view a name.", "") == asyncio.run(views.saved(api, "  ", "/ui/"))
    assert ("100 views are saved already", "x") == asyncio.run(views.saved(refused, "x", "/ui/"))
    assert [] == api.changes


def test_only_pages_are_linked() -> None:
    layout = views.listing([{"name": "<b>", "address": "/ui/jobs"}, {"name": "bad", "address": "javascript:alert(1)"}])

    assert ["/ui/jobs"] == links(layout)
    assert "<b>" in text(layout)
    assert "No saved views yet" in text(views.listing([]))


def test_a_server_that_never_had_data_is_welcomed_with_three_ways_to_begin() -> None:
    words = text(
        shown("/", source=answering({"overview": {"now": {"items": []}}, "fleet": {"items": [], "as_of": None}}))
    )

    assert "Welcome to gpuwatch" in words
    assert all(line in words for line in ("gpuwatch demo", "[[slurm]]", "gpuwatch import bundle BUNDLE"))
    assert "Choose another window" not in words


def test_an_empty_window_of_a_server_with_data_is_no_first_run() -> None:
    fleet = {"items": [], "as_of": "2026-11-20T12:00:00Z"}
    words = text(shown("/", source=answering({"overview": {"now": {"items": []}}, "fleet": fleet})))
    unreadable = text(shown("/", source=answering({"overview": {"now": {"items": []}}})))

    assert "No GPU time in this window" in words
    assert "No GPU time in this window" in unreadable
