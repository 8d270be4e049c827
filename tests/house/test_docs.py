"""The documentation names all there is: settings, import kinds, commands, rules, dependencies."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from gpuwatch.core.registry import importers
from gpuwatch.settings import ENV_PREFIX, table

ROOT = Path(__file__).parents[2]
RULE_HEADINGS = ["What it says", "Thresholds", "What it does not flag", "Fix"]
RULE_PAGES = sorted(path for path in (ROOT / "docs/detectors").glob("*.md") if path.stem != "README")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def guide() -> str:
    """Everything a user reads."""
    return "\n".join(page.read_text("utf-8") for page in PAGES)


def test_every_setting_is_described() -> None:
    """docs/settings.md is the table of gpuwatch.settings: name, variable, default, sentence."""
    text = (ROOT / "docs/settings.md").read_text("utf-8")
    rows = [
        f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | {'' if default is None or default == '' else f'`{default}`'} | {sentence} |"
        for name, default, sentence in table()
    ]

    assert rows == [line for line in text.splitlines() if line.startswith("| `")]


def test_every_import_kind_is_described() -> None:
    """In the guide, as a user types it."""
    text = guide()

    assert [] == [kind for kind in importers() if f"`{kind}`" not in text]


def test_every_command_is_described() -> None:
    """In the guide, as a user types it."""
    if importlib.util.find_spec("gpuwatch.cli") is None:
        pytest.skip("gpuwatch.cli is not there: no commands to look for")
    from typer.main import get_command

    from gpuwatch.cli import app

    text = guide()
    commands = sorted(getattr(get_command(app), "commands", {}))

    assert commands
    assert [] == [name for name in commands if f"gpuwatch {name}" not in text]


@pytest.mark.parametrize("page", RULE_PAGES, ids=[page.stem for page in RULE_PAGES])
def test_a_rule_page_answers_its_four_questions(page: Path) -> None:
    """What it says, from which numbers on, what it leaves alone, and what to do."""
    headings = re.findall(r"^#+ (.+?)\s*$", page.read_text("utf-8"), re.MULTILINE)

    assert RULE_HEADINGS == [heading for heading in headings if heading in RULE_HEADINGS]


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md names each library that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    names = sorted({re.split(r"[<>=\[ ;]", line, maxsplit=1)[0] for line in wanted})
    text = (ROOT / "docs/dependencies.md").read_text("utf-8")

    assert [] == [name for name in names if f"| `{name}` |" not in text]


def test_every_dependency_is_pinned() -> None:
    """requirements.lock has one exact version of each library that a run or the suite needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    lines = [
        line for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines() if line and line[0] not in "#"
    ]
    pinned = [line.partition("==")[0] for line in lines]

    assert [] == [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*", line)]
    assert len(set(pinned)) == len(pinned)
    assert set() == {re.split(r"[<>=\[ ;]", line, maxsplit=1)[0] for line in wanted} - set(pinned)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project names one that is there. bench/RESULTS.md is written by `make bench`."""
    targets = LINK.findall(page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]

    assert [] == [target for target in missing if not target.endswith("bench/RESULTS.md")]
