"""The promises of the layout: imports point inward, files stay small, a rule has its four files."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {"gpuwatch": "gpuwatch", "collectors": "gpuwatch.collectors", "dashboards": "gpuwatch.dashboards"}
"""Source folders and the packages they install as. sql/ holds no code."""

MAX_LINES = 400
ROOMS = (
    ("core", "hardware", "settings", "store", "output", "state", "rules", "rates", "policy", "imports", "topology")
    + ("capacity", "ledger", "billing", "advisor", "detectors", "findings", "jobs", "analysis", "audit", "quality")
    + ("report", "alerts", "reclaim", "service", "simulate", "api", "commands", "cli")
)
"""Packages of gpuwatch/ in order: a module imports only from its own room and earlier ones."""
COLLECTOR_ROOMS = (
    *("shared", "kubernetes", "dcgm", "nvml", "slurm", "prometheus", "push", "ray", "yunikorn", "bills", "traces"),
    "bundle",
)
"""Packages of collectors/ in order: a module imports only from its own room and earlier ones."""
PURE = ("core", "hardware")
PURE_MAY = {"pyarrow", "numpy"}
"""Tables and arrays are no framework: the nouns are Arrow schemas."""

REPOSITORIES = {"repository", "tables"}
"""Modules of other rooms that may use sqlalchemy."""

UPPER_KEYWORD = re.compile(
    r"\b(SELECT|FROM|WHERE|JOIN|WITH|GROUP BY|ORDER BY|CREATE|INSERT|DELETE|UPDATE|CASE|WHEN|UNION|OVER|PARTITION)\b"
)
NOT_CODE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)


def sources() -> dict[str, Path]:
    """Module name as installed -> file, of all code that ships."""
    return {
        ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for folder, package in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


SOURCES = sources()
CODE = [path for name in (*FOLDERS, "sql", "bench", "tests") for path in sorted((ROOT / name).rglob("*.py"))]


def imports_of(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Dotted names that a module imports, anywhere in it; of `from a import b` both a and a.b."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                kept = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*kept, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@cache
def imported(module: str) -> set[str]:
    """Modules, not names in them, that a module of ours imports."""
    path = SOURCES[module]
    found = set(imports_of(ast.parse(path.read_text("utf-8")), module, path.name == "__init__.py"))
    ours = {name for name in found if name in SOURCES}
    foreign = {name for name in found if name.split(".")[0] != "gpuwatch"}
    # `from gpuwatch import mig` names the package too, which is not a dependency on anything in it.
    return ours - {"gpuwatch"} | foreign


def outside(allowed: set[str], names: set[str]) -> list[str]:
    """Modules of ours among `names` that are neither `gpuwatch.<allowed>` nor below one."""
    ours = {name for name in names if name.startswith("gpuwatch.")}
    return sorted(name for name in ours if name.split(".")[1] not in allowed)


def roots(names: set[str]) -> set[str]:
    """First parts of dotted names."""
    return {name.split(".")[0] for name in names}


def importers_of(library: str) -> list[str]:
    """Modules of ours that import a library."""
    return sorted(module for module in SOURCES if library in roots(imported(module)))


def below(package: str) -> list[str]:
    """Modules of a package, itself included."""
    return [module for module in SOURCES if module == package or module.startswith(f"{package}.")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 'import duckdb'", set(), id="text about an import is none"),
        pytest.param("import a.b", {"a.b"}, id="plain import"),
        pytest.param("def f():\n    from a import b", {"a", "a.b"}, id="import inside a function counts"),
        pytest.param("from . import b", {"p", "p.b"}, id="relative import is resolved"),
        pytest.param("from ..q import b", {"q", "q.b"}, id="relative import from above is resolved"),
    ],
)
def test_imports_are_found(text: str, expected: set[str]) -> None:
    """The reader below every other test of this file."""
    found = {name.removeprefix("top.") for name in imports_of(ast.parse(text), "top.p.m", is_package=False)}

    assert expected == found


def test_rooms_import_earlier_rooms_only() -> None:
    """The order of the rooms is the flow of the data."""
    order = {room: place for place, room in enumerate(ROOMS)}
    upward = {
        (module, name)
        for module in SOURCES
        if len(module.split(".")) > 1 and module.split(".")[1] in order
        for name in imported(module)
        if name.startswith("gpuwatch.") and order.get(name.split(".")[1], 99) > order[module.split(".")[1]]
    }

    assert set() == upward


def test_collector_rooms_import_earlier_rooms_only() -> None:
    """What several collectors need lives in `shared`; no collector needs one that needs it."""
    order = {room: place for place, room in enumerate(COLLECTOR_ROOMS)}
    modules = [module for module in below("gpuwatch.collectors") if module.count(".") > 1]
    wrong = {
        (module, name)
        for module in modules
        for name in imported(module)
        if name.startswith("gpuwatch.collectors.") and order[name.split(".")[2]] > order[module.split(".")[2]]
    }

    assert set(COLLECTOR_ROOMS) == {module.split(".")[2] for module in modules}
    assert set() == wrong


def test_every_package_is_a_room() -> None:
    """A new room takes its place in the order."""
    other = {"collectors", "dashboards", "state_migrations", "__main__"}
    rooms = {module.split(".")[1] for module in SOURCES if "." in module}

    assert set(ROOMS) == rooms - other


def test_collectors_import_the_core_only() -> None:
    """A collector can be read, tested and replaced with nothing else open."""
    wrong = {module: outside({"core", "collectors"}, imported(module)) for module in below("gpuwatch.collectors")}

    assert {} == {module: names for module, names in wrong.items() if names}


def test_the_database_imports_the_core_only() -> None:
    """The columns of a table are defined in model and fields, the queries in sql/."""
    assert [] == outside({"core", "store"}, imported("gpuwatch.store.database"))


def test_dashboards_know_only_their_client() -> None:
    """The user interface works against a remote server because it can do nothing else."""
    wrong = {module: outside({"dashboards"}, imported(module)) for module in below("gpuwatch.dashboards")}

    assert {} == {module: names for module, names in wrong.items() if names}


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_import_no_framework(room: str) -> None:
    """The rules of the domain outlive the libraries around them."""
    names = {name for module in below(f"gpuwatch.{room}") for name in imported(module)}
    standard = {"__future__", *__import__("sys").stdlib_module_names}

    assert set() == roots(names) - standard - PURE_MAY - {"gpuwatch"}


def test_only_the_store_imports_duckdb() -> None:
    """One place opens the file, bounds its memory and knows the dialect."""
    assert ["gpuwatch.store.database"] == importers_of("duckdb")


@pytest.mark.parametrize("library", ["sqlalchemy", "alembic"])
def test_only_the_state_imports_its_engine(library: str) -> None:
    """The state, its migrations, and the repositories and tables of other rooms."""
    allowed = {*below("gpuwatch.state"), *below("gpuwatch.state_migrations")}
    others = {name for name in set(importers_of(library)) - allowed if name.rpartition(".")[2] not in REPOSITORIES}

    assert set() == others


def test_nobody_imports_the_command_line() -> None:
    """cli is wiring; `python -m gpuwatch` only starts it."""
    users = [module for module in SOURCES if "gpuwatch.cli" in imported(module)]
    inside = [module for module in users if module == "gpuwatch.__main__" or module.startswith("gpuwatch.cli")]

    assert inside == users


@pytest.mark.parametrize("package", ["gpuwatch.collectors", "gpuwatch.dashboards"])
def test_nothing_names_a_plug_in_package(package: str) -> None:
    """They are found by name, so that adding one edits no existing file."""
    users = [
        module
        for module, path in SOURCES.items()
        if path.is_relative_to(ROOT / "gpuwatch") and any(name.startswith(package) for name in imported(module))
    ]

    assert [] == users


def test_modules_stay_small() -> None:
    """A module above the limit has two purposes."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in SOURCES.values()}

    assert {} == {name: length for name, length in lengths.items() if length > MAX_LINES}


def test_every_module_says_what_it_is() -> None:
    """The first statement is a docstring; only an empty `__init__.py` has nothing to say."""
    silent = [
        str(path.relative_to(ROOT))
        for path in CODE
        if (text := path.read_text("utf-8")).strip() and ast.get_docstring(ast.parse(text)) is None
    ]

    assert [] == silent


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
    """Stems of rules by where they are said. Names that start with `_` are shared pieces, not rules."""
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
    """Logic, words, test and page of a rule share one stem."""
    stems = rule_stems()
    every = set().union(*stems.values())

    assert {} == {place: sorted(every - found) for place, found in stems.items() if every - found}


SQL = sorted((ROOT / "sql").rglob("*.sql"))


@pytest.mark.parametrize("path", SQL, ids=[str(path.relative_to(ROOT)) for path in SQL])
def test_sql_reads_like_prose(path: Path) -> None:
    """It starts by saying what a row is, in lower case, without tabs."""
    text = path.read_text("utf-8")

    assert text.startswith("-- ")
    assert "\t" not in text
    assert [] == UPPER_KEYWORD.findall(NOT_CODE.sub(" ", text))


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

    assert [] == found
