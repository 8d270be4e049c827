"""The documentation is true: generated tables, detector pages, dependencies, links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.house import docs_tables

ROOT = Path(__file__).parents[2]
RULE_HEADINGS = ["What it reports", "Thresholds", "What it does not flag", "Fix"]
RULE_PAGES = sorted(path for path in (ROOT / "docs/detectors").glob("*.md") if path.stem != "README")
ANCHOR = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("name", docs_tables.TABLES)
def test_a_generated_table_says_what_the_code_says(name: str) -> None:
    """Rows of what exists are up to date; a row that is missing is added by the next `make docs`."""
    made = {docs_tables.key(row): row for row in docs_tables.TABLES[name][1]()}
    shown = docs_tables.on_page(name)

    assert shown, "run make docs"
    assert [made.get(docs_tables.key(row)) for row in shown] == shown, "run make docs"


def test_the_tables_are_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the rows between the comments are replaced; the second time nothing changes."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin t: x -->\n| A |\n| --- |\n| old |\n<!-- end t -->\nafter\n", "utf-8")
    monkeypatch.setattr(docs_tables, "ROOT", tmp_path)
    monkeypatch.setattr(docs_tables, "TABLES", {"t": ("page.md", lambda: ["| one |", "| two |"])})

    assert ["t"] == docs_tables.write()
    assert [] == docs_tables.write()
    assert "before\n<!-- begin t: x -->\n| A |\n| --- |\n| one |\n| two |\n<!-- end t -->\nafter\n" == page.read_text()


def test_the_docs_are_plain_english() -> None:
    """Words that the project does not use; ids that are public, such as `links-told`, are the exception."""
    words = re.compile(r"(?<![-`\w])(?:told|said|spoken|reckon\w*|anew|dear|dearest)(?![-`\w])", re.IGNORECASE)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

    assert [] == [
        f"{page.relative_to(ROOT)}: {word}" for page in pages for word in words.findall(page.read_text("utf-8"))
    ]


@pytest.mark.parametrize("page", RULE_PAGES, ids=[page.stem for page in RULE_PAGES])
def test_a_rule_page_answers_its_four_questions(page: Path) -> None:
    """What it reports, from which numbers on, what it leaves alone, and what to do."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE)
    comments = [f"<!-- begin {page.stem}: written by `make docs` -->", f"<!-- end {page.stem} -->"]

    assert RULE_HEADINGS == [heading for heading in headings if heading in RULE_HEADINGS], (
        "add these headings, in this order"
    )
    assert [] == [line for line in comments if line not in text], "add these lines under Thresholds, then run make docs"


def test_every_dependency_has_its_reason() -> None:
    """docs/reference/dependencies.md names each library that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(line for lines in project["optional-dependencies"].values() for line in lines),
    ]
    names = sorted({re.split(r"[<>=\[ ;]", line, maxsplit=1)[0] for line in wanted})
    text = (ROOT / "docs/reference/dependencies.md").read_text("utf-8")

    assert [] == [name for name in names if f"| `{name}` |" not in text]


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        ("requirements.lock", []),
        ("requirements-image.lock", ["postgres", "sso"]),
        ("requirements-lake.lock", ["lake", "postgres", "sso"]),
        ("requirements-ray.lock", ["lake", "ray", "postgres", "sso"]),
        ("requirements-dev.lock", ["dev"]),
    ],
)
def test_every_dependency_is_pinned_with_hashes(file: str, extras: list[str]) -> None:
    """The lock files have one exact version of each library that a run or the suite needs, and its files' hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    entries = re.split(r"\n(?=[a-z])", (ROOT / file).read_text("utf-8").partition("\n#    make lock\n")[2].rstrip())
    pinned = [entry.partition("==")[0] for entry in entries]
    form = r"[a-z0-9-]+==[0-9][a-z0-9.]*( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+"

    assert [] == [entry for entry in entries if not re.fullmatch(form, entry)]
    assert len(set(pinned)) == len(pinned)
    assert set() == {re.split(r"[<>=\[ ;]", line, maxsplit=1)[0] for line in wanted} - set(pinned)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file of the project names one that is there. bench/RESULTS.md is written by `make bench`."""
    targets = LINK.findall(page.read_text("utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]

    assert [] == [target for target in missing if not target.endswith("bench/RESULTS.md")], "no such files"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_a_heading(page: Path) -> None:
    """The part of a link behind its # is a heading of the page it names."""
    links = [
        ((page.parent / target).resolve() if target else page, anchor)
        for target, anchor in ANCHOR.findall(page.read_text("utf-8"))
    ]

    lost = [f"{target.name}#{anchor}" for target, anchor in links if anchor not in anchors(target)]

    assert [] == lost, "these pages have no such heading"


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+?)\s*$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
