"""Somebody who opens the pages in a browser, on a desktop or a phone, and counts clicks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("playwright", reason="playwright is not installed: the pages are not tried in a browser")

from playwright.sync_api import Browser, Locator, Page, expect

from tests.worlds.patience import PATIENCE_MS

SHOWN = "#page:not(.busy) h1, #page:not(.busy) h2"
WIDTHS = 1440, 390
"""Of a desktop and a phone."""


class Visitor:
    """Somebody who opens the overview and counts clicks."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0
        page.goto("/ui/")
        self.wait()

    def wait(self) -> None:
        """Until the page is drawn."""
        self.page.wait_for_function("() => !document.getElementById('first') && document.querySelector('#nav a')")
        self.page.locator(SHOWN).first.wait_for(timeout=PATIENCE_MS)

    def click(self, what: Locator, path: str) -> None:
        """Follows a link, which leads to this path."""
        what.click()
        self.clicks += 1
        self.page.wait_for_url(re.compile(path), timeout=PATIENCE_MS)
        self.wait()

    def nav(self, word: str, path: str) -> None:
        """Follows an entry of the navigation. On a phone its menu is opened first, which loads nothing."""
        menu, entries = self.page.locator(".drawer-box summary").first, self.page.locator("#nav")
        if menu.is_visible():
            menu.click()
            entries = self.page.locator("#drawer-box")
        self.click(entries.get_by_role("link", name=word, exact=True), path)

    def reads(self, *words: str) -> None:
        """The page has these words."""
        for word in words:
            expect(self.page.locator("#page")).to_contain_text(re.compile(word), timeout=PATIENCE_MS)


@contextmanager
def visiting(browser: Browser, base: str, width: int) -> Iterator[Visitor]:
    """A visitor with a window of this width."""
    context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce", base_url=base)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield Visitor(page)
    context.close()
