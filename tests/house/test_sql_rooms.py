"""A folder of sql/ is run by the package of the same name only; the views are for everyone."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, SOURCES, facts

SHARED = {"views"}
"""Folders of sql/ that any package may run."""


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
    assert set() == foreign


ONLY_DUCKDB_2 = re.compile(
    r"""
    ->>?\s*(?:'[^'\n]*'|[a-z_.]+)\s*(?:=|<|>|\|\||(?:is|in|not|like)\b)  # 1.5 compares first, then reads the field
    | (?:=|<|>|\|\|)\s*[a-z_.]+\s*->>?
    | \s!?~\*?\s*'  # 1.5 matches the whole text: use regexp_matches
    | \),\s*(?:select|insert)\b  # 1.5 takes no comma behind the last table of a "with"
    """,
    re.VERBOSE,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("where (labels ->> '$.a') = 'b'", False),
        ("coalesce(labels ->> '$.a', labels ->> b.c) = 'b'", False),
        ("list_filter(found, lambda e: e -> 'v')", False),
        ("(x as (select 1)) select", False),
        ("where labels ->> '$.a' = 'b'", True),
        ("else labels ->> e.key is null", True),
        ("where b = n.labels ->> '$.a'", True),
        ("with a as (\n select 1\n),\nselect", True),
        ("where profile ~ '^[0-9]+g'", True),
        ("where regexp_matches(profile, '^[0-9]+g')", False),
    ],
)
def test_what_only_duckdb_2_reads_right_is_found(text: str, found: bool) -> None:
    """Its own cases; the tests on the oldest DuckDB run only part of the queries."""
    assert found == bool(ONLY_DUCKDB_2.search(text))


def test_no_query_is_read_otherwise_by_the_oldest_duckdb() -> None:
    """Put parentheses around `labels ->> 'name'` before comparing it; use regexp_matches instead of `~`."""
    texts = {name: (ROOT / "sql" / f"{name}.sql").read_text("utf-8") for name in sorted(sql_names())}

    assert {} == {name: match[0] for name, text in texts.items() if (match := ONLY_DUCKDB_2.search(text))}


FILTERED_COUNT = re.compile(r"count\(\*\) filter \((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s+over\b")


def test_no_window_counts_with_a_filter() -> None:
    """DuckDB computes `count(*) filter (...) over` in quadratic time of the partition, `count(case ... end) over` in linear time."""
    files = [path for path in (ROOT / "sql").rglob("*.sql") if "schema" not in path.parts]

    assert [] == [str(path.relative_to(ROOT)) for path in files if FILTERED_COUNT.search(path.read_text("utf-8"))]
