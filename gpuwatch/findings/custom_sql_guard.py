"""What the SQL of a site detector may do: one select on the store's own tables, and nothing that reads, writes or varies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpuwatch.findings.custom_header import SiteRuleError
from gpuwatch.store.database import Store

QUERIES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
SOURCES = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT", "CTE"})
PARTS = frozenset({"ORDER_DEFAULT", "ASCENDING", "DESCENDING", "ORDER_ASC", "ORDER_DESC"})
"""Harmless parts of a query, by their names in the parser; everything else is refused."""
TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
MADE_FOR_RULES = frozenset({"job_chain", "held"})
"""Temporary tables that every rule may read."""
REFUSED = frozenset(
    {"getenv", "json_serialize_plan", "json_deserialize_sql", "json_serialize_sql", "query", "query_table", "write_log"}
    | {"current_setting", "getvariable", "vector_type"}
)
"""Functions that read or change more than the tables. DuckDB 1.5 lists the last three as depending on their arguments alone."""
SIZED_BY_ARGUMENTS = frozenset(
    {"repeat", "lpad", "rpad", "list_resize", "array_resize", "format", "printf", "bitstring"}
    | {"replace", "regexp_replace", "translate"}
)
"""Functions whose arguments set the size of one value, which no memory limit bounds and no interrupt stops. The same holds for
TABLE_FUNCTIONS anywhere but after `from`, where they return row by row."""
ENDLESS = frozenset({"levenshtein", "editdist3", "damerau_levenshtein", "json_contains", "make_timestamptz"})
"""Functions of which one call may take hours and looks for no interrupt: with the product of the lengths of its texts or lists,
or, for the name of a time zone, with more than its length. Measured with 200,000 characters."""
ZONE_CHARS = 60
PATTERNED = frozenset(
    {"regexp_matches", "regexp_full_match", "regexp_extract", "regexp_extract_all", "regexp_split_to_array"}
    | {"string_split_regex", "str_split_regex", "regexp_split_to_table"}
)
"""Functions with a regular expression as second argument; `~` and `similar to` are the first two."""
PATTERN_CHARS = 200
PATTERN_REPEATS = 1000
"""One match takes the length of the text times that of the pattern with its repetitions written out, and looks for no interrupt."""
MACROS = re.compile(
    r"(list|array|map|json_group)_\w+|nullif|split_part|date_add|fmod|fdiv|wavg|weighted_avg|geomean|geometric_mean|if"
    r"|days_in_month|json|md5_number_(lower|upper)"
)
"""DuckDB macros that only compute; others read the session."""
EXACT_MACROS = frozenset({"exact_sum", "exact_mean", "exact_weighted_mean", "exact_correlation"})
"""Our own macros for sums and means of measurements: aggregates without side effects (sql/schema/0013_analyzed.sql)."""
MOMENTS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "user"})
"""Words that are functions without parentheses."""
_REPEATS = re.compile(r"(\)?)\{(\d{0,4}),?(\d{0,4})\}")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_NO_PLACE = 2**63
_NO_SELECT = "Only SELECT statements can be serialized to json!"

_FIX = "a site detector reads the store's tables with one select; see docs/act/site-detectors.md"


@dataclass(frozen=True)
class _Allowed:
    tables: frozenset[str]
    functions: frozenset[str]


def check(store: Store, sql: str, first_line: int) -> None:
    """Raises SiteRuleError at the line (the text begins at `first_line`) for anything but one harmless select.

    DuckDB's own parser reads the text; nothing is run.
    """
    serialized = store.sql("select json_serialize_sql($sql)", sql=sql)[0][0]
    try:
        tree = json.loads(serialized)
    except RecursionError as error:
        raise SiteRuleError(first_line, "the select is nested too deep", "write it flatter") from error
    if tree.get("error"):
        at = int(tree["position"]) if str(tree.get("position", "")).isdecimal() else 0
        words = (str(tree.get("error_message") or "not SQL")).splitlines()[0].replace(_NO_SELECT, "this is no select")
        raise SiteRuleError(_line(sql, at, first_line), words, _FIX)
    if len(tree["statements"]) != 1:
        raise SiteRuleError(first_line, f"{len(tree['statements'])} statements", _FIX)
    allowed = _allowed(store)
    queries = frozenset(name.lower() for name in _named_queries(tree))
    behind_from: set[int] = set()
    for node, at in _walk(tree):
        if node.get("type") == "TABLE_FUNCTION":
            behind_from.add(id(node.get("function")))
        wrong = _unbounded(node, behind_from) or _wrong(node, allowed, queries)
        if wrong is not None:
            raise SiteRuleError(_line(sql, at, first_line), wrong, _FIX)


def _allowed(store: Store) -> _Allowed:
    tables = {
        name for (name,) in store.sql("select table_name from information_schema.tables where table_schema = 'main'")
    }
    functions = {
        name
        for name, kind, stability in store.sql(
            "select distinct function_name, function_type, stability from duckdb_functions() where internal"
        )
        if (kind in ("scalar", "aggregate", "window") and stability == "CONSISTENT")
        or (kind == "macro" and MACROS.fullmatch(name))
    }
    return _Allowed(frozenset(tables | MADE_FOR_RULES), frozenset(functions | TABLE_FUNCTIONS | EXACT_MACROS) - REFUSED)


def _unbounded(node: dict[str, Any], behind_from: set[int]) -> str | None:
    name = str(node.get("function_name", "")).lower()
    if name in SIZED_BY_ARGUMENTS:
        return f"function {name}() makes a value of any size its arguments ask for"
    if name in ENDLESS:
        return f"function {name}() cannot be ended while it works on long texts or lists"
    if name in PATTERNED and (wrong := _long_pattern(_constant(node, 1))) is not None:
        return f"the regular expression of {name}() {wrong}"
    if name == "timezone" and not _short_constant(node):
        return f"the time zone must be a name of at most {ZONE_CHARS} characters in the text"
    if node.get("class") == "LAMBDA" and any(part.get("class") == "LAMBDA" for part, _ in _walk([*node.values()])):
        return "a lambda within a lambda cannot be ended while it works on long lists: use unnest and a join"
    if name in TABLE_FUNCTIONS - {"unnest"} and id(node) not in behind_from:
        return f"function {name}() makes a list of any length its argument asks for: write from t, {name}(...) as r(x)"
    return None


def _short_constant(node: dict[str, Any]) -> bool:
    """Whether the first argument of a function is a short constant."""
    zone = _constant(node, 0)
    return zone is not None and len(zone) <= ZONE_CHARS


def _constant(node: dict[str, Any], index: int) -> str | None:
    """An argument of a function that is a text in the query; None where it is absent or anything else."""
    arguments: list[dict[str, Any]] = node.get("arguments") or node.get("children") or []
    if len(arguments) <= index:
        return None
    argument = arguments[index].get("expression", arguments[index])
    literal = argument.get("literal") or argument.get("value") or {}
    text = literal.get("text", literal.get("value"))  # DuckDB 2.0, 1.5
    return text if argument.get("class") == "CONSTANT" and isinstance(text, str) else None


def _long_pattern(pattern: str | None) -> str | None:
    """Why one match of a regular expression may take minutes; None where it cannot."""
    if pattern is None:
        return "must be a text in the query"
    if len(pattern) > PATTERN_CHARS:
        return f"has more than {PATTERN_CHARS} characters"
    plain, groups = 0, 1
    for group, least, most in _REPEATS.findall(pattern):
        times = max(int(least or 1), int(most or 1))
        if group:
            groups *= times
        else:
            plain += times
    return f"repeats a part more than {PATTERN_REPEATS} times" if groups * max(plain, 1) > PATTERN_REPEATS else None


def _wrong(node: dict[str, Any], allowed: _Allowed, queries: frozenset[str]) -> str | None:
    """Why a part of the query is refused; None where it is not."""
    kind, node_class = node.get("type"), node.get("class")
    if node_class == "COLUMN_REF":
        names = node.get("column_names") or [""]
        return (
            f"{names[0]} differs from run to run: use $now_us"
            if [names[0].lower()] == names and names[0] in MOMENTS
            else None
        )
    if "function_name" in node:
        name = str(node["function_name"]).lower()
        return None if name in allowed.functions else f"function {name[:60]}() is not allowed"
    if node_class is not None or not isinstance(kind, str):
        return "a sample differs from run to run" if node.get("sample") else None
    if kind.endswith(("_MODIFIER", "_TYPE_INFO")) or kind in PARTS:
        return None
    if kind not in QUERIES | SOURCES:
        return f"{kind.lower().replace('_', ' ')} is not allowed"
    if node.get("sample"):
        return "a sample differs from run to run"
    return _wrong_source(node, allowed, queries) if kind in SOURCES else None


def _wrong_source(node: dict[str, Any], allowed: _Allowed, queries: frozenset[str]) -> str | None:
    if node["type"] == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        return None if name in TABLE_FUNCTIONS else f"function {name[:60]}() is not allowed"
    if node["type"] != "BASE_TABLE":
        return None
    name, place = str(node.get("table_name", "")), (node.get("catalog_name") or "", node.get("schema_name") or "")
    if place not in (("", ""), ("", "main")):
        return f"table {'.'.join(part for part in (*place, name) if part)[:80]} is not the store's"
    if name.lower() in allowed.tables or (name.lower() in queries and _PLAIN.fullmatch(name.lower())):
        return None
    return f"table {name[:80]} does not exist"


def _named_queries(tree: Any) -> Iterator[str]:
    for node, _ in _walk(tree):
        named = node.get("cte_map")
        if isinstance(named, dict):
            yield from (str(entry.get("key", "")) for entry in named.get("map", []))
        if "cte_name" in node:
            yield str(node["cte_name"])
        if "ctename" in node:
            yield str(node["ctename"])


def _walk(tree: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Every object of the tree with the nearest place in the text that is known."""
    waiting: list[tuple[Any, int]] = [(tree, 0)]
    while waiting:
        node, at = waiting.pop()
        if isinstance(node, dict):
            place = node.get("query_location")
            at = place if isinstance(place, int) and place < _NO_PLACE else at
            yield node, at
            waiting += [(value, at) for value in reversed(node.values())]
        elif isinstance(node, list):
            waiting += [(value, at) for value in reversed(node)]


def _line(sql: str, at: int, first_line: int) -> int:
    """The line of a place in the text, which the parser counts in bytes."""
    return first_line + sql.encode()[:at].count(b"\n")
