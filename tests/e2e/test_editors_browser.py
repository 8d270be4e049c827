"""Pages on which administrators change what people set, in a real browser over the real application: one server, one tab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")

from playwright.sync_api import Browser, Locator, Page, expect

from gpuwatch.dashboards.app import mount
from tests.e2e import dashboard
from tests.worlds.api import fill, open_api
from tests.worlds.patience import PATIENCE_MS, PATIENCE_S

OVER = """[...document.querySelectorAll('body *')].filter(
  one => one.getBoundingClientRect().right > window.innerWidth && !one.closest('.scroll, .drawer, .skip, .picks')
).map(one => `${one.tagName} ${one.className} ${one.textContent.slice(0, 60)}`).slice(0, 5)"""
"""The elements that do not fit the screen."""
PHONE = {"width": 390, "height": 844}
SETUP = (
    "/ui/rates?edit=add",
    "/ui/owned?edit=add",
    "/ui/owners?edit=add",
    "/ui/budgets?edit=add",
    "/ui/channels?edit=add&kind=email",
    "/ui/policies?edit=change",
    "/ui/recipients?edit=add",
    "/ui/detectors/idle-hoarding?edit=set",
    "/ui/tokens",
    "/ui/audit",
    "/ui/imports",
    "/ui/commitments?edit=add",
    "/ui/reconcile",
    "/ui/setup",
)


@dataclass(frozen=True)
class Server:
    """The API over the network: the browser's driver runs a loop in this thread, so nothing else may."""

    base: str

    def request(self, method: str, path: str, *, token: str = "", **more: Any) -> httpx.Response:
        """One request."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= more.pop("headers", {})
        return httpx.request(method, self.base + path, headers=headers, timeout=PATIENCE_S, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """A GET."""
        return self.request("GET", path, **more)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of the real application over a small world, without tokens: this machine may administer."""
    api = open_api(None)
    fill(api.service)
    mount(api.app)
    with dashboard.served(api.app) as address:
        yield address
    api.service.stop()


@pytest.fixture(scope="module")
def api(base: str) -> Server:
    """Requests to it."""
    return Server(base)


