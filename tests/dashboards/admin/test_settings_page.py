"""The page of settings names every page on which people set something."""

from __future__ import annotations

from gpuwatch.dashboards.pages.setup import index
from gpuwatch.dashboards.shell import page as registry
from tests.dashboards.laid_out import answering, links, shown, text

LISTED = [path for entries in index.GROUPS.values() for path in entries]


def test_every_line_is_a_page() -> None:
    assert [] == [path for path in LISTED if path not in {page.path for page in registry.pages()}]


def test_every_page_below_settings_has_a_line() -> None:
    assert [] == [page.path for page in registry.pages() if page.under == "/setup" and page.path not in LISTED]


def test_readers_learn_that_they_cannot_change_anything() -> None:
    reader = shown("/setup", source=answering({"me": {"scope": "read"}}))

    assert "Only a token with the scope admin may change them." in text(reader)
    assert "Only a token" not in text(shown("/setup"))
    assert {f"/ui{path}" for path in LISTED} == set(links(reader))
