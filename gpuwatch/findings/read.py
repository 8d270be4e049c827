"""Findings as the API returns them: detector rows with texts, owners and costs."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from math import isfinite
from typing import Any, Protocol

import pyarrow as pa

from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings import custom_rules
from gpuwatch.findings.presets import preset_in, thresholds_in
from gpuwatch.rules.rule import Rule, rules
from gpuwatch.store.database import Store

SEVERITIES = ((Fraction(10), "info"), (Fraction(100), "low"), (Fraction(1000), "medium"))
"""Upper limits of the cost per day for each severity; above the last it is high (domain.md section 3)."""
UNPRICED_SEVERITY = "low"
ELAPSED_US_MIN = HOUR_US
"""A shorter waste counts as an hour's: a minute at $100 is not $144,000 a day."""


@dataclass(frozen=True)
class Finding:
    """A finding of contract.md section 4. Times are RFC 3339; amounts are decimal text, None where unknown."""

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
SEVERITY_ORDER = ("info", "low", "medium", "high", "critical")
SORTS = ("cost", "started", "severity")
"""Most expensive, newest or most severe first."""
SEARCH_MAX = 200
"""Characters of a search."""
OLD_WORDS = (KeyError, TypeError, ValueError)
"""Raised by a rule that reads evidence of its earlier versions; one old row must not hide the others."""
ALL = 2**31
"""More findings than a store has."""
WORDS_KEPT = 20_000
"""Summaries cached between searches."""

_WORD = pa.schema([("key", pa.string()), ("state", pa.string()), ("severity", pa.int32()), ("found", pa.bool_())])


class OwnerAction(Protocol):
    """An owner's action on a finding that is still in force (findings.repository.Action)."""

    @property
    def action(self) -> str:
        """ack, snooze or exempt."""

    @property
    def until_us(self) -> int | None:
        """When it ends; None: until another action replaces it."""


@dataclass(frozen=True)
class Page:
    """A page of findings and the cursor of the next one, None at the end."""

    items: list[Finding]
    next: str | None


@dataclass(frozen=True)
class _Price:
    """The cost of a finding's time; None if a part has no rate, or if currencies differ."""

    cost: Fraction | None
    currency: str | None
    missing: str | None = None
    claimed: Mapping[str, Fraction] = field(default_factory=dict)
    """GPU-seconds by bucket."""


def read(
    store: Store,
    *,
    open_only: bool = False,
    detectors: Sequence[str] = (),
    team: str | None = None,
    teams: Collection[str] | None = None,
    window: Window | None = None,
    actions: Mapping[str, OwnerAction] | None = None,
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
    actions: Mapping[str, OwnerAction] | None = None,
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
    actions: Mapping[str, OwnerAction] | None = None,
) -> Page:
    """Findings in the order of `sort`, at most `limit`, starting after `cursor`.

    Empty filters match everything; `pool` keeps findings with a device in it; `teams` None means all teams, [] none. `window`
    keeps findings whose time [started, ended) overlaps it; an open one has no end. `q` is searched in title, summary, key, subject, user, team or node,
    ignoring case. `actions` are those in force by finding key: they change the state that is shown and filtered. Prices
    and teams are those of the last pricing (cost.price). Raises UsageError for an unknown name or a broken cursor.
    """
    known = {**_known(), **custom_rules.known()}
    _check_names("detector", detectors, known)
    _check_names("state", states, STATES)
    _check_names("severity", severities, SEVERITY_ORDER)
    _check_names("sort", [sort], SORTS)
    sought = None if q is None or not q.strip() else q.strip().lower()[:SEARCH_MAX]
    after = None if cursor is None else read_cursor(cursor)
    limit = None if limit is None else max(limit, 1)
    by_severity = bool(severities) or sort == "severity"
    with store.view("finding_word", _words(store, known, actions or {}, by_severity, sought)):
        rows = store.rows(
            "findings/rank",
            open_only=open_only,
            states=list(states) or None,
            detectors=list(detectors) or None,
            severities=[SEVERITY_ORDER.index(name) for name in severities] or None,
            severity_limits=[float(limit) for limit, _ in SEVERITIES],
            unpriced_severity=SEVERITY_ORDER.index(UNPRICED_SEVERITY),
            teams=None if teams is None else list(teams),
            cluster=cluster,
            pool=pool,
            job=job,
            keys=None if keys is None else list(keys),
            start_us=None if window is None else window.start_us,
            end_us=None if window is None else window.end_us,
            q=sought,
            titled=[name for name, rule in known.items() if sought is not None and sought in rule.title.lower()],
            by_cost=sort != "started" or by_severity,
            sort=sort,
            elapsed_us_min=ELAPSED_US_MIN,
            after_first=None if after is None else after[0],
            after_second=None if after is None else after[1],
            after_key=None if after is None else after[2],
            limit=ALL if limit is None else limit + 1,
        )
    more = limit is not None and len(rows) > limit
    rows = rows[:limit]
    following = write_cursor(rows[-1]["first_rank"], rows[-1]["second_rank"], rows[-1]["key"]) if more else None
    return Page(_with_texts(store, rows), following)


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
    actions: Mapping[str, OwnerAction],
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
        if sought is not None and sought in _summary(row["detector"], row["evidence"], row["rule_version"]).lower():
            by_key.setdefault(row["key"], {})["found"] = True
        if by_severity and rule.severity is not None:
            severity = _severity(row["detector"], row["evidence"], row["elapsed_us"], None)
            by_key.setdefault(row["key"], {})["severity"] = SEVERITY_ORDER.index(severity)
    return pa.Table.from_pylist([{"key": key, **words} for key, words in by_key.items()], schema=_WORD)


