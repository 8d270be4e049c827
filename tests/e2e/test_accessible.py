"""Every page is free of serious faults that axe-core finds, logs no error and fits every screen, in light and in dark, over the real application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed: it brings axe-core")

from playwright.sync_api import Browser, BrowserContext, Page, Response, TimeoutError

from gpuwatch.dashboards.app import mount
from gpuwatch.dashboards.shell.page import pages
from tests.e2e import dashboard
from tests.worlds.api import Api, fill, open_api
from tests.worlds.patience import FACTOR, PATIENCE_MS

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
SCHEMES = ("light", "dark")
WIDTHS = (390, 2560, 1440)
"""A phone, a wide screen, and the screen of the next page."""
RESIZED_MS = 10_000 * FACTOR
FITS = "() => document.documentElement.scrollWidth <= window.innerWidth"
SERIOUS = ("serious", "critical")
FORMS = (
    "/rates?edit=add",
    "/owned?edit=add",
    "/owners?edit=add",
    "/policies?edit=change",
    "/channels?edit=add&kind=email",
    "/tokens?edit=add",
    "/commitments?edit=add",
)
VIEWS = (
    "/capacity?view=shapes",
    "/capacity?view=history",
    "/findings?view=causes",
    "/decisions?of=spot",
    "/teams?by=user",
)
WINDOW = "2026-11-02T00:00:00Z,2026-11-04T00:00:00Z"
"""Where the small world has its data."""


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Api]]:
    """The real application over a small world, without tokens: this machine may administer."""
    api = open_api(None)
    fill(api.service)
    mount(api.app)
    with dashboard.served(api.app) as address:
        yield address, api
    api.service.stop()


@pytest.fixture(scope="module")
def logged() -> list[str]:
    """Errors and warnings in the consoles of all tabs."""
    return []


@pytest.fixture(autouse=True)
def nothing_logged(logged: list[str]) -> Iterator[None]:
    """A page, and the way to it from the one before, logs no errors."""
    yield
    found = [*logged]
    logged.clear()
    assert [] == found


@pytest.fixture(scope="module")
def open_tab(browser: Browser, served: tuple[str, Api], logged: list[str]) -> Iterator[Callable[[str], Page]]:
    """Opens a tab in these colors."""
    contexts: list[BrowserContext] = []

    def opened(scheme: Any) -> Page:
        contexts.append(browser.new_context(reduced_motion="reduce", base_url=served[0], color_scheme=scheme, **WIDE))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda said: logged.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: logged.append(str(error)))
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def tabs(open_tab: Callable[[str], Page]) -> dict[str, Page]:
    """A tab of each color scheme that goes from page to page by links, so that it loads the scripts once."""
    found = {scheme: open_tab(scheme) for scheme in SCHEMES}
    for tab in found.values():
        tab.goto("/ui/")
        tab.wait_for_function("() => document.querySelector('#page:not(.busy) h1') && document.querySelector('#nav a')")
    return found


@pytest.fixture(scope="module")
def sign_in(open_tab: Callable[[str], Page]) -> Page:
    """The page where people sign in."""
    tab = open_tab("light")
    tab.goto("/ui/login")
    return tab


def overhangs(tab: Page) -> dict[int, int]:
    """By width of the screen, the pixels that the page is wider, if it is."""
    found = {}
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        with suppress(TimeoutError):  # charts follow a little later
            tab.wait_for_function(FITS, timeout=RESIZED_MS)
        found[width] = int(tab.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
    return {width: over for width, over in found.items() if over > 0}


def faults(tab: Page) -> list[str]:
    """The serious faults of the page as it is: the rule, how often, and where first."""
    tab.evaluate(f"() => {{ if (!window.axe) {{ {AXE} }} }}")
    found: dict[str, Any] = tab.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


GO = "path => { history.pushState({}, '', path); dispatchEvent(new CustomEvent('_dashprivate_pushstate')) }"
"""What a click on a link of Dash does."""


def shown(tab: Page, path: str, scheme: str) -> None:
    """Follows a link to a page, and waits until it is drawn in these colors."""
    with tab.expect_response(lambda found: draws(found, path)):
        tab.evaluate(GO, f"/ui{path}")
    tab.wait_for_function(
        """scheme => document.documentElement.getAttribute('data-mantine-color-scheme') === scheme
          && document.querySelector('#page:not(.busy) h1, #page:not(.busy) h2') && document.querySelector('#nav a')""",
        arg=scheme,
    )


def draws(response: Response, path: str) -> bool:
    """Whether this is the answer that has the content of this page."""
    asked = response.request.post_data or ""
    return '"..page.children...digest.data' in asked and f'"/ui{path.partition("?")[0]}"' in asked


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("path", [page.path for page in pages() if not page.path.endswith("/*")])
def test_a_page_has_no_serious_faults_and_fits_every_screen(tabs: dict[str, Page], path: str, scheme: str) -> None:
    window = f"?window={WINDOW}" if path not in ("/setup", "/tokens") else ""
    shown(tabs[scheme], f"{path}{window}", scheme)

    assert [] == faults(tabs[scheme])
    assert {} == overhangs(tabs[scheme])


@pytest.mark.parametrize("path", [*FORMS, *VIEWS])
def test_a_form_or_another_view_has_no_serious_faults(tabs: dict[str, Page], path: str) -> None:
    shown(tabs["light"], path, "light")

    assert [] == faults(tabs["light"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_pages_of_single_things_have_no_serious_faults(tabs: dict[str, Page], scheme: str) -> None:
    """A finding, a job, a GPU, a team, a rule and a charge: one of each."""
    tab = tabs[scheme]
    ask = "async path => (await fetch('/api/v1/' + path)).json()"
    job = tab.evaluate(ask, f"jobs?limit=1&window={WINDOW}")["items"][0]
    gpu = tab.evaluate(ask, f"gpus?limit=1&window={WINDOW}")["items"][0]
    findings = tab.evaluate(ask, "findings?limit=1&state=open,resolved")["items"]
    charges = tab.evaluate(ask, f"chargeback?by=team&window={WINDOW}")["items"]
    paths = [f"/jobs/{job['id']}?in={job['cluster']}", f"/fleet/{gpu['gpu']}", "/team/red", "/detectors/idle-hoarding"]
    paths += [f"/findings/{one['key']}" for one in findings]
    paths += [f"/charges/{one['charge']}" for one in charges[:1] if one.get("charge")]
    found = {}
    for path in paths:
        shown(tab, path, scheme)
        found[path] = faults(tab), overhangs(tab)

    assert {path: ([], {}) for path in paths} == found


def test_the_sign_in_page_has_no_serious_faults(sign_in: Page) -> None:
    assert [] == faults(sign_in)


def test_a_fault_is_found(sign_in: Page) -> None:
    """The check itself works: an image without a text is a fault."""
    sign_in.evaluate("() => document.body.append(document.createElement('img'))")

    assert ["image-alt"] == [one.split(" ")[0] for one in faults(sign_in)]
