"""What a page is asked for lives in its address, whatever stands there."""

from __future__ import annotations

import pytest

from gpuwatch.dashboards.shell.filters import changed
from gpuwatch.dashboards.shell.query import MAX_VALUE, Query, finding_link, job_link


@pytest.mark.parametrize(
    ("pathname", "search", "path", "values"),
    [
        pytest.param(None, None, "/", {}, id="nothing yet"),
        pytest.param("/ui/", "", "/", {}, id="the first page"),
        pytest.param("/ui/jobs/", "?team=", "/jobs", {}, id="empty values are none"),
        pytest.param("/ui/jobs/sandbox%2Fnb-1", "?in=c%201", "/jobs/sandbox/nb-1", {"in": "c 1"}, id="quoted"),
        pytest.param("/ui/mig", "?" + "&".join(f"p{n}=1" for n in range(99)), "/mig", {}, id="too many fields"),
    ],
)
def test_an_address_is_read(pathname: str | None, search: str | None, path: str, values: dict[str, str]) -> None:
    found = Query.parse(pathname, search)

    assert (path, values) == (found.path, dict(found.values))


def test_long_values_are_clipped() -> None:
    assert MAX_VALUE == len(Query.parse("/ui/", "?team=" + "x" * 5000).get("team"))


def test_links_keep_the_filters_and_nothing_else() -> None:
    query = Query("/jobs", {"team": "a&b", "window": "24h", "cursor": "c2", "state": "running"})

    assert "/ui/findings?window=24h&team=a%26b" == query.link("/findings")
    assert "/ui/jobs?team=a%26b&window=24h&state=failed" == query.link(state="failed", cursor=None)


def test_a_detail_is_addressed_whatever_its_id_holds() -> None:
    query = Query("/findings", {"team": "nlp"})

    assert "/ui/jobs/sandbox/nb%201%3F?team=nlp&in=c1" == job_link(query, "c1", "sandbox/nb 1?")
    assert "/ui/findings/idle-1?team=nlp" == finding_link(query, "idle-1")


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param("7d", "in the last 7 days", id="a length"),
        pytest.param("lastweek", "last week", id="a name"),
        pytest.param("2026-W47", "in 2026-W47", id="an ISO week"),
        pytest.param("2026-11-09T00:00:00Z,2026-11-12T00:00:00Z", "in 9 Nov 00:00 – 12 Nov 00:00 UTC", id="two ends"),
        pytest.param("lastweek@Europe/Berlin", "last week (Europe/Berlin)", id="a name and a time zone"),
        pytest.param("2026-W47@Europe/Berlin", "in 2026-W47 (Europe/Berlin)", id="an ISO week in a time zone"),
        pytest.param(
            "2026-11-20,2026-11-22@Asia/Tokyo", "in 2026-11-20 to 2026-11-22 (Asia/Tokyo)", id="two ends in a time zone"
        ),
    ],
)
def test_a_window_ends_a_sentence(window: str, expected: str) -> None:
    assert expected == Query("/", {"window": window}).window_words


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"window": "7d", "team": None}, None, id="the default window is no change"),
        pytest.param({"window": "24h", "team": None}, "?window=24h", id="another window"),
        pytest.param({"window": "7d", "team": "nlp"}, "?team=nlp", id="a team"),
    ],
)
def test_selects_change_the_address_only_when_they_differ(values: dict[str, str | None], expected: str | None) -> None:
    assert expected == changed(Query("/jobs", {}), values)


def test_a_new_filter_starts_at_the_first_page() -> None:
    query = Query("/jobs", {"cursor": "c9", "page": "3", "state": "running"})

    assert "?state=running&team=nlp" == changed(query, {"team": "nlp"})