@pytest.fixture(scope="module")
def page(browser: Browser, base: str) -> Iterator[Page]:
    """One tab for all tests; what goes wrong on it fails the test that sees it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce", base_url=base)
    tab = context.new_page()
    tab.set_default_timeout(PATIENCE_MS)
    tab.goto("/ui/login")
    yield tab
    context.close()


@pytest.fixture(autouse=True)
def problems(page: Page) -> Iterator[list[str]]:
    """Errors of the console and answers that failed, except those that a test expects by clearing the list."""
    found: list[str] = []

    def on_console(message: Any) -> None:
        if message.type == "error":
            found.append(message.text)

    page.on("console", on_console)
    yield found
    page.remove_listener("console", on_console)
    assert [] == found


def opened(page: Page, path: str) -> Locator:
    """The content of a page that is shown."""
    page.goto(path)
    page.locator("#page:not(.busy) h1, #page:not(.busy) .notice").first.wait_for()
    page.wait_for_load_state("networkidle")  # until then, the colour scheme may draw the page once more
    return page.locator("#page")


def box(page: Page, name: str) -> Locator:
    """A field of the form."""
    return page.locator("#edit").get_by_role("textbox", name=name, exact=True)


def press(page: Page, name: str) -> None:
    """Presses a button of the form."""
    page.locator("#edit").get_by_role("button", name=name, exact=True).click()


def expect_message(page: Page, text: str) -> None:
    """Waits for a message, and for the form to close."""
    expect(page.locator("#message")).to_contain_text(text, timeout=PATIENCE_MS)
    expect(page.locator("#edit .buttons .primary, #edit .buttons .danger").filter(has_not_text="Ask")).to_have_count(
        0, timeout=PATIENCE_MS
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_drawn_once_when_it_is_opened(browser: Browser, base: str, scheme: Any) -> None:
    """A second time would clear what was typed meanwhile."""
    context = browser.new_context(base_url=base, color_scheme=scheme)
    tab, drawn = context.new_page(), []
    tab.on("request", lambda sent: drawn.append(1) if '"output":"..page.children' in (sent.post_data or "") else None)
    tab.goto("/ui/login")
    tab.goto("/ui/setup")
    tab.locator("#page:not(.busy) h1").wait_for(timeout=PATIENCE_MS)
    tab.wait_for_load_state("networkidle")
    context.close()

    assert [1] == drawn


@contextmanager
def sent_by(page: Page) -> Iterator[list[str]]:
    """The bodies of the requests that a page sends meanwhile."""
    bodies: list[str] = []

    def note(request: Any) -> None:
        bodies.append(request.post_data or "")

    page.on("request", note)
    try:
        yield bodies
    finally:
        page.remove_listener("request", note)


def test_a_form_is_left_without_an_error_and_without_a_request(page: Page) -> None:
    """Its buttons go with it: nobody pressed one."""
    opened(page, "/ui/owners?edit=add")
    with sent_by(page) as asked:
        page.locator("#nav").get_by_role("link", name="Policies").click()
        expect(page.locator("#page:not(.busy) h1")).to_have_text("Policies", timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")

    assert [] == [body for body in asked if '"property":"n_clicks","value":' in body or '"id":"pressed"' in body]
    assert any('"..page.children' in body for body in asked)


def test_a_button_that_is_pressed_twice_at_once_acts_once(page: Page) -> None:
    """It is disabled until the answer is there."""
    opened(page, "/ui/owners?edit=add")
    with sent_by(page) as asked:
        page.locator("#edit").get_by_role("button", name="Save", exact=True).dblclick()
        expect(box(page, "Is")).to_have_attribute("aria-invalid", "true", timeout=PATIENCE_MS)
        page.wait_for_load_state("networkidle")

    assert 1 == len([body for body in asked if '"id":"pressed"' in body])
    expect(page.locator("#edit").get_by_role("button", name="Save", exact=True)).to_be_enabled()


def test_a_new_price_is_previewed_and_saved(page: Page, api: Server) -> None:
    """The present rate ends where the new one begins; the page lists both and the change; nothing of the past changed."""
    before = api.get("/api/v1/chargeback", params={"window": "30d", "by": "team"}).json()["items"]
    shown = opened(page, "/ui/rates")
    shown.get_by_role("link", name="New price").click()
    box(page, "Price").fill("3.5")
    press(page, "Show the effect")
    expect(page.locator("#edit")).to_contain_text("As if this rate held all of this time.", timeout=PATIENCE_MS)
    press(page, "Save")
    expect_message(page, "The rate card is changed.")

    expect(shown).to_contain_text("3.50 USD", timeout=PATIENCE_MS)
    found = api.get("/api/v1/rates").json()["items"]
    assert [("2", "2026-11-11T00:00:00Z"), ("3.5", None)] == [(r["usd_per_gpu_hour"], r["valid_to"]) for r in found]
    assert before == api.get("/api/v1/chargeback", params={"window": "30d", "by": "team"}).json()["items"]
    expect(shown).to_contain_text("Changes")


def test_the_past_changes_only_with_consent(page: Page, api: Server) -> None:
    """And a price that is none is refused at its field, in the server's words."""
    before = api.get("/api/v1/rates").json()
    opened(page, "/ui/rates?edit=change&row=0")
    box(page, "Valid from").fill("2026-11-05")
    press(page, "Save")
    expect(page.locator("#edit")).to_contain_text("Choose Yes below to allow that", timeout=PATIENCE_MS)
    box(page, "Valid from").fill("2026-11-10T12:00:00Z")
    box(page, "Price").fill("cheap")
    press(page, "Save")
    price = box(page, "Price")
    expect(price).to_have_attribute("aria-invalid", "true", timeout=PATIENCE_MS)
    expect(page.locator("#edit")).to_contain_text("usd_per_gpu_hour", timeout=PATIENCE_MS)

    assert before == api.get("/api/v1/rates").json()


def test_somebody_elses_change_is_not_overwritten(page: Page, api: Server) -> None:
    """The form was opened before it: the server names who changed the list, and nothing is lost."""
    opened(page, "/ui/rates?edit=end&row=1")
    items = [*api.get("/api/v1/rates").json()["items"]]
    other = items[0] | {"gpu_model": "A100"}
    api.request("PUT", "/api/v1/rates", json={"items": [*items, other]}, headers={"X-Gpuwatch-User": "eve"})
    press(page, "Save")
    expect(page.locator("#edit .wrong")).to_contain_text("which is not the one that you read", timeout=PATIENCE_MS)

    assert len(items) + 1 == len(api.get("/api/v1/rates").json()["items"])


