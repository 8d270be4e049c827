"""A folder of sql/ is run by the package of the same name only; the views are for everyone."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = {"views"}
"""Folders of sql/ that any package may run."""
EXCEPTIONS = {
    ("gpuwatch/findings/contention.py", "capacity/refused"),
    ("gpuwatch/ledger/stranding.py", "capacity/demand"),
}
"""Files that still run the SQL of another package. This list may only shrink."""


@cache
def sql_names() -> set[str]:
    """Every SQL file by the name it is run with."""
    return {str(path.relative_to(ROOT / "sql").with_suffix("")) for path in (ROOT / "sql").rglob("*.sql")}


def texts_in(path: Path) -> set[str]:
    """Text constants of a module, and the beginnings of f-strings that a store runs: `audit/` of `f"audit/{name}"`."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    plain = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    queries = [
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if node.func.attr in {"run", "rows", "table"}
    ]
    formatted = {ast.unparse(query)[2:].partition("{")[0] for query in queries if isinstance(query, ast.JoinedStr)}
    return plain & sql_names() | formatted


def run_by() -> set[tuple[str, str]]:
    """(module, SQL name) for every SQL file that a module names."""
    return {
        (str(path.relative_to(ROOT)), text)
        for package in ("gpuwatch", "collectors", "dashboards")
        for path in sorted((ROOT / package).rglob("*.py"))
        for text in texts_in(path)
    }


def package_of(module: str) -> str:
    """`gpuwatch/billing/prices.py` is in billing."""
    parts = Path(module).with_suffix("").parts
    return parts[1] if parts[0] == "gpuwatch" else parts[0]


def test_each_package_runs_its_own_sql() -> None:
    """The package that owns a query can change it without looking for callers elsewhere."""
    found = run_by()
    foreign = {(module, name) for module, name in found if name.split("/")[0] not in {package_of(module), *SHARED}}

    assert len(found) > 100
    assert EXCEPTIONS == foreign