def _with_texts(store: Store, rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """The findings of ranked rows, in the same order, with texts and exact costs."""
    if not rows:
        return []
    keys = [row["key"] for row in rows]
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in store.rows("findings/price", keys=keys):
        spans[span["key"]].append(span)
    by_key = {row["key"]: row for row in store.rows("findings/finding", keys=keys)}
    old = [key for key, row in by_key.items() if row["wasted_units"] != "0" and key not in spans]
    prices = store.rows("findings/mean_price", keys=old) if old else []
    for key in old:
        spans[key] = _spread(by_key[key], [price for price in prices if price["key"] == key])
    return [
        _finding(by_key[row["key"]] | {"state": row["state"]}, _price(spans[row["key"]]))
        for row in rows
        if row["key"] in by_key
    ]


def severity_of(cost: Fraction | None, elapsed_us: int) -> str:
    """Severity by cost per day, over at least an hour; UNPRICED_SEVERITY without a price."""
    return _by_money(None if cost is None else cost * DAY_US / max(elapsed_us, ELAPSED_US_MIN))


def _by_money(a_day: Fraction | None) -> str:
    if a_day is None:
        return UNPRICED_SEVERITY
    return next((name for limit, name in SEVERITIES if a_day < limit), "high")


def _severity(detector: str, evidence: str | None, elapsed_us: int, a_day: Fraction | None) -> str:
    """The rule's own severity, or one by cost per day if the rule has none."""
    rule = _rule(detector)
    if rule is None or rule.severity is None:
        return _by_money(a_day)
    try:
        return rule.severity(json.loads(evidence or "{}"), elapsed_us / HOUR_US)
    except OLD_WORDS:
        return _by_money(a_day)


@cache
def _known() -> dict[str, Rule]:
    return rules()


def _rule(detector: str) -> Rule | None:
    """The rule of a finding; None if this version no longer has it. Cached, because discovering modules is slow."""
    return _known().get(detector) or custom_rules.known().get(detector)


@lru_cache(maxsize=WORDS_KEPT)
def _summary(detector: str, evidence: str | None, version: str) -> str:
    rule = _rule(detector)
    if rule is None:
        return ""
    try:
        return rule.summary({**json.loads(evidence or "{}"), "thresholds": thresholds_in(version)})
    except OLD_WORDS:
        return f"{rule.title}."


def _remedy(rule: Rule | None, evidence: Mapping[str, Any]) -> str:
    if rule is None:
        return ""
    try:
        return rule.remedy(evidence)
    except OLD_WORDS:
        return rule.why


def _spread(finding: dict[str, Any], prices: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The waste of a finding without stored claims, spread over the prices of its devices, as in finding_amount."""
    total = sum(int(p["overlap_us"]) for p in prices)
    if not total:
        return [{"bucket": finding["bucket"], "model": None, "usd_per_gpu_hour": None, "units": "0", "den": 1}]
    units, den = int(finding["wasted_units"]), finding["wasted_den"] * total
    return [p | {"bucket": finding["bucket"], "units": units * int(p["overlap_us"]), "den": den} for p in prices]


def _price(parts: Sequence[dict[str, Any]]) -> _Price:
    claimed: dict[str, Fraction] = defaultdict(Fraction)
    cost = Fraction(0)
    for part in parts:
        gpu_us = Fraction(int(part["units"]), int(part["den"]))
        claimed[part["bucket"]] += gpu_us / SECOND_US
        cost += Fraction(part["usd_per_gpu_hour"] or 0) * gpu_us / HOUR_US
    lacking = sorted({p["model"] or "unknown model" for p in parts if p["usd_per_gpu_hour"] is None})
    if lacking:
        return _Price(None, None, f"no rate for {', '.join(lacking)}: add a line to rates.csv", claimed)
    currencies = sorted({p["currency"] for p in parts})
    if len(currencies) > 1:
        return _Price(None, None, f"prices in {' and '.join(currencies)} do not add up", claimed)
    return _Price(cost, currencies[0] if currencies else None, None, claimed)


def _finding(row: dict[str, Any], price: _Price) -> Finding:
    rule = _rule(row["detector"])
    stored = json.loads(row["evidence"] or "{}")
    seconds = Fraction(int(row["wasted_units"]), row["wasted_den"] * SECOND_US)
    cost = price.cost
    elapsed_us = row["last_seen_us"] - row["started_us"]
    a_day = None if cost is None else cost * DAY_US / max(elapsed_us, ELAPSED_US_MIN)
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
        severity=row["severity"] or _severity(row["detector"], row["evidence"], elapsed_us, a_day),
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
        bucket=row["bucket"],
        summary=_summary(row["detector"], row["evidence"], row["rule_version"]),
        remedy=_remedy(rule, evidence),
        evidence=evidence,
        devices=list(row["devices"] or []),
        nodes=list(row["nodes"] or []),
        suppressed_by=None,
        resolved_reason=row["resolved_reason"],
    )
