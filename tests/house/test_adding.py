"""Adding a detector, source, page, route, report format, channel or command is adding files: nothing is edited.

Each kind is added to a copy of the tree. The copy must pass the other house tests, and must find what was added.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source_tree import FOLDERS, ROOT

COPIED = (*FOLDERS, "sql", "tests", "docs", "bench", "deploy")
TIMEOUT_S = 600
"""Far more than the tests take; a slow machine is no failure."""

DETECTOR = {
    "gpuwatch/detectors/throw_away.py": '''
"""Throw-away rule."""

from __future__ import annotations

from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, register


def _summary(e: Evidence) -> str:
    return f"{e['devices']} devices."


def _remedy(e: Evidence) -> str:
    return "Nothing."


THROW_AWAY = register(
    Rule(
        id="throw-away",
        title="Throw-away",
        why="It shows that a rule needs no edit.",
        bucket="gap",
        layer="placement",
        effort=HOURS,
        thresholds=(Threshold("idle_hours_min", 1, "made up"),),
        summary=_summary,
        remedy=_remedy,
    )
)
''',
    "sql/detectors/throw_away.sql": "-- A row is a device hour.\nselect 1 as one;\n",
    "tests/detectors/test_throw_away.py": '"""The throw-away rule."""\n',
    "docs/detectors/throw-away.md": """
# throw-away

## What it reports

## Thresholds

<!-- begin throw-away: written by `make docs` -->
<!-- end throw-away -->

## What it does not flag

## Fix
""",
}
SOURCE = {
    "collectors/throw_away/__init__.py": '"""Throw-away source."""\n',
    "collectors/throw_away/files.py": '''
"""Import kind `throw-away`."""

from __future__ import annotations

from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer


@importer("throw-away", "nothing at all", suffixes=(".none",))
def read_throw_away(source: Source, rejects: Rejects) -> Rows:
    """Reads nothing."""
    yield from ()
''',
    "docs/throw-away.md": "# Throw-away\n\n`throw-away` is an import kind, and `gpuwatch throw-away` a command.\n",
}
PAGE = {
    "dashboards/pages/throw_away.py": '''
"""Throw-away page."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query


async def load(api: Api, query: Query) -> None:
    """Asks for nothing."""


@page("/throw-away", "Throw-away", load, icon="jobs", order=7, under="/quality")
def layout(data: None, query: Query, scheme: str) -> Component:
    """Nothing to see."""
    return html.Div()
''',
}
ROUTE = {
    "gpuwatch/api/routes/admin/throw_away.py": '''
"""Throw-away route."""

from __future__ import annotations

from fastapi import APIRouter

from gpuwatch.api.common import PREFIX

router = APIRouter(prefix=PREFIX, tags=["throw-away"])


@router.get("/throw-away")
def throw_away() -> dict[str, str]:
    """Answers nothing."""
    return {}
''',
}
FORMAT = {
    "gpuwatch/report/formats/throw_away.py": '''
"""Throw-away report format."""

from __future__ import annotations

from gpuwatch.report.format_registry import Report, report_format


@report_format("throw-away", "none", "application/octet-stream", order=99)
def throw_away(report: Report) -> bytes:
    """No bytes."""
    return b""
''',
}
CHANNEL = {
    "gpuwatch/alerts/channels/throw_away.py": '''
"""Throw-away notification channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpuwatch.alerts.kind import Context, MessageKind, channel_kind

if TYPE_CHECKING:
    from gpuwatch.alerts.record import Alert
    from gpuwatch.report.summary import Summary


@channel_kind
class ThrowAway(MessageKind):
    """Sends empty messages."""

    name = "throw-away"

    def single(self, alert: Alert, context: Context) -> Any:
        return {}

    def digest(self, alerts: Sequence[Alert], by: Sequence[str], context: Context) -> Any:
        return {}

    def report(self, summary: Summary, context: Context) -> Any:
        return {}

    def test(self, context: Context) -> Any:
        return {}
''',
}
COMMAND = {
    "gpuwatch/commands/throw_away.py": '''
"""Throw-away command."""

from __future__ import annotations

from gpuwatch.commands.registry import command


def throw_away() -> None:
    """Does nothing."""


command("throw-away", throw_away, place=999)
''',
}
ADDED = DETECTOR | SOURCE | PAGE | ROUTE | FORMAT | CHANNEL | COMMAND

HOUSE = ("test_layout.py", "test_layers.py", "test_docs.py")
LISTING = (("tests/dashboards/test_pages.py", "navigation"), ("tests/report/test_formats.py", "listing_the_formats"))
"""Tests outside of tests/house that list plug-ins, by file and a part of their name."""

SCRIPT = """
import json, pathlib, sys
sys.path.append(".")
from tests.house.docs_tables import write
write()