def test_a_refresh_clears_nothing_that_somebody_types(page: Page, api: Server) -> None:
    """Neither in a form nor in the test of rules; without a form the page follows what others change."""
    page.clock.install()
    shown = opened(page, "/ui/owners?edit=add")
    box(page, "Is").fill("half-typed")
    api.request("PUT", "/api/v1/budgets", json={"items": []})
    page.clock.run_for(65_000)
    assert "half-typed" == box(page, "Is").input_value()
    opened(page, "/ui/owners")
    box(page, "Namespace").fill("half-typed")
    page.locator("h1").click()
    page.clock.run_for(65_000)
    assert "half-typed" == box(page, "Namespace").input_value()
    box(page, "Namespace").fill("")
    page.locator("h1").click()
    rules = [{"match_kind": "user", "match": "fresh", "team": "red"}, *api.get("/api/v1/teams").json()["items"]]
    api.request("PUT", "/api/v1/teams", json={"items": rules})
    page.clock.run_for(35_000)
    expect(shown).to_contain_text("fresh", timeout=PATIENCE_MS)
    page.clock.resume()


def test_the_test_names_the_rule_that_decides(page: Page) -> None:
    opened(page, "/ui/owners")
    box(page, "Job or pod").fill("9002")
    press(page, "Ask")
    expect(page.locator("#edit .advice")).to_contain_text(re.compile(r"Rule \d: account blueacct"), timeout=PATIENCE_MS)
    box(page, "Job or pod").fill("nothing")
    press(page, "Ask")
    expect(page.locator("#edit .wrong")).to_contain_text("no job or pod of this name", timeout=PATIENCE_MS)


def test_a_rule_is_added_moved_and_removed(page: Page, api: Server) -> None:
    """A rule that can never decide is refused; a place in the list is a number."""
    opened(page, "/ui/owners")
    page.get_by_role("link", name="Add a rule").click()
    box(page, "Is").fill("redlab")
    box(page, "Team").fill("green")
    press(page, "Save")
    expect(page.locator("#edit .wrong")).to_contain_text("to another team", timeout=PATIENCE_MS)
    box(page, "Is").fill("green-*")
    box(page, "Place in the list").fill("1")
    press(page, "Save")
    expect_message(page, "The team map is changed.")
    assert ("green-*", "green") == tuple(api.get("/api/v1/teams").json()["items"][0][n] for n in ("match", "team"))
    page.get_by_role("link", name="Remove rule 1").click()
    press(page, "Remove it")
    expect_message(page, "The team map is changed.")

    assert "green" not in {rule["team"] for rule in api.get("/api/v1/teams").json()["items"]}


def test_a_budget_is_made_raised_and_its_first_card_shown(page: Page, api: Server) -> None:
    shown = opened(page, "/ui/budgets")
    page.get_by_role("link", name="Add a budget").click()
    box(page, "Team").fill("red")
    box(page, "Amount").fill("lots")
    press(page, "Save")
    expect(page.locator("#edit")).to_contain_text("amount", timeout=PATIENCE_MS)
    box(page, "Amount").fill("500")
    box(page, "Valid from").fill("2026-11-01")
    press(page, "Save")
    expect_message(page, "The budgets are changed.")
    expect(shown).to_contain_text("500 USD", timeout=PATIENCE_MS)
    page.get_by_role("link", name="Change red, each month").click()
    box(page, "Amount").fill("800")
    box(page, "Valid from").fill("2026-12-01")
    press(page, "Save")
    expect_message(page, "The budgets are changed.")

    found = api.get("/api/v1/budgets/set").json()["items"]
    assert [("500", "2026-12-01T00:00:00Z"), ("800", None)] == [(row["amount"], row["valid_to"]) for row in found]


def test_a_period_is_closed_signed_and_reopened(page: Page, api: Server) -> None:
    opened(page, "/ui/periods")
    page.get_by_role("link", name="Close a period").click()
    box(page, "Week or month").fill("2026-W45")
    press(page, "Close it")
    expect(page.locator("#edit .wrong")).not_to_be_empty(timeout=PATIENCE_MS)
    box(page, "Close it if data or prices are missing?").click()
    page.get_by_role("option", name="Yes, close it anyway").click()
    press(page, "Close it")
    expect_message(page, "2026-W45 is closed.")
    opened(page, "/ui/periods/2026-W45")
    page.get_by_role("link", name="Sign it").click()
    box(page, "Name").fill("Ada Byron")
    press(page, "Sign it")
    expect_message(page, "2026-W45 is signed.")
    expect(page.locator("#page")).to_contain_text("Signed by Ada Byron", timeout=PATIENCE_MS)
    page.get_by_role("link", name="Reopen it").click()
    press(page, "Reopen it")
    expect(page.locator("#edit")).to_contain_text("Say why", timeout=PATIENCE_MS)
    box(page, "Reason").fill("wrong rates")
    press(page, "Reopen it")
    expect_message(page, "2026-W45 is open again.")

    assert "reopened" == api.get("/api/v1/periods/2026-W45").json()["period"]["state"]


