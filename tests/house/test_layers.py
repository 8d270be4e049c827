"""Which module may import which: rooms in order, no cycles, each library in its place."""

from __future__ import annotations

import ast

import pytest

from tests.house.source_tree import ROOT, SOURCES, below, imported, importers_of, imports_of, outside, roots

ROOMS = (
    (
        "core",
        "client",
        "hardware",
        "settings",
        "store",
        "output",
        "state",
        "lake",
        "rules",
        "rates",
        "policy",
        "imports",
        "topology",
    )
    + (
        "capacity",
        "ledger",
        "billing",
        "advisor",
        "detectors",
        "findings",
        "jobs",
        "analysis",
        "rebook",
        "audit",
        "quality",
    )
    + ("report", "scan", "alerts", "reclaim", "service", "simulate", "api", "commands", "cli")
)
"""Packages of gpuwatch/ in order: a module imports only from its own room and earlier ones."""
COLLECTOR_ROOMS = (
    *("shared", "kubernetes", "dcgm", "nvml", "slurm", "prometheus", "push", "ray", "yunikorn", "bills", "traces"),
    "bundle",
)
"""Packages of collectors/ in order: a module imports only from its own room and earlier ones. A new source comes last."""
PURE = ("core", "hardware")
PURE_MAY = {"pyarrow", "numpy"}
"""Tables and arrays are no framework: the nouns are Arrow schemas."""

LAKE = "gpuwatch.lake.connection"
"""Attaches the lake to a DuckDB of its own, and translates its errors."""

REPOSITORIES = {"repository", "tables"}
"""Modules of other rooms that may use sqlalchemy."""

KNOWN_CYCLES = [
    {"gpuwatch.simulate", "gpuwatch.simulate.bundle"},
    {"gpuwatch.simulate.scene", "gpuwatch.simulate.staging"},
]
"""Cycles between files that are still there, type-only and function-local imports included. The list may only shrink."""


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
    """Every other test of this file depends on this reader."""
    found = {name.removeprefix("top.") for name in imports_of(ast.walk(ast.parse(text)), "top.p.m", is_package=False)}

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

    assert set() == upward, (
        "(module, import): a module imports from its own folder or an earlier one of ROOMS; move one of the two"
    )


def test_collector_rooms_import_earlier_rooms_only() -> None:
    """What several collectors need lives in `shared`; no collector needs one that needs it."""
    order = {room: place for place, room in enumerate(COLLECTOR_ROOMS)}
    last = len(order)
    modules = [module for module in below("gpuwatch.collectors") if module.count(".") > 1]
    wrong = {
        (module, name)
        for module in modules
        for name in imported(module)
        if name.startswith("gpuwatch.collectors.")
        and order.get(name.split(".")[2], last) > order.get(module.split(".")[2], last)
    }

    assert set(COLLECTOR_ROOMS) <= {module.split(".")[2] for module in modules}
    assert set() == wrong, "(module, import): move what several collectors need into collectors/shared"


def test_every_package_is_a_room() -> None:
    """A new room takes its place in the order."""
    other = {"collectors", "dashboards", "state_migrations", "__main__"}
    rooms = {module.split(".")[1] for module in SOURCES if "." in module}

    assert set(ROOMS) == rooms - other, "add a new folder to ROOMS in this file, below all folders that it imports"


def test_collectors_import_the_core_only() -> None:
    """A collector can be read, tested and replaced with nothing else open."""
    wrong = {module: outside({"core", "collectors"}, imported(module)) for module in below("gpuwatch.collectors")}

    assert {} == {module: names for module, names in wrong.items() if names}, (
        "of gpuwatch, a collector imports core only"
    )


def test_the_database_imports_the_core_only() -> None:
    """The columns of a table are defined in model and fields, the queries in sql/."""
    assert [] == outside({"core", "store"}, imported("gpuwatch.store.database"))


def test_dashboards_use_the_api_client_only() -> None:
    """The user interface works against a remote server because it can do nothing else."""
    wrong = {module: outside({"dashboards"}, imported(module)) for module in below("gpuwatch.dashboards")}

    assert {} == {module: names for module, names in wrong.items() if names}, "ask the REST API: await api.get(...)"


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_import_no_framework(room: str) -> None:
    """The rules of the domain outlive the libraries around them."""
    names = {name for module in below(f"gpuwatch.{room}") for name in imported(module)}
    standard = {"__future__", *__import__("sys").stdlib_module_names}

    assert set() == roots(names) - standard - PURE_MAY - {"gpuwatch"}


def test_only_the_store_imports_duckdb() -> None:
    """One room opens the file, bounds its memory and knows the dialect."""
    others = {module for module in importers_of("duckdb") if module.split(".")[1] != "store"}

    assert {LAKE} == others, "use gpuwatch.store.database instead of duckdb"


@pytest.mark.parametrize("library", ["sqlalchemy", "alembic"])
def test_only_the_state_imports_its_engine(library: str) -> None:
    """The state, its migrations, and the repositories and tables of other rooms."""
    allowed = {*below("gpuwatch.state"), *below("gpuwatch.state_migrations")}
    others = {name for name in set(importers_of(library)) - allowed if name.rpartition(".")[2] not in REPOSITORIES}

    assert set() == others, f"move what imports {library} into a module named {' or '.join(sorted(REPOSITORIES))}"


def test_only_the_entry_point_imports_the_command_line() -> None:
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


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that import each other, directly or through others: the strongly connected components."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        return seen

    reached = {module: reach(module) for module in graph}
    return [
        {other for other in reached[module] if module in reached[other]}
        for module in sorted(graph)
        if module in reached[module] and module == min(other for other in reached[module] if module in reached[other])
    ]


def test_cycles_are_found() -> None:
    assert [{"a", "b"}, {"d"}] == cycles({"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"d"}})


def test_files_import_each_other_in_one_direction() -> None:
    """Without exceptions for imports inside functions or for types: both make a file unreadable without the other."""
    graph = {module: {name for name in imported(module) if name in SOURCES and name != module} for module in SOURCES}

    assert KNOWN_CYCLES == cycles(graph)
