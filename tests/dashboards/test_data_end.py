"""Windows of data that has ended: the last days of the data, not days without any."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuwatch.dashboards.shell.data_end import anchored
from gpuwatch.dashboards.shell.filters import outline
from gpuwatch.dashboards.shell.query import Query
from tests.dashboards.laid_out import answering, asked, text

ENDED = {"start": "2026-11-09T00:00:00Z", "end": "2026-11-23T00:00:00Z", "ended": True}


def seen(path: str, **changed: Any) -> Query:
    """The query of an address on a service with this data."""
    return asyncio.run(anchored(answering({"coverage": {**ENDED, **changed}}), asked(path)))


@pytest.mark.parametrize(
    ("path", "changed", "window", "words", "label"),
    [
        pytest.param("/", {"ended": False}, "7d", "in the last 7 days", "Last 7 days", id="data goes on"),
        pytest.param("/", {"start": None, "end": None, "ended": False}, "7d", "in the last 7 days", "Last 7 days", id="no data"),
        pytest.param("/?window=lastweek", {}, "lastweek", "last week", "Last week", id="a week of the calendar stays"),
        pytest.param(
            "/", {}, "2026-11-16T00:00:00Z,2026-11-23T00:00:00Z", "in the last 7 days of the data",
            "16 to 22 Nov, data's end", id="the last seven days",
        ),
        pytest.param(
            "/?window=24h", {"end": "2026-11-22T12:30:00Z"}, "2026-11-21T12:30:00Z,2026-11-22T12:30:00Z",
            "in the last 24 hours of the data", "21 to 22 Nov, data's end", id="the last day",
        ),
        pytest.param(
            "/", {"start": "2026-10-30T00:00:00Z", "end": "2026-11-02T06:00:00Z"}, "2026-10-30T00:00:00Z,2026-11-02T06:00:00Z",
            "in all of the data", "30 Oct to 2 Nov, all data", id="less than seven days",
        ),
    ],
)  # fmt: skip
def test_the_last_days(path: str, changed: dict[str, Any], window: str, words: str, label: str) -> None:
    query = seen(path, **changed)

    assert (window, words, label) == (query.window, query.window_words, query.window_label(query.window_name))


def test_an_api_without_the_route_is_asked_for_the_last_days() -> None:
    assert "7d" == asyncio.run(anchored(answering({}), asked("/"))).window


def test_the_choice_of_the_window_says_what_it_is() -> None:
    """The address keeps its short name, so a link does not freeze the window of a service that goes on."""
    query = seen("/")
    (box,) = outline(query, ("window",))

    assert "16 to 22 Nov, data's end" in text(box)
    assert "/ui/jobs" == query.link("/jobs")
    assert "2026" not in str(query.link("/jobs"))
    assert query.at_the_end
