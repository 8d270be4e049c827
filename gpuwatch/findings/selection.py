"""Which findings match a request, in which order: filters, ranks and cursors."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.findings import custom_rules
from gpuwatch.findings.priority import facts_of_row, mean_price_of, of_finding
from gpuwatch.findings.repository import Action
from gpuwatch.findings.texts import (
    ELAPSED_US_MIN,
    SEVERITIES,
    SEVERITY_ORDER,
    UNPRICED_SEVERITY,
    built_in,
    severity,
    summary,
)
from gpuwatch.rules.rule import Rule
from gpuwatch.store.database import Store

STATES = ("open", "resolved", "acked", "snoozed", "exempt")
SHOWN_AS = {"ack": "acked", "snooze": "snoozed", "exempt": "exempt"}
"""The state of an open finding while an action of its owner is in force."""
SORTS = ("cost", "started", "severity", "priority")
"""Most expensive, newest or most severe first; priority: by severity, cost a day and certainty together."""
SEARCH_MAX = 200
"""Characters of a search."""
EVER = Window(-(2**62), 2**62)
ALL = 2**31
"""More findings than a store has."""

_WORD = pa.schema([("key", pa.string()), ("state", pa.string()), ("severity", pa.int32()), ("found", pa.bool_())])


@dataclass(frozen=True)
class Filters:
    """Which findings are asked for. Empty filters match everything; `teams` None means all teams, [] none.

    `pool` keeps findings with a device in it, `window` those whose time [started, ended) overlaps it; an open one has no
    end. `q` is searched in title, summary, key, subject, user, team or node, ignoring case. `actions` are those in force by
    finding key: they change the state that is shown and filtered.
    """

    open_only: bool = False
    states: Collection[str] = ()
    detectors: Collection[str] = ()
    severities: Collection[str] = ()
    teams: Collection[str] | None = None
    cluster: str | None = None
    pool: str | None = None
    job: str | None = None
    keys: Collection[str] | None = None
    window: Window | None = None
    q: str | None = None
    actions: Mapping[str, Action] | None = None


def ranked(
    store: Store,
    filters: Filters,
    *,
    sort: str = "cost",
    limit: int | None = None,
    cursor: str | None = None,
    now_us: int | None = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Rows of findings/rank.sql in the order of `sort`, at most `limit`, starting after `cursor`; and the next cursor.

    `now_us` is for the priority of lost work. Raises UsageError for an unknown name or a broken cursor.
    """
    after = (None, None, None) if cursor is None else read_cursor(cursor)
    most = max(ALL if limit is None else limit, 1)
    urgent = sort == "priority"
    with _asked(store, filters, sort) as parameters:
        first, second, key = (None, None, None) if urgent else after
        place = {"after_first": first, "after_second": second, "after_key": key}
        rows = store.rows("findings/rank", **parameters, **place, limit=ALL if urgent else most + 1)
    if urgent:
        rows = _by_priority(rows, after, now_us)
    shown = rows[:most]
    if len(rows) <= most:
        return shown, None
    return shown, write_cursor(*(shown[-1][name] for name in ("first_rank", "second_rank", "key")))


def counts(store: Store, filters: Filters) -> dict[str, int]:
    """How many findings are in each state."""
    place = {"after_first": None, "after_second": None, "after_key": None}
    with _asked(store, filters, "started") as parameters:
        store.keep_file("ranked_finding", "findings/rank", **parameters, **place, limit=ALL)
    found = {row["state"]: row["findings"] for row in store.rows("findings/count")}
    return {state: found.get(state, 0) for state in STATES}


@contextmanager
def _asked(store: Store, filters: Filters, sort: str) -> Iterator[dict[str, Any]]:
    """The parameters of findings/rank.sql, while finding_word is there."""
    known, sought = _checked(filters, sort)
    by_severity = bool(filters.severities) or sort in ("severity", "priority")
    window = filters.window or EVER
    with store.view("finding_word", _words(store, known, filters.actions or {}, by_severity, sought)):
        yield {
            "open_only": filters.open_only,
            "states": list(filters.states),
            "detectors": list(filters.detectors),
            "severities": [SEVERITY_ORDER.index(name) for name in filters.severities],
            "severity_limits": [float(limit) for limit, _ in SEVERITIES],
            "unpriced_severity": SEVERITY_ORDER.index(UNPRICED_SEVERITY),
            "teams": _list(filters.teams),
            "cluster": filters.cluster,
            "pool": filters.pool,
            "job": filters.job,
            "keys": _list(filters.keys),
            "start_us": window.start_us,
            "end_us": window.end_us,
            "q": sought,
            "titled": _titled(known, sought),
            "by_cost": sort != "started" or by_severity,
            "sort": sort,
            "elapsed_us_min": ELAPSED_US_MIN,
        }


