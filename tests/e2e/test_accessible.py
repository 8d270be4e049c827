"""Every page is free of serious faults that axe-core finds, in light and in dark, over the real application."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")
pytest.importorskip("dash", reason="dash is not installed: there are no pages")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed: it brings axe-core")

from playwright.sync_api import Browser, Page

from gpuwatch.dashboards.app import mount
from gpuwatch.dashboards.shell.page import pages
from tests.e2e import dashboard
from tests.worlds.api import Api, fill, open_api
from tests.worlds.patience import PATIENCE_MS

AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
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
def tab(browser: Browser, served: tuple[str, Api]) -> Iterator[Page]:
    """One tab for all pages."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, reduced_motion="reduce", base_url=served[0], color_scheme="light"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def faults(tab: Page) -> list[str]:
    """The serious faults of the page as it is: the rule, how often, and where first."""
    tab.evaluate(f"() => {{ if (!window.axe) {{ {AXE} }} }}")
    found: dict[str, Any] = tab.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def shown(tab: Page, path: str, scheme: Any) -> None:
    """Opens a page, and waits until it is drawn in these colors."""
    tab.emulate_media(color_scheme=scheme)
    tab.goto(f"/ui{path}")
    tab.wait_for_function(
        """scheme => document.documentElement.getAttribute('data-mantine-color-scheme') === scheme
          && !document.getElementById('first') && document.querySelector('#page:not(.busy) h1, #page:not(.busy) h2')
          && document.querySelector('#nav a')""",
        arg=scheme,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", [page.path for page in pages() if not page.path.endswith("/*")])
def test_a_page_has_no_serious_faults(tab: Page, path: str, scheme: str) -> None:
    window = f"?window={WINDOW}" if path not in ("/setup", "/tokens") else ""
    shown(tab, f"{path}{window}", scheme)

    assert [] == faults(tab)


@pytest.mark.parametrize("path", [*FORMS, *VIEWS])
def test_a_form_or_another_view_has_no_serious_faults(tab: Page, path: str) -> None:
    shown(tab, path, "light")

    assert [] == faults(tab)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_single_things_have_no_serious_faults(tab: Page, served: tuple[str, Api], scheme: str) -> None:
    """A finding, a job, a GPU, a team, a rule and a charge: one of each."""
    tab.goto("/ui/setup")
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
        found[path] = faults(tab)

    assert {path: [] for path in paths} == found


def test_the_sign_in_page_has_no_serious_faults(tab: Page) -> None:
    tab.goto("/ui/login")

    assert [] == faults(tab)


def test_a_fault_is_found(tab: Page) -> None:
    """The check itself works: an image without a text is a fault."""
    tab.goto("/ui/login")
    tab.evaluate("() => document.body.append(document.createElement('img'))")

    assert ["image-alt"] == [one.split(" ")[0] for one in faults(tab)]