def test_a_channel_is_made_changed_and_removed_and_its_address_never_shown(page: Page, api: Server) -> None:
    opened(page, "/ui/channels")
    page.get_by_role("link", name="Webhook").click()
    box(page, "Name").fill("ops room")
    press(page, "Save")
    expect(page.locator("#edit")).to_contain_text("name must be", timeout=PATIENCE_MS)
    box(page, "Name").fill("ops")
    page.locator("#edit").get_by_label("Address", exact=True).fill("https://hooks.example.com/very-secret-address")
    box(page, "Teams").fill("red, blue")
    press(page, "Save")
    expect_message(page, "The channel is saved.")
    page.get_by_role("link", name="Edit ops").click()
    assert "" == page.locator("#edit").get_by_label("Address", exact=True).input_value(timeout=PATIENCE_MS)
    assert "very-secret" not in page.content()
    box(page, "Teams").fill("red")
    press(page, "Save")
    expect_message(page, "The channel is saved.")
    (found,) = api.get("/api/v1/channels").json()["items"]
    assert (["red"], "hooks.example.com/…/ress") == (found["teams"], found["url_hint"])
    page.get_by_role("link", name="Remove ops").click()
    press(page, "Remove it")
    expect_message(page, "The channel is removed.")

    assert [] == api.get("/api/v1/channels").json()["items"]


def test_the_audit_log_is_filtered(page: Page) -> None:
    shown = opened(page, "/ui/audit")
    expect(shown).to_contain_text("period 2026-W45 signed", timeout=PATIENCE_MS)
    page.get_by_role("link", name="Budgets", exact=True).last.click()
    page.wait_for_url(re.compile("what=budgets"))
    expect(shown).not_to_contain_text("period 2026-W45", timeout=PATIENCE_MS)
    expect(shown).to_contain_text("budgets replaced")


@pytest.mark.parametrize("path", SETUP)
def test_a_phone_needs_no_sideways_scrolling(page: Page, path: str) -> None:
    page.set_viewport_size(PHONE)
    opened(page, path)

    assert [] == page.evaluate(OVER)
    assert 0 >= page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.set_viewport_size({"width": 1440, "height": 900})


def test_a_token_is_shown_once_and_revoked(page: Page, api: Server, problems: list[str]) -> None:
    """The last test: from the first token on, this machine needs one."""
    opened(page, "/ui/tokens?edit=add")
    box(page, "Name").fill("ann")
    press(page, "Create")
    text = page.locator("#edit pre").inner_text(timeout=PATIENCE_MS)
    page.goto("/ui/login")
    page.locator("input[name=token]").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/ui/$"))
    shown = opened(page, "/ui/tokens")
    assert text not in page.content()
    made = api.request("POST", "/api/v1/tokens", json={"name": "dashboard", "scope": "read"}, token=text).json()
    opened(page, "/ui/tokens")
    page.get_by_role("link", name="Revoke dashboard").click()
    press(page, "Revoke it")
    expect_message(page, "dashboard is revoked.")
    expect(shown).to_contain_text("Revoked", timeout=PATIENCE_MS)

    assert 401 == api.get("/api/v1/me", token=made["token"]).status_code
    problems.clear()


def test_a_bill_is_uploaded_and_compared_and_a_broken_one_is_refused(page: Page, problems: list[str]) -> None:
    """The browser sends the file itself, so its size is that of the API."""
    line = "12.00,USD,2026-11-02 00:00:00,2026-11-03 00:00:00,Usage,AWS,rednode"
    head = "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,ProviderName,ResourceId"
    page.goto("/ui/reconcile?window=2026-11-02T00:00:00Z,2026-11-03T00:00:00Z")
    expect(page.locator("#page")).to_contain_text("No cloud bill yet")
    for content, words in (("a,b\n1,2\n", "broken.csv was not imported"), (f"{head}\n{line}\n", "1 line imported")):
        with page.expect_file_chooser() as chosen:
            page.get_by_role("button", name="Upload a bill: FOCUS").click()
        name = "broken.csv" if content[0] == "a" else "focus.csv"
        chosen.value.set_files([{"name": name, "mimeType": "text/csv", "buffer": content.encode()}])
        expect(page.locator("#message")).to_contain_text(words, timeout=PATIENCE_MS)
    expect(page.locator("#page .headlines")).to_contain_text("$12.00")
    assert ["Failed to load resource: the server responded with a status of 400 (Bad Request)"] == problems
    problems.clear()