def _checked(filters: Filters, sort: str) -> tuple[dict[str, Rule], str | None]:
    """The known rules, and the words to search for. Raises UsageError for an unknown name."""
    known = {**built_in(), **custom_rules.known()}
    checked = (
        ("detector", filters.detectors, known),
        ("state", filters.states, STATES),
        ("severity", filters.severities, SEVERITY_ORDER),
        ("sort", [sort], SORTS),
    )
    for what, names, valid in checked:
        _check_names(what, names, valid)
    return known, (filters.q or "").strip().lower()[:SEARCH_MAX] or None


def _by_priority(
    rows: list[dict[str, Any]], after: tuple[float | None, float | None, str | None], now_us: int | None
) -> list[dict[str, Any]]:
    """The rows by priority, those after the cursor."""
    facts = [facts_of_row(row) for row in rows]
    currency, mean = mean_price_of(facts)
    for row, one in zip(rows, facts, strict=True):
        until_us = row["last_seen_us"] if now_us is None else now_us
        row["first_rank"] = round(float(of_finding(one, until_us, currency, mean)), 6)
    rows.sort(key=lambda row: (-row["first_rank"], -row["second_rank"], row["key"]))
    first, second, key = after
    if first is None or second is None or key is None:
        return rows
    place = (-first, -second, key)
    return [row for row in rows if (-row["first_rank"], -row["second_rank"], row["key"]) > place]


def _list(names: Collection[str] | None) -> list[str] | None:
    return None if names is None else list(names)


def _titled(known: Mapping[str, Rule], sought: str | None) -> list[str]:
    """The detectors with a title that matches the search."""
    return [] if sought is None else [name for name, rule in known.items() if sought in rule.title.lower()]


def write_cursor(first: float, second: float, name: str) -> str:
    """Where a page ended: the ranks of its last row, exactly, and its name."""
    return urlsafe_b64encode(json.dumps([first, second, name], separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(text: str) -> tuple[float, float, str]:
    """The place that write_cursor wrote down. Raises UsageError."""
    try:
        first, second, name = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        ranks = float(first), float(second)
        if not (isfinite(ranks[0]) and isfinite(ranks[1]) and str(name).encode()):
            raise ValueError("no place in a list")
        return *ranks, str(name)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError("cursor: not one that a page of this list gave; leave it out to begin again") from error


def _check_names(what: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"--{what} {name}: unknown; known: {', '.join(known)}")


def _words(
    store: Store,
    known: Mapping[str, Rule],
    actions: Mapping[str, Action],
    by_severity: bool,
    sought: str | None,
) -> pa.Table:
    """What SQL cannot compute for findings: states set by owners, and the severities and summaries of rules."""
    by_key: dict[str, dict[str, Any]] = {
        key: {"state": SHOWN_AS[a.action]} for key, a in actions.items() if a.action in SHOWN_AS
    }
    evaluated = [name for name, rule in known.items() if sought is not None or (by_severity and rule.severity)]
    for row in store.rows("findings/evidence", detectors=evaluated) if evaluated else ():
        rule = known[row["detector"]]
        if sought is not None and sought in summary(row["detector"], row["evidence"], row["rule_version"]).lower():
            by_key.setdefault(row["key"], {})["found"] = True
        if by_severity and rule.severity is not None:
            level = severity(row["detector"], row["evidence"], row["elapsed_us"])
            by_key.setdefault(row["key"], {})["severity"] = SEVERITY_ORDER.index(level)
    return pa.Table.from_pylist([{"key": key, **words} for key, words in by_key.items()], schema=_WORD)
