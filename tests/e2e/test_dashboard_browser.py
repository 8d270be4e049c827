"""The pages in a real browser, over the real application and over a fake one with hostile answers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from fastapi import FastAPI
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from gpuwatch.dashboards.app import mount
from tests.dashboards import fake_api
from tests.e2e.dashboard import served
from tests.worlds.api import Api, fill, open_api
from tests.worlds.patience import PATIENCE_MS

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
WINDOW = "window=30d"
PAGES = ("/ui/", "/ui/teams", "/ui/mig", "/ui/findings", "/ui/jobs", "/ui/quality")
MONEY = ("/ui/budgets", "/ui/periods", "/ui/reports", "/ui/decisions")
OPENED = (
    "/ui/team/nlp",
    "/ui/me?user=alice",
    "/ui/charges/held",
    "/ui/charges/held?policy=share-idle",
    "/ui/charges/dealt",
    "/ui/charges/unpriced",
    "/ui/periods/2026-W46",
    "/ui/periods/2026-W44",
    "/ui/decisions?of=spot",
    "/ui/decisions?of=slices",
    "/ui/decisions?of=pools",
    f"/ui/mig/{fake_api.slices()['items'][0]['slice']}",
)
"""Pages of the fake API that lie below another one."""
WHOLE_TABLES = ("/ui/", "/ui/teams", "/ui/jobs", "/ui/findings", *MONEY, *OPENED)
"""Pages whose tables fit a phone whole."""


@pytest.fixture(scope="module")
def real() -> Iterator[tuple[str, Api]]:
    """The real application over a small world."""
    api = open_api(None)
    fill(api.service)
    mount(api.app)
    with served(api.app) as base:
        yield base, api
    api.service.stop()


@pytest.fixture(scope="module")
def fake() -> Iterator[tuple[str, FastAPI]]:
    """The pages over canned answers."""
    app = fake_api.create()
    mount(app)
    with served(app) as base:
        yield base, app


@dataclass
class Tab:
    """A page of the browser that remembers what went wrong on it."""

    page: Page
    base: str
    problems: list[str] = field(default_factory=list)
    asked: set[Request] = field(default_factory=set)
    """Requests without an answer yet."""

    def open(self, path: str) -> Page:
        """Goes there and waits until the page shows something."""
        self.page.goto(self.base + path)
        self.shown()
        return self.page

    def shown(self) -> None:
        """Waits for a page that is neither loading nor being changed."""
        self.page.locator("#page:not(.busy) h1, #page:not(.busy) .notice").first.wait_for(timeout=PATIENCE_MS)

    def settled(self) -> None:
        """Waits until the page asks for nothing more: a Back button pressed meanwhile would be overtaken by an answer."""
        self.shown()
        quiet, deadline = 0, monotonic() + PATIENCE_MS / 1000
        while quiet < 10 and monotonic() < deadline:
            self.page.wait_for_timeout(100)
            quiet = 0 if self.asked else quiet + 1
        self.shown()

    @property
    def overhang(self) -> int:
        """Pixels that the document is wider than the screen."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


Open = Callable[..., Tab]


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """Makes contexts. Those that tests share keep what they loaded: a page's scripts are read and compiled once."""
    every: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        every.append(browser.new_context(reduced_motion="reduce", **options))
        return every[-1]

    yield make
    for context in every:
        context.close()


@pytest.fixture(scope="module")
def shared(contexts: Callable[..., BrowserContext]) -> Callable[[bool, str, str], BrowserContext]:
    """The context of all tabs of a screen and a color scheme that leave nothing behind in the browser.

    One more tab stays open in each: it keeps the process that draws the pages, and with it their compiled scripts.
    """

    @functools.cache
    def of(phone: bool, scheme: str, base: str) -> BrowserContext:
        context = contexts(viewport=PHONE if phone else WIDE, color_scheme=scheme)
        context.new_page().goto(f"{base}/ui/login")
        return context

    return of


@pytest.fixture
def tab(contexts: Callable[..., BrowserContext], shared: Callable[[bool, str, str], BrowserContext]) -> Iterator[Open]:
    """Makes tabs; console errors, failed answers and requests that leave this machine are problems."""
    pages: list[Page] = []

    def make(base: str, viewport: dict[str, int] = WIDE, color_scheme: str = "light", alone: bool = False) -> Tab:
        """A tab; `alone` has a context of its own, for a test that changes cookies, storage or the clock."""
        if alone:
            context = contexts(viewport=viewport, color_scheme=color_scheme)
        else:
            context = shared(viewport is PHONE, color_scheme, base)
        page = context.new_page()
        pages.append(page)
        made = Tab(page, base)
        host = urlsplit(base).netloc
        problems = made.problems
        page.on("request", lambda asked: made.asked.add(asked))
        page.on("requestfinished", lambda asked: made.asked.discard(asked))
        page.on("requestfailed", lambda asked: made.asked.discard(asked))
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: problems.append(asked.url) if foreign(asked.url, host) else None)
        page.on("response", lambda got: problems.append(f"{got.status} {got.url}") if got.status >= 400 else None)
        return made

    yield make
    for page in pages:
        page.close()


