"""A folder of sql/ is run by the package of the same name only; the views are for everyone."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.house.source_tree import ROOT, SOURCES, facts

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


def run_by() -> set[tuple[str, str]]:
    """(module, SQL name) for every SQL file that a module names."""
    return {
        (str(path.relative_to(ROOT)), text)
        for module, path in SOURCES.items()
        for text in facts(module).texts & sql_names() | facts(module).query_starts
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
