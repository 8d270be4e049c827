"""One's own way in a real browser: saved views, the calendar, the time zone, and limits that are tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from playwright.sync_api import Browser, Page, expect

from gpuwatch.dashboards.app import mount
from tests.e2e.dashboard import served
from tests.e2e.test_dashboard_browser import foreign
from tests.worlds.api import Api, fill, open_api
from tests.worlds.patience import PATIENCE_MS


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, Api]]:
    """The pages over two teams' week."""
    api = open_api(None)
    fill(api.service)
    mount(api.app)
    with served(api.app) as base:
        yield base, api
    api.service.stop()


@pytest.fixture
def tab(real: tuple[str, Api], browser: Browser) -> Iterator[Page]:
    """A tab in New York that must not complain or ask elsewhere."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="America/New_York")
    page, problems = context.new_page(), []
    page.set_default_timeout(PATIENCE_MS)
    host = real[0].removeprefix("http://")
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda asked: problems.append(asked.url) if foreign(asked.url, host) else None)
    yield page
    context.close()
    assert [] == problems


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.locator("#page:not(.busy) h1").first.wait_for()


def test_a_view_is_saved_opened_and_deleted(real: tuple[str, Api], tab: Page) -> None:
    opened(tab, f"{real[0]}/ui/jobs?window=2026-W45")
    tab.locator("#view-open").click()
    expect(tab.locator("#view-list")).to_contain_text("No saved views yet")
    tab.locator("#view-name").fill("That week")
    tab.locator("#view-save").click()
    expect(tab.locator("#view-list a")).to_have_text("That week")
    opened(tab, f"{real[0]}/ui/findings")
    tab.locator("#view-open").click()
    tab.locator("#view-list a").click()
    tab.wait_for_url("**/ui/jobs?window=2026-W45")
    expect(tab.locator("details.views")).not_to_have_attribute("open", "")
    tab.locator("#view-open").click()
    tab.get_by_role("button", name="Delete view That week").click()
    expect(tab.locator("#view-note")).to_have_text("Deleted That week.")
    expect(tab.locator("#view-list")).to_contain_text("No saved views yet")


def test_days_are_chosen_in_a_calendar(real: tuple[str, Api], tab: Page) -> None:
    opened(tab, f"{real[0]}/ui/jobs?window=2026-11-01,2026-11-05")
    tab.locator(".days button").first.click()
    calendar: Any = tab.locator("[data-dates-dropdown]")
    assert calendar.bounding_box()["width"] < 400
    calendar.get_by_role("button", name="2 November 2026", exact=True).click()
    calendar.get_by_role("button", name="3 November 2026", exact=True).click()

    tab.wait_for_url("**/ui/jobs?window=2026-11-02%2C2026-11-04")


def test_times_are_shown_in_the_own_time_zone(real: tuple[str, Api], tab: Page) -> None:
    opened(tab, f"{real[0]}/ui/jobs?window=2026-W45")
    expect(tab.locator("#page")).to_contain_text("Started (UTC)")
    tab.get_by_role("button", name="Time zone: UTC").click()
    expect(tab.locator("#page")).to_contain_text("Started (New York)")
    expect(tab.locator(".zone")).to_have_text("Local")
    tab.get_by_role("button", name="Time zone: America/New_York").click()
    expect(tab.locator("#page")).to_contain_text("Started (UTC)")
