"""The questions that people ask every morning, each with the clicks that it may take, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from playwright.sync_api import Browser, expect

from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api
from tests.dashboards.money import test_what_if_page
from tests.e2e.dashboard import served
from tests.e2e.visitor import WIDTHS, Visitor, visiting
from tests.worlds.patience import PATIENCE_MS


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The pages over canned answers."""
    app = fake_api.create()
    answers = {
        "idle-limits": test_what_if_page.answer(),
        "quotas": test_what_if_page.quotas(),
        "mig": {"at": "2026-10-08T00:00:00Z", "items": [test_what_if_page.tried()], "unknown": {}},
    }

    @app.get("/api/v1/what-if/{question}")
    def what_if(question: str) -> dict[str, Any]:
        return answers[question]

    mount(app)
    with served(app) as address:
        yield address


@pytest.fixture(params=WIDTHS, ids=["desktop", "phone"])
def visitor(browser: Browser, base: str, request: pytest.FixtureRequest) -> Iterator[Visitor]:
    """A visitor with a desktop or a phone."""
    with visiting(browser, base, request.param) as one:
        yield one


def test_which_team_wasted_most_is_on_the_overview_and_why_is_one_click_away(visitor: Visitor) -> None:
    team = visitor.page.locator(".teams-waste tbody tr a").first
    expect(team).to_be_visible(timeout=PATIENCE_MS)
    visitor.click(team, "/ui/team/")
    visitor.reads("What to change first", "was avoidable")

    assert 1 == visitor.clicks


def test_what_to_do_first_takes_no_click(visitor: Visitor) -> None:
    card = visitor.page.locator("section.card", has=visitor.page.get_by_role("heading", name="Do first"))
    expect(card.get_by_role("link").nth(1)).to_be_visible(timeout=PATIENCE_MS)
    expect(card).to_contain_text(re.compile(r"\$[\d,.]+"), timeout=PATIENCE_MS)

    assert 0 == visitor.clicks


def test_which_job_moves_where_takes_one_click(visitor: Visitor) -> None:
    visitor.click(visitor.page.get_by_role("link", name="Show moves").first, "/ui/capacity")
    visitor.reads("would fit after moving jobs", r"GPUs? on gpu-h100-\d+")

    assert 1 == visitor.clicks


@pytest.mark.parametrize(
    ("entry", "path", "words"),
    [
        ("Capacity", "/ui/capacity", ["requests wait", "would (not )?fit|fits now|does not fit"]),
        ("What if", "/ui/what-if", ["A limit of 15 min would have returned"]),
    ],
    ids=["why a job with 8 GPUs cannot start", "what if idle GPUs were taken back after 15 minutes"],
)
def test_a_question_of_one_click(visitor: Visitor, entry: str, path: str, words: list[str]) -> None:
    visitor.nav(entry, path)
    visitor.reads(*words)

    assert 1 == visitor.clicks


def test_what_a_slice_cost_and_who_held_it_takes_two_clicks(visitor: Visitor) -> None:
    visitor.nav("MIG", "/ui/mig")
    visitor.click(visitor.page.locator("#page section a[href*='/ui/mig/']").first, "/ui/mig/GPU-")
    visitor.reads(r"\$[\d,.]+", "who held them")

    assert 2 == visitor.clicks


def test_the_policies_to_try_are_beside_one_another(visitor: Visitor) -> None:
    """Idle limits, quotas and MIG layouts; another limit or quota is one click, and the address keeps it."""
    visitor.nav("What if", "/ui/what-if")
    visitor.click(visitor.page.locator(".trial-choices").get_by_role("link", name="5 min", exact=True), "limit=5")
    visitor.reads("A limit of 5 min would have returned")
    visitor.click(visitor.page.get_by_role("link", name="Quota", exact=True), "/ui/what-if/quotas")
    visitor.reads("With a quota of", "Users who wait")
    visitor.click(visitor.page.locator(".trial-choices").get_by_role("link", name="8 GPUs"), "gpus=8")
    visitor.reads("With a quota of 8")
    visitor.click(visitor.page.get_by_role("link", name="MIG layouts"), "/ui/what-if/mig")
    visitor.reads("would serve 90 % of last week's demand that only this pool can serve, instead of 50 %")
    overhang = visitor.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    assert 0 == overhang
