"""The browser that all tests of a file share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-software-rasterizer", "--process-per-site"]
"""No GPU is imitated, and tabs of one context share a process with the scripts that it has compiled."""


# Not of the session: as long as it runs, no other test of the worker can start an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium, or a skip that says what is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser to try pages in")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("chromium is not installed: no browser to try pages in")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield running
        running.close()
