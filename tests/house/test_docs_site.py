"""The documentation as a site: every page is in its navigation, it builds without a warning, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.docs_site import ROOT, site_links, with_folders

LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']?([^"'\s>]+)""")
IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?(https?:[^"')\s]+)""")


def pages(entries: list[Any]) -> Iterator[str]:
    """The pages of a navigation, in order."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from pages(value)
            else:
                yield value


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(pages(with_folders(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}

    assert set() == there - set(listed), "add these pages to `nav` in mkdocs.yml"
    assert set() == set(listed) - there, "remove these from `nav` in mkdocs.yml: no such pages"
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](../act/findings.md#x) b", "[a](../act/findings.md#x) b"),
        ("[`d`](../../deploy/prometheus.yml)", "[`d`](../project/deploy/prometheus.yml)"),
        ("[d](../../deploy/grafana)", "d"),
        ("[c](../../CONTRIBUTING.md#tests), [r](../../bench/none.md)", "c, r"),
        ("[one](b.md) [two](https://example.com/../x)", "[one](b.md) [two](https://example.com/../x)"),
    ],
)
def test_links_that_leave_the_docs_stay_useful(text: str, shown: str) -> None:
    assert shown == site_links(text, "operate/deploy.md")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if find_spec("mkdocs") is None or find_spec("material") is None:
        pytest.skip("no mkdocs-material: make .venv/.has-dev installs it")
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    yield folder
    shutil.rmtree(folder)


def test_the_site_builds_without_a_warning(site: Path) -> None:
    for page in ("index.html", "detectors/index.html", "operate/sign-in.html", "project/deploy/prometheus.yml"):
        assert (site / page).is_file()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    found = [
        (page.name, address)
        for page in site.rglob("*.html")
        for address in LOADED.findall(page.read_text("utf-8"))
        if "//" in address
    ]
    found += [(style.name, one) for style in site.rglob("*.css") for one in IN_STYLE.findall(style.read_text("utf-8"))]

    assert [] == found
