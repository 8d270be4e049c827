"""The layout: small files in small folders, each with a docstring; a detector has its four files."""

from __future__ import annotations

import ast
import re
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from tests.house.source_tree import CODE, ROOT, SOURCES

SQL = sorted((ROOT / "sql").rglob("*.sql"))
MAX_LINES = 300
MAX_MODULES = 30
"""Modules in a folder, and SQL files; `__init__.py` does not count."""
MIGRATIONS = "sql/schema"
"""A released migration is never edited or merged into another, so this folder has no limit."""

UPPER_KEYWORD = re.compile(
    r"\b(SELECT|FROM|WHERE|JOIN|WITH|GROUP BY|ORDER BY|CREATE|INSERT|DELETE|UPDATE|CASE|WHEN|UNION|OVER|PARTITION)\b"
)
NOT_CODE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


def test_modules_stay_small() -> None:
    """A module above the limit has two purposes."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in SOURCES.values()}

    assert {} == {name: length for name, length in lengths.items() if length > MAX_LINES}, "split these modules"


def test_folders_stay_small() -> None:
    """A folder above the limit holds two rooms."""
    files = [*SOURCES.values(), *SQL]
    sizes = Counter(str(path.parent.relative_to(ROOT)) for path in files if path.name != "__init__.py")

    large = {folder: size for folder, size in sizes.items() if size > MAX_MODULES and folder != MIGRATIONS}

    assert {} == large, f"split these folders: more than {MAX_MODULES} modules"


def test_every_module_has_a_docstring() -> None:
    """Only an empty `__init__.py` may be without."""
    bare = [str(path.relative_to(ROOT)) for path in CODE if path.stat().st_size and not has_docstring(path)]

    assert [] == bare, "begin these modules with a line that says what they hold"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("# comment\n\n'Words.'\nx = 1\n", True, id="after comments"),
        pytest.param("x = 1\n'Words.'\n", False, id="behind a statement"),
        pytest.param("'words'.upper()\n", False, id="text in a statement"),
        pytest.param("b'words'\n", False, id="bytes"),
        pytest.param("f'words'\n", False, id="formatted text"),
        pytest.param("# comment\n", False, id="a comment only"),
    ],
)
def test_a_docstring_is_found(tmp_path: Path, text: str, expected: bool) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, "utf-8")

    assert expected == has_docstring(path)


def has_docstring(path: Path) -> bool:
    """Whether a module begins with text. Reading two tokens is many times faster than parsing the module."""
    with path.open(encoding="utf-8") as file:
        tokens = tokenize.generate_tokens(file.readline)
        meaningful = (each for each in tokens if each.type not in (tokenize.COMMENT, tokenize.NL))
        first = next(meaningful)
        second = next(meaningful, first)
    plain = first.string.lstrip("rRuU")[:1] in ("'", '"')
    return first.type == tokenize.STRING and plain and second.type == tokenize.NEWLINE


def registers(path: Path) -> bool:
    """Whether a module makes a detector at import: `NAME = register(Rule(...))`."""
    made: list[ast.expr] = []
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            made += node.decorator_list
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and node.value is not None:
            made.append(node.value)
    callees = [made_by.func for made_by in made if isinstance(made_by, ast.Call)]
    return any(ast.unparse(callee).split(".")[-1].lower() in {"register"} for callee in callees)


def rule_stems() -> dict[str, set[str]]:
    """Stems of rules by place. Names that start with `_` are shared helpers, not rules."""
    modules = {path.stem for path in (ROOT / "gpuwatch/detectors").glob("[!_]*.py") if registers(path)}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests/detectors").glob("test_*.py")}
    files = {path.stem for path in (ROOT / "gpuwatch/detectors").glob("*.py")}
    return {
        "gpuwatch/detectors/<rule>.py": modules,
        "sql/detectors/<rule>.sql": {path.stem for path in (ROOT / "sql/detectors").glob("[!_]*.sql")},
        # A test of a module that is no rule, or of all rules at once, is not a rule's.
        "tests/detectors/test_<rule>.py": tests - (files - modules) - {"rules"},
        "docs/detectors/<rule>.md": {
            path.stem.replace("-", "_") for path in (ROOT / "docs/detectors").glob("*.md") if path.stem != "README"
        },
    }


def test_a_rule_is_in_its_four_places() -> None:
    """SQL, module, test and documentation page of a rule share one stem."""
    stems = rule_stems()
    every = set().union(*stems.values())

    missing = {place: sorted(every - found) for place, found in stems.items() if every - found}

    assert {} == missing, "add these files; a page has `-` in its name where the others have `_`"


@pytest.mark.parametrize("path", SQL, ids=[str(path.relative_to(ROOT)) for path in SQL])
def test_sql_reads_like_prose(path: Path) -> None:
    """It starts with a comment that says what a row is, in lower case, without tabs."""
    text = path.read_text("utf-8")

    assert text.startswith("-- "), "begin with a comment that says what a row is"
    assert "\t" not in text, "indent with four spaces"
    assert [] == UPPER_KEYWORD.findall(NOT_CODE.sub(" ", text)), "write keywords in lower case"


def test_no_file_names_the_checkout() -> None:
    """A path of one machine works on no other."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says which files are ours")
    place = str(ROOT).encode()
    files = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    pattern = re.compile(re.escape(place) + rb"(?![\w-])")
    found = [str(path.relative_to(ROOT)) for path in files if path.is_file() and pattern.search(path.read_bytes())]

    assert [] == found, f"these files name {ROOT}: use a path relative to the file"
