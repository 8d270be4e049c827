"""Findings as the API returns them: detector rows with texts, owners and costs."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import SECOND_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings import custom_rules
from gpuwatch.findings.presets import preset_in, thresholds_in
from gpuwatch.findings.prices import Price, main_bucket, prices_of
from gpuwatch.findings.repository import Action
from gpuwatch.findings.texts import (
    ELAPSED_US_MIN,
    SEVERITIES,
    SEVERITY_ORDER,
    UNPRICED_SEVERITY,
    built_in,
    remedy,
    rule_of,
    severity,
    summary,
)
from gpuwatch.rules.rule import Rule
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Finding:
    """Waste that a detector found, as the API returns it. Times are RFC 3339; amounts are decimal text, None where unknown."""

    key: str
    detector: str
    title: str
    severity: str
    state: str
    confidence: float
    cluster: str
    subject: dict[str, str | None]
    team: str
    user: str | None
    started_at: str
    ended_at: str | None
    last_seen_at: str
    wasted_gpu_seconds: str
    wasted_cost: str | None
    currency: str | None
    bucket: str | None
    summary: str
    remedy: str
    evidence: dict[str, Any]
    devices: list[str]
    nodes: list[str]
    suppressed_by: str | None
    resolved_reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return asdict(self)


FIELDS = tuple(Finding.__dataclass_fields__)
STATES = ("open", "resolved", "acked", "snoozed", "exempt")
SHOWN_AS = {"ack": "acked", "snooze": "snoozed", "exempt": "exempt"}
"""The state of an open finding while an action of its owner is in force."""
SORTS = ("cost", "started", "severity")
"""Most expensive, newest or most severe first."""
SEARCH_MAX = 200
"""Characters of a search."""
EVER = Window(-(2**62), 2**62)
ALL = 2**31
"""More findings than a store has."""

_WORD = pa.schema([("key", pa.string()), ("state", pa.string()), ("severity", pa.int32()), ("found", pa.bool_())])


@dataclass(frozen=True)
class Page:
    """A page of findings and the cursor of the next one, None at the end."""

    items: list[Finding]
    next: str | None


def read(
    store: Store,
    *,
    open_only: bool = False,
    detectors: Sequence[str] = (),
    team: str | None = None,
    teams: Collection[str] | None = None,
    window: Window | None = None,
    actions: Mapping[str, Action] | None = None,
    **filters: Any,
) -> list[Finding]:
    """All findings that match, most expensive first: `page` without a limit. `team` is short for `teams=[team]`.

    `open_only` leaves the resolved ones out and keeps those that their owners acknowledged, snoozed or exempted.
    """
    if team is not None:
        teams = [team] if teams is None or team in teams else []
    wanted = {"detectors": detectors, "teams": teams, "window": window, "actions": actions, **filters}
    return page(store, open_only=open_only, **wanted).items


def read_one(
    store: Store,
    key: str,
    teams: Collection[str] | None = None,
    actions: Mapping[str, Action] | None = None,
) -> Finding | None:
    """The finding with this key; None if it does not exist or belongs to another team."""
    return next(iter(page(store, keys=[key], teams=teams, actions=actions).items), None)


def page(
    store: Store,
    *,
    open_only: bool = False,
    states: Collection[str] = (),
    detectors: Collection[str] = (),
    severities: Collection[str] = (),
    teams: Collection[str] | None = None,
    cluster: str | None = None,
    pool: str | None = None,
    job: str | None = None,
    keys: Collection[str] | None = None,
    window: Window | None = None,
    q: str | None = None,
    sort: str = "cost",
    limit: int | None = None,
    cursor: str | None = None,
    actions: Mapping[str, Action] | None = None,
) -> Page:
    """Findings in the order of `sort`, at most `limit`, starting after `cursor`.

    Empty filters match everything; `pool` keeps findings with a device in it; `teams` None means all teams, [] none. `window`
    keeps findings whose time [started, ended) overlaps it; an open one has no end. `q` is searched in title, summary, key, subject, user, team or node,
    ignoring case. `actions` are those in force by finding key: they change the state that is shown and filtered. Prices
    and teams are those of the last pricing. Raises UsageError for an unknown name or a broken cursor.
    """
    known = {**built_in(), **custom_rules.known()}
    checked = ("detector", detectors, known), ("state", states, STATES), ("severity", severities, SEVERITY_ORDER)
    for what, names, valid in (*checked, ("sort", [sort], SORTS)):
        _check_names(what, names, valid)
    sought = (q or "").strip().lower()[:SEARCH_MAX] or None
    after_first, after_second, after_key = (None, None, None) if cursor is None else read_cursor(cursor)
    most = max(ALL if limit is None else limit, 1)
    by_severity = bool(severities) or sort == "severity"
    with store.view("finding_word", _words(store, known, actions or {}, by_severity, sought)):
        rows = store.rows(
            "findings/rank",
            open_only=open_only,
            states=list(states),
            detectors=list(detectors),
            severities=[SEVERITY_ORDER.index(name) for name in severities],
            severity_limits=[float(limit) for limit, _ in SEVERITIES],
            unpriced_severity=SEVERITY_ORDER.index(UNPRICED_SEVERITY),
            teams=_list(teams),
            cluster=cluster,
            pool=pool,
            job=job,
            keys=_list(keys),
            start_us=(window or EVER).start_us,
            end_us=(window or EVER).end_us,
            q=sought,
            titled=_titled(known, sought),
            by_cost=sort != "started" or by_severity,
            sort=sort,
            elapsed_us_min=ELAPSED_US_MIN,
            after_first=after_first,
            after_second=after_second,
            after_key=after_key,
            limit=most + 1,
        )
    shown, following = rows[:most], None
    if len(rows) > most:
        following = write_cursor(*(shown[-1][name] for name in ("first_rank", "second_rank", "key")))
    return Page(_with_texts(store, shown), following)


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


def _with_texts(store: Store, rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """The findings of ranked rows, in the same order, with texts and exact costs."""
    if not rows:
        return []
    by_key = {row["key"]: row for row in store.rows("findings/finding", keys=[row["key"] for row in rows])}
    prices = prices_of(store, by_key)
    return [
        _finding(by_key[row["key"]] | {"state": row["state"]}, prices[row["key"]])
        for row in rows
        if row["key"] in by_key
    ]


def _finding(row: dict[str, Any], price: Price) -> Finding:
    rule = rule_of(row["detector"])
    stored = json.loads(row["evidence"] or "{}")
    seconds = Fraction(int(row["wasted_units"]), row["wasted_den"] * SECOND_US)
    cost = price.cost
    elapsed_us = row["last_seen_us"] - row["started_us"]
    evidence = {
        **stored,
        "thresholds": thresholds_in(row["rule_version"]),
        "preset": preset_in(row["rule_version"]),
        "window": {"start": rfc3339(row["started_us"]), "end": rfc3339(row["last_seen_us"])},
    }
    if price.claimed:
        evidence["claimed_gpu_seconds"] = {bucket: format_quantity(s) for bucket, s in sorted(price.claimed.items())}
    if price.missing:
        evidence["price"] = price.missing
    return Finding(
        key=row["key"],
        detector=row["detector"],
        title=row["detector"] if rule is None else rule.title,
        severity=row["severity"] or severity(row["detector"], row["evidence"], elapsed_us, cost),
        state=row["state"],
        confidence=row["confidence"],
        cluster=row["cluster"],
        subject={"kind": row["subject_kind"], "id": row["subject_id"], "name": row["name"]},
        team=row["team"],
        user=row["user_name"],
        started_at=rfc3339(row["started_us"]),
        ended_at=None if row["ended_us"] is None else rfc3339(row["ended_us"]),
        last_seen_at=rfc3339(row["last_seen_us"]),
        wasted_gpu_seconds=format_quantity(seconds),
        wasted_cost=None if cost is None else format_quantity(cost, CENT_PLACES),
        currency=price.currency,
        bucket=main_bucket(row["bucket"], price.claimed),
        summary=summary(row["detector"], row["evidence"], row["rule_version"]),
        remedy=remedy(rule, evidence | {"job_ended": row["job_ended"], "is_serving": row["is_serving"]}),
        evidence=evidence,
        devices=list(row["devices"] or []),
        nodes=list(row["nodes"] or []),
        suppressed_by=None,
        resolved_reason=row["resolved_reason"],
    )
