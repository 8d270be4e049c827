"""The search: where a result leads, and what is listed for words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpuwatch.dashboards.client import ApiFailure
from gpuwatch.dashboards.shell import search
from gpuwatch.dashboards.shell.frame import crumbs
from gpuwatch.dashboards.shell.page import find, pages
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.search import results

QUERY = Query.parse("/ui/jobs", "?window=24h&user=eve")


class Fixed:
    """An API that finds these."""

    def __init__(self, *items: dict[str, Any] | Exception) -> None:
        self.items = items

    async def get(self, path: str, **_: object) -> dict[str, Any]:
        assert path == "search"
        for item in self.items:
            if isinstance(item, Exception):
                raise item
        return {"items": self.items}


def item(kind: str, id_: str, name: str | None = None, cluster: str | None = "c1") -> dict[str, Any]:
    return {"kind": kind, "id": id_, "name": name, "cluster": cluster}


def found(text: str, *items: Any) -> Any:
    api: Any = Fixed(*items)
    return asyncio.run(results(api, text, QUERY))


@pytest.mark.parametrize(
    ("one", "href"),
    [
        (item("team", "a b", cluster=None), "/ui/team/a%20b?window=24h"),
        (item("user", "eve&x=1"), "/ui/jobs?window=24h&user=eve%26x%3D1"),
        (item("job", "ns/train"), "/ui/jobs/ns/train?window=24h&in=c1"),
        (item("node", "n-1"), "/ui/topology?window=24h&node=n-1&in=c1"),
        (item("gpu", "GPU-1"), "/ui/fleet/GPU-1?window=24h&in=c1"),
        (item("finding", "idle-hoarding-1", "Idle: train"), "/ui/findings/idle-hoarding-1?window=24h"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_where_a_result_leads(one: dict[str, Any], href: str) -> None:
    (link,) = found("zzz", one)
    assert href == link.href


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "A broken GPU in service: GPU-a6ec1a03-8dc7-36ea-b193-01306c79bc6d",
            "GPU-a6ec1a03: A broken GPU in service",
        ),
        ("Work lost: gang: 7", "gang: 7: Work lost"),
        ("No subject", "No subject"),
        (None, "idle-hoarding-1"),
    ],
)
def test_a_finding_begins_with_what_it_is_about(name: str | None, expected: str) -> None:
    """Many findings of one rule differ at the end only, which a phone cuts."""
    (link,) = found("zzz", item("finding", "idle-hoarding-1", name))
    assert expected == link.children[1].children


def test_a_job_that_waits_says_so() -> None:
    (link,) = found("zzz", item("job", "lab/train", "train") | {"waits": True})

    assert "/ui/jobs/lab/train?window=24h&in=c1" == link.href
    assert "waits, train, c1" == link.children[2].children


def test_nothing_is_asked_without_words() -> None:
    assert [] == found("   ", AssertionError())


def test_pages_are_found_by_title_and_kinds_of_a_newer_api_are_left_out() -> None:
    links = found("budg", item("rack", "r1"))
    assert ["/ui/budgets?window=24h"] == [link.href for link in links]


def test_a_page_is_found_by_another_word_for_what_it_has() -> None:
    assert ["Teams & chargeback", "Findings", "Reports"] == [page.title for page in search.titled("export")]
    assert "Rates" in [page.title for page in search.titled("PRICE")]
    assert [] == search.titled("zzz")
    assert not set(search.ALSO) - {page.path for page in pages()}


def test_what_is_not_found_and_what_fails_is_explained() -> None:
    assert "Nothing is called zzz." == found("zzz")[0].children
    assert "busy" == found("zzz", ApiFailure(503, "busy", "busy"))[0].children


def test_a_page_below_another_shows_the_way() -> None:
    above = crumbs(find("/team/red"), Query.parse("/ui/team/red", "?window=24h"))
    assert above is not None and "/ui/teams?window=24h" == above.children[0].href
    assert crumbs(find("/jobs"), QUERY) is None and crumbs(None, QUERY) is None