def foreign(url: str, host: str) -> bool:
    """Whether a request leaves the server; pictures within the page do not."""
    return not url.startswith(("data:", "blob:")) and urlsplit(url).netloc != host


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", [*PAGES, *MONEY])
def test_a_page_opens_without_a_complaint(real: tuple[str, Api], tab: Open, path: str, scheme: str) -> None:
    """Nothing in the console, nothing from outside, and the page is not an error."""
    opened = tab(real[0], color_scheme=scheme)
    page = opened.open(f"{path}?{WINDOW}")
    page.wait_for_load_state("networkidle")

    assert [] == opened.problems
    assert 0 == page.locator(".notice.failing, .notice.forbidden").count()
    assert scheme == page.locator("html").get_attribute("data-mantine-color-scheme")


@pytest.mark.parametrize("phone", [True, False], ids=["phone", "wide"])
def test_slices_and_the_box_that_selects_all_are_shown_whole(fake: tuple[str, FastAPI], tab: Open, phone: bool) -> None:
    """The number and profile of a slice are what its charges are matched by; the next header once covered half of the box."""
    opened = tab(fake[0], PHONE if phone else WIDE)
    page = opened.open("/ui/mig")
    page.locator(".tenants a.mono").first.wait_for(timeout=PATIENCE_MS)
    names = """[...document.querySelectorAll('.tenants a.mono')].filter(
      one => one.textContent.length <= 13 && one.scrollWidth > one.clientWidth).map(one => one.textContent)"""
    cut = page.evaluate(names)
    opened.open("/ui/findings")
    page.locator("thead .tick input").wait_for(timeout=PATIENCE_MS)
    covered = """() => { const box = document.querySelector('thead .tick input'), at = box.getBoundingClientRect();
      return document.elementFromPoint(at.right - 2, at.top + at.height / 2) !== box; }"""

    assert ([], False) == (cut, page.evaluate(covered))
    assert [] == opened.problems


