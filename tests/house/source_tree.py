"""The source tree as the house tests see it: files, modules and what they import."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"gpuwatch": "gpuwatch", "collectors": "gpuwatch.collectors", "dashboards": "gpuwatch.dashboards"}
"""Source folders and the packages they install as. sql/ holds no code."""


def sources() -> dict[str, Path]:
    """Module name as installed -> file, of all code that ships."""
    return {
        ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for folder, package in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


SOURCES = sources()
CODE = [path for name in (*FOLDERS, "sql", "bench", "tests") for path in sorted((ROOT / name).rglob("*.py"))]


@dataclass(frozen=True)
class Facts:
    """What the tests read of a module. Its syntax tree, a hundred times larger, is not kept."""

    imports: frozenset[str]
    texts: frozenset[str]
    """Text constants."""
    query_starts: frozenset[str]
    """The beginnings of f-strings that a store runs: `audit/` of `f"audit/{name}"`."""


@cache
def facts(module: str) -> Facts:
    """Parses a module of ours, once for all tests."""
    path = SOURCES[module]
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    queries = [
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if node.func.attr in {"run", "rows", "table"}
    ]
    return Facts(
        frozenset(imports_of(nodes, module, path.name == "__init__.py")),
        frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)),
        frozenset(ast.unparse(query)[2:].partition("{")[0] for query in queries if isinstance(query, ast.JoinedStr)),
    )


def imports_of(nodes: Iterable[ast.AST], module: str, is_package: bool) -> Iterator[str]:
    """Dotted names that a module imports, anywhere in it; of `from a import b` both a and a.b."""
    package = module if is_package else module.rpartition(".")[0]
    for node in nodes:
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
def imported(module: str) -> frozenset[str]:
    """Modules, not names in them, that a module of ours imports."""
    found = facts(module).imports
    ours = {name for name in found if name in SOURCES}
    foreign = {name for name in found if name.split(".")[0] != "gpuwatch"}
    # `from gpuwatch import settings` names the package too, which is not a dependency on anything in it.
    return frozenset(ours - {"gpuwatch"} | foreign)


def outside(allowed: set[str], names: AbstractSet[str]) -> list[str]:
    """Modules of ours among `names` that are neither `gpuwatch.<allowed>` nor below one."""
    ours = {name for name in names if name.startswith("gpuwatch.")}
    return sorted(name for name in ours if name.split(".")[1] not in allowed)


def roots(names: AbstractSet[str]) -> set[str]:
    """First parts of dotted names."""
    return {name.split(".")[0] for name in names}


def importers_of(library: str) -> list[str]:
    """Modules of ours that import a library."""
    return sorted(module for module in SOURCES if library in roots(imported(module)))


def below(package: str) -> list[str]:
    """Modules of a package, itself included."""
    return [module for module in SOURCES if module == package or module.startswith(f"{package}.")]