from typer.main import get_command
from gpuwatch.alerts.kind import channel_kinds
from gpuwatch.api.app import _routers
from gpuwatch.cli import app
from gpuwatch.core.registry import importers
from gpuwatch.dashboards.shell.page import pages
from gpuwatch.report.format_registry import format_names
from gpuwatch.rules.rule import rules

pathlib.Path("found.json").write_text(json.dumps({
    "detector": list(rules()),
    "source": list(importers()),
    "page": [page.path.strip("/") for page in pages()],
    "route": [route.path.rpartition("/")[2] for router in _routers() for route in router.routes],
    "format": list(format_names()),
    "channel": list(channel_kinds()),
    "command": list(get_command(app).commands),
}))

import pytest
pytest.main(sys.argv[1:])
"""
"""Writes the tables of the docs as `make docs` does, lists everything registered by kind, and runs tests.

One process does it all: each would spend most of its time on the same imports."""


@dataclass(frozen=True)
class Copy:
    """A copy of the tree with one more of each kind."""

    path: Path
    found: dict[str, list[str]]
    """Names of everything registered in it, by kind."""
    output: str
    """What pytest wrote about the house tests and LISTING."""

    def outcomes(self, file: str, part: str = "") -> set[str]:
        """Outcomes of the tests of a file with `part` in their names: PASSED, FAILED, ERROR."""
        lines = re.findall(rf"^([A-Z]+) {re.escape(file)}(.*)$", self.output, re.MULTILINE)
        return {outcome for outcome, rest in lines if part in rest}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The copy, and a folder `installed` in it that lays it out as an install does."""
    tree = tmp_path_factory.mktemp("adding")
    # Compiled modules stay valid: a copy keeps the time of its source.
    ignore = shutil.ignore_patterns("*.pyc.*", "data")
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=ignore)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree)
    for name, text in ADDED.items():
        path = tree / name
        assert not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"), "utf-8")
    package = tree / "installed" / "gpuwatch"
    package.mkdir(parents=True)
    for entry in (tree / "gpuwatch").iterdir():
        (package / entry.name).symlink_to(entry)
    for name in ("collectors", "dashboards", "sql"):
        (package / name).symlink_to(tree / name)
    selected = " or ".join([*HOUSE, *(part for _, part in LISTING)])
    files = [*(f"tests/house/{name}" for name in HOUSE), *(file for file, _ in LISTING)]
    done = run(tree, "-c", SCRIPT, *OPTIONS, f"pythonpath={tree / 'installed'} .", *files, "-k", selected)
    assert 0 == done.returncode, done.stderr[-3000:]
    return Copy(tree, json.loads((tree / "found.json").read_text("utf-8")), done.stdout)


OPTIONS = ("-q", "-rpfE", "-p", "no:cacheprovider", "-o")


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python on the copy: its `installed` folder comes before the editable install of this checkout."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree / "installed")},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize("kind", ["detector", "source", "page", "route", "format", "channel", "command"])
def test_what_is_added_is_found(copy: Copy, kind: str) -> None:
    assert 1 == copy.found[kind].count("throw-away")


@pytest.mark.parametrize("tests", HOUSE)
def test_the_house_still_stands(copy: Copy, tests: str) -> None:
    assert {"PASSED"} == copy.outcomes(f"tests/house/{tests}"), copy.output[-3000:]


@pytest.mark.parametrize(("tests", "names"), LISTING)
def test_other_tests_that_list_plug_ins_need_no_edit(copy: Copy, tests: str, names: str) -> None:
    assert {"PASSED"} == copy.outcomes(tests, names), copy.output[-3000:]


def test_the_docs_tables_have_what_was_added(copy: Copy) -> None:
    """The thresholds of a new page begin with their header."""
    pages = ("detectors/throw-away.md", "detectors/README.md", "reference/api.md")
    thresholds, detectors, routes = ((copy.path / "docs" / name).read_text("utf-8") for name in pages)

    assert "| Name | Default | Source |\n| --- | --- | --- |\n| `idle_hours_min` | 1 | made up |\n" in thresholds
    assert "| [throw-away](throw-away.md) | Throw-away | placement |\n" in detectors
    assert "| `GET /api/v1/throw-away` |" in routes


def test_a_detector_without_its_page_is_refused(copy: Copy) -> None:
    """The house tests read the copy, and can fail."""
    page = copy.path / "docs/detectors/throw-away.md"
    text = page.read_text("utf-8")
    page.unlink()
    paths = f"pythonpath={copy.path / 'installed'} ."
    done = run(copy.path, "-m", "pytest", *OPTIONS, paths, "tests/house/test_layout.py", "-k", "four_places")
    page.write_text(text, "utf-8")

    assert 1 == done.returncode
    assert "docs/detectors/<rule>.md" in done.stdout