@pytest.mark.parametrize(
    "path", [*PAGES, *MONEY, *OPENED, "/ui/findings/idle-hoarding-0000", "/ui/jobs/4242", "/ui/login"]
)
def test_a_phone_needs_no_sideways_scrolling(fake: tuple[str, FastAPI], tab: Open, path: str) -> None:
    """Names without an end and hostile ones are in these answers. Tables show their last column without being moved."""
    opened = tab(fake[0], PHONE)
    page = opened.page
    page.goto(fake[0] + path)
    page.locator("h1").first.wait_for(timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")
    if path in WHOLE_TABLES:
        opened.shown()
    cut = "[...document.querySelectorAll('#page .scroll')].map(one => one.scrollWidth - one.clientWidth)"

    assert 0 >= opened.overhang
    assert [] == opened.problems
    assert page.evaluate("window.hacked === undefined")
    assert path not in WHOLE_TABLES or 0 == max(page.evaluate(cut), default=0)


def test_rows_that_are_being_replaced_look_so(fake: tuple[str, FastAPI], tab: Open) -> None:
    """The answer to another order is held back: until it comes, the old rows are pale under a bar."""
    page = tab(fake[0]).open("/ui/jobs")
    page.wait_for_load_state("networkidle")
    page.evaluate(
        "() => { const real = fetch; window.fetch = (...a) => new Promise(r => { window.go = r; })"
        ".then(() => real(...a)); }"
    )
    page.get_by_role("link", name="Effective").click()
    page.locator("#page.busy h1").wait_for(timeout=PATIENCE_MS)
    bar = "getComputedStyle(document.querySelector('.body'), '::before').position"

    assert "fixed" == page.evaluate(bar)


def test_a_charge_opens_from_its_team_and_leads_to_its_job(real: tuple[str, Api], tab: Open) -> None:
    """Team, charge, what it would be under another policy, job: by clicks alone."""
    opened = tab(real[0])
    page = opened.open(f"/ui/teams?{WINDOW}")
    page.locator("#page td .why").first.click()
    page.wait_for_url(re.compile("/ui/charges/."), timeout=PATIENCE_MS)
    opened.shown()
    page.get_by_role("link", name="Pay for use").click()
    expect(page.locator("#page")).to_contain_text("instead of", timeout=PATIENCE_MS)
    page.locator("#page td a[href*='/ui/jobs/']").first.click()
    page.wait_for_url(re.compile("/ui/jobs/."), timeout=PATIENCE_MS)
    opened.shown()

    assert [] == opened.problems


def test_the_keyboard_finds_a_job_and_goes_from_row_to_row(real: tuple[str, Api], tab: Open) -> None:
    """A slash, a part of the name, Enter; on the list of jobs j and k; a question mark lists the keys."""
    opened = tab(real[0])
    page = opened.open(f"/ui/jobs?{WINDOW}")
    page.keyboard.press("j")
    first = page.locator("#page tbody tr a[href]").first
    expect(first).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible(timeout=PATIENCE_MS)
    page.keyboard.press("Escape")
    expect(first).to_be_focused(timeout=PATIENCE_MS)
    page.keyboard.press("/")
    page.keyboard.type("redtrain")
    expect(page.locator("#sought a").first).to_contain_text("9001", timeout=PATIENCE_MS)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/ui/jobs/9001"), timeout=PATIENCE_MS)
    expect(page.get_by_role("dialog", name="Search")).to_be_hidden(timeout=PATIENCE_MS)
    opened.shown()

    assert [] == opened.problems


def test_the_finding_card_and_its_buttons_fit_a_phone(fake: tuple[str, FastAPI], tab: Open) -> None:
    page = tab(fake[0], PHONE).open("/ui/findings/idle-hoarding-0000")
    box = page.get_by_role("button", name="Acknowledge").bounding_box()

    assert box is not None and box["y"] + box["height"] <= PHONE["height"]


def test_selected_findings_are_judged_at_once(real: tuple[str, Api], tab: Open) -> None:
    """Nothing is sent without a selection; then the state has the judgement of each, and a row opens wherever it is clicked."""
    base = real[0]
    opened = tab(base)
    page = opened.open("/ui/findings?state=all")
    form = page.locator(".bulk")
    expect(form).to_be_hidden(timeout=PATIENCE_MS)
    page.locator("thead .tick input").check()
    expect(page.locator("tbody .tick input:checked")).to_have_count(2, timeout=PATIENCE_MS)
    form.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#message")).to_contain_text("Enter a reason", timeout=PATIENCE_MS)
    form.get_by_label("Reason").fill("checked with both teams")
    form.get_by_role("button", name="Correct").click()
    expect(page.locator("#message")).to_contain_text("Correct 2 findings: done", timeout=PATIENCE_MS)
    expect(page.locator("tbody .tick input:checked")).to_have_count(0, timeout=PATIENCE_MS)

    items = page.request.get(f"{base}/api/v1/findings").json()["items"]
    assert ["true_positive"] * 2 == [item["verdict"] for item in items]
    page.locator("tbody tr").first.locator("td").nth(5).click(force=True)  # the row's link lies over the cell
    page.wait_for_url(re.compile("/ui/findings/."), timeout=PATIENCE_MS)
    expect(page.locator(".history")).to_contain_text("checked with both teams", timeout=PATIENCE_MS)
    assert [] == opened.problems


def test_a_gpu_opens_from_the_fleet_with_who_held_it(real: tuple[str, Api], tab: Open) -> None:
    opened = tab(real[0])
    page = opened.open("/ui/fleet?window=2026-11-02T00:00:00Z,2026-11-03T00:00:00Z")
    page.get_by_role("link", name="Health").click()
    expect(page.locator("#page")).to_contain_text("XIDs, row remaps", timeout=PATIENCE_MS)
    page.locator("tbody tr", has_text="rednode").locator("td").nth(3).click(force=True)
    page.wait_for_url(re.compile("/ui/fleet/GPU-red"), timeout=PATIENCE_MS)
    opened.shown()

    expect(page.locator("#page")).to_contain_text("Who held it", timeout=PATIENCE_MS)
    assert [] == opened.problems


def test_an_open_finding_is_snoozed_and_reopened(fake: tuple[str, FastAPI], tab: Open) -> None:
    """The state on the page follows; a snooze has an end."""
    opened = tab(fake[0])
    page = opened.open("/ui/findings/idle-hoarding-0002")
    page.get_by_label("Reason").fill("back on Monday")
    page.get_by_role("button", name="Snooze").click()
    expect(page.locator("#page .tag", has_text="Snoozed")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Reopen").click()
    expect(page.locator("#page .tag", has_text="Open")).to_be_visible(timeout=PATIENCE_MS)

    taken = [one for one in fake[1].state.acts if one["key"] == "idle-hoarding-0002"]
    assert [("snooze", "2026-11-27T12:00:00Z"), ("reopen", None)] == [(one["action"], one["until"]) for one in taken]
    assert [] == opened.problems


def test_filters_live_in_the_address(fake: tuple[str, FastAPI], tab: Open) -> None:
    """Choosing a team changes the address; Back undoes it; links keep it.

    The page, its filters and the links are drawn by callbacks of their own, so each step waits for what it needs.
    """
    opened = tab(fake[0])
    page = opened.open("/ui/jobs?window=24h")
    team, link = page.get_by_role("textbox", name="Team"), page.get_by_role("link", name="Findings")
    team.click()
    page.get_by_role("option", name="vision").click()
    page.wait_for_url(re.compile("team=vision"), timeout=PATIENCE_MS)
    opened.settled()
    expect(link).to_have_attribute("href", re.compile("team=vision"), timeout=PATIENCE_MS)
    link.click()
    page.wait_for_url(re.compile("/ui/findings.*team=vision"), timeout=PATIENCE_MS)
    page.go_back()  # at once: what the page still asks for belongs to the address that is left
    page.wait_for_url(re.compile("/ui/jobs.*team=vision"), timeout=PATIENCE_MS)
    expect(team).to_have_value("vision", timeout=PATIENCE_MS)
    opened.settled()
    page.go_back()
    page.wait_for_url(f"{fake[0]}/ui/jobs?window=24h", timeout=PATIENCE_MS)
    expect(team).to_have_value("", timeout=PATIENCE_MS)
    opened.settled()

    assert "/ui/jobs?window=24h" == page.url.removeprefix(fake[0])
    assert [] == opened.problems


def test_the_drawer_opens_on_a_phone_and_closes_with_the_page(fake: tuple[str, FastAPI], tab: Open) -> None:
    opened = tab(fake[0], PHONE)
    page = opened.open("/ui/")
    page.locator(".drawer-box summary").click()
    page.locator(".drawer").get_by_role("link", name="Data quality").click()
    expect(page.locator("h1")).to_contain_text("trust these numbers", timeout=PATIENCE_MS)

    expect(page.locator(".drawer")).to_be_hidden(timeout=PATIENCE_MS)


def test_the_toggle_is_kept_by_the_browser(fake: tuple[str, FastAPI], tab: Open) -> None:
    """The system is light; once toggled, dark stays after a reload, and the charts follow."""
    opened = tab(fake[0], alone=True)
    page = opened.open("/ui/")
    page.locator("#scheme").click()
    page.reload()
    opened.shown()

    assert "dark" == page.locator("html").get_attribute("data-mantine-color-scheme")
    expect(page.locator("#page .legendtext, #page .xtick text").first).to_have_css(
        "fill", "rgb(163, 176, 184)", timeout=PATIENCE_MS
    )


def test_signing_in_keeps_the_token_out_of_the_page(tab: Open) -> None:
    """A wrong token is told so; the right one opens the page that was asked for; signing out closes it."""
    api = open_api(None)
    fill(api.service)
    mount(api.app)
    token = api.token("read", "red", name="ursula")
    with served(api.app) as base:
        opened = tab(base, alone=True)
        page = opened.open(f"/ui/jobs?{WINDOW}")
        page.get_by_role("link", name="Sign in").click()
        page.get_by_label("Token").fill("gw_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown", timeout=PATIENCE_MS)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{base}/ui/jobs?{WINDOW}", timeout=PATIENCE_MS)
        expect(page.locator("#page")).to_contain_text("redtrain", timeout=PATIENCE_MS)
        kept = page.evaluate("JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie")
        cookie = next(one for one in page.context.cookies() if one["name"] == "gpuwatch_session")

        assert "bluetrain" not in page.content()
        assert token not in page.content() + kept + page.url
        assert (True, "Strict", "/") == (cookie["httpOnly"], cookie["sameSite"], cookie["path"])

        page.get_by_role("button", name="Sign out").first.click()
        page.wait_for_url(re.compile("/ui/login"), timeout=PATIENCE_MS)
        opened.open(f"/ui/jobs?{WINDOW}")

        expect(page.locator(".notice")).to_contain_text("Sign in", timeout=PATIENCE_MS)
    api.service.stop()


def test_a_page_moves_with_its_data_and_keeps_what_is_being_written(fake: tuple[str, FastAPI], tab: Open) -> None:
    """The clock of the browser is turned: after 30 s new data is there; a half-written reason stays."""
    base, app = fake
    opened = tab(base, alone=True)
    page = opened.page
    page.clock.install()
    opened.open("/ui/findings/false-utilization-0001")
    app.state.acts.append(
        {"key": "false-utilization-0001", "action": "ack", "until": None, "reason": "seen", "actor": "bo", "at": ""}
    )
    page.clock.run_for(31_000)
    expect(page.locator(".history")).to_contain_text("seen", timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")
    page.get_by_label("Reason").fill("half a sen")
    expect(page.get_by_label("Reason")).to_have_value("half a sen", timeout=PATIENCE_MS)
    app.state.acts.clear()
    page.clock.run_for(31_000)
    page.wait_for_load_state("networkidle")

    assert "half a sen" == page.get_by_label("Reason").input_value()
