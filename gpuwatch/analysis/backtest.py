"""Back-tests: the findings a rule would have had in a past window, compared with today's. Nothing is stored."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from gpuwatch.analysis.pipeline import parameters as site_parameters
from gpuwatch.analysis.rules_listing import feedback_of
from gpuwatch.core.clock import DAY_US, HOUR_US, Window, rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.custom_rules import bounded
from gpuwatch.findings.dry_run import dry_run
from gpuwatch.findings.effective_thresholds import in_force, sets_of
from gpuwatch.findings.presets import thresholds_in
from gpuwatch.findings.repository import Actions, Feedback
from gpuwatch.findings.threshold_overrides import ALL, Layer, layers
from gpuwatch.policy.known_names import cluster_names
from gpuwatch.policy.ownership import PLATFORM, UNALLOCATED
from gpuwatch.rules.rule import Rule
from gpuwatch.settings import Settings
from gpuwatch.state import State
from gpuwatch.store.database import Store

WINDOW_US_MAX = 31 * DAY_US
"""The longest window of one back-test."""
ITEMS_MAX = 1000
"""Findings listed in an answer, most expensive first; the totals include all."""
NEW, GONE, SAME = "new", "gone", "same"


@dataclass(frozen=True)
class Flagged:
    """A finding that the rule would have made. GPU-hours and money are exact; money is None where it is not known."""

    key: str
    change: str
    """new: today's rule does not report it; gone: only today's rule does; same: both do, possibly for other hours."""
    cluster: str
    subject: Mapping[str, str | None]
    team: str
    started_us: int
    ended_us: int | None
    confidence: float
    gpu_hours: Fraction
    cost: Fraction | None
    currency: str | None
    summary: str
    verdict: str | None
    """The rating its owner gave, if any."""


@dataclass(frozen=True)
class Backtest:
    """The findings of a rule with given thresholds in a window."""

    rule: Rule
    window: Window
    thresholds: Mapping[str, Any] | None
    """The tested ones, without overrides of pools and teams; None: switched off."""
    preset: str
    today: Mapping[str, Any] | None
    flagged: Sequence[Flagged] = field(default_factory=list)
    """new and same, then gone; most expensive first."""


def backtest(
    store: Store,
    state: State,
    settings: Settings,
    rule: Rule,
    window: Window,
    now_us: int,
    *,
    preset: str | None = None,
    thresholds: Mapping[str, float] | None = None,
    cluster: str | None = None,
    teams: Collection[str] | None = None,
) -> Backtest:
    """Runs a rule over whole hours of a window with a preset and thresholds, and with today's configuration.

    If either is given, threshold overrides are ignored: all teams are evaluated alike. With neither, today's rule is tested.
    `teams` keeps findings of these teams only. Raises UsageError for a window that is too long or an unknown cluster.
    """
    start_us, end_us = window.start_us // HOUR_US * HOUR_US, -(-window.end_us // HOUR_US) * HOUR_US
    if end_us - start_us > WINDOW_US_MAX:
        raise UsageError(f"window: {(end_us - start_us) / DAY_US:.1f} days; a back-test covers 31 at most")
    base = site_parameters(rule, settings)
    in_card = layers(state)
    asked = preset is not None or bool(thresholds)
    tried = (_layer(rule, preset, thresholds or {}),) if asked else in_card
    verdicts = Actions(state).verdicts()
    found: list[Flagged] = []
    for name in _clusters(store, cluster):
        span = start_us, end_us
        with store.workspace() as work, bounded(work, rule):
            then = _findings_of(work, state, settings, rule, name, tried, base, span, now_us)
            now = _findings_of(work, state, settings, rule, name, in_card, base, span, now_us) if asked else then
        found += _changes(then, now, verdicts)
    if teams is not None:
        found = [row for row in found if row.team in teams]
    found.sort(key=lambda f: (f.change == GONE, -(f.cost if f.cost is not None else -1), -f.gpu_hours, f.key))
    then_all, today = in_force(tried, rule.id, base), in_force(in_card, rule.id, base)
    return Backtest(rule, Window(start_us, end_us), then_all.parameters, then_all.preset, today.parameters, found)


def _clusters(store: Store, wanted: str | None) -> list[str]:
    known = sorted(cluster_names(store))
    if wanted is None:
        return known
    if wanted not in known:
        raise UsageError(f"cluster {wanted}: not known; known: {', '.join(known) or 'none'}")
    return [wanted]


def _changes(then: Mapping[str, Flagged], now: Mapping[str, Flagged], verdicts: Mapping[str, str]) -> list[Flagged]:
    """The findings of a tried configuration, and those of today's that it no longer has, with their owners' ratings."""
    rows = [(SAME if row.key in now else NEW, row) for row in then.values()]
    rows += [(GONE, row) for key, row in now.items() if key not in then]
    return [replace(row, change=change, verdict=verdicts.get(row.key)) for change, row in rows]


def as_dict(tested: Backtest) -> dict[str, Any]:
    """A back-test as JSON has it."""
    by_change: dict[str, list[Flagged]] = {NEW: [], GONE: [], SAME: []}
    by_team: dict[str, list[Flagged]] = defaultdict(list)
    for one in tested.flagged:
        by_change[one.change].append(one)
        by_team[one.team].append(one)
    flagged = [f for f in tested.flagged if f.change != GONE]
    today = by_change[SAME] + by_change[GONE]
    teams = [
        {"team": team, **_sums([f for f in rows if f.change != GONE]), "gone": sum(f.change == GONE for f in rows)}
        for team, rows in by_team.items()
    ]
    return {
        "detector": tested.rule.id,
        "window": {"start": rfc3339(tested.window.start_us), "end": rfc3339(tested.window.end_us)},
        "preset": tested.preset,
        "thresholds": tested.thresholds,
        "today_thresholds": tested.today,
        "items": [_item(f) for f in tested.flagged[:ITEMS_MAX]],
        "left_out": max(0, len(tested.flagged) - ITEMS_MAX),
        "teams": sorted(teams, key=lambda t: (-float(t["gpu_hours"]), t["team"])),
        "changes": {change: len(rows) for change, rows in by_change.items()},
        "total": _sums(flagged),
        "today": _sums(today),
        "feedback": _feedback(flagged),
        "today_feedback": _feedback(today),
    }


def _layer(rule: Rule, preset: str | None, thresholds: Mapping[str, float]) -> Layer:
    given = tuple((rule.id, name, value) for name, value in sorted(thresholds.items()))
    return Layer(ALL, preset=preset, thresholds=given)


def _findings_of(
    store: Store,
    state: State,
    settings: Settings,
    rule: Rule,
    cluster: str,
    found: Sequence[Layer],
    base: Mapping[str, Any],
    span: tuple[int, int],
    now_us: int,
) -> dict[str, Flagged]:
    """The findings of a rule in one cluster with the given layers, by key."""
    sets = sets_of(store, cluster, found, rule, base)
    run = dry_run(store, state, cluster, settings, rule, sets, span, now_us)
    parts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for part in run.amounts:
        parts[part["key"]].append(part)
    asked = sorted({row["run_id"] for row in run.findings if row["run_id"] is not None})
    teams = dict(
        store.sql("select run_id, team from run_team where list_contains($runs::bigint[], run_id)", runs=asked)
    )
    flagged = (_flagged(row, parts[row["key"]], teams, rule) for row in run.findings)
    return {one.key: one for one in flagged}


def _flagged(
    row: Mapping[str, Any], parts: Sequence[Mapping[str, Any]], teams: Mapping[int, str], rule: Rule
) -> Flagged:
    gpu_us = sum((Fraction(int(p["units"]), int(p["den"])) for p in parts), Fraction(0))
    currencies = {p["currency"] for p in parts}
    cost = None
    if parts and len(currencies) == 1 and all(p["usd_per_gpu_hour"] is not None for p in parts):
        cost = sum(
            (Fraction(int(p["units"]), int(p["den"])) * Fraction(p["usd_per_gpu_hour"]) for p in parts), Fraction(0)
        )
    run_id = row["run_id"]
    return Flagged(
        key=row["key"],
        change=SAME,
        cluster=row["cluster"],
        subject={"kind": row["subject_kind"], "id": row["subject_id"], "name": row["subject_name"]},
        team=row["team"] or (PLATFORM if run_id is None else teams.get(run_id, UNALLOCATED)),
        started_us=row["started_us"],
        ended_us=row["ended_us"],
        confidence=row["confidence"],
        gpu_hours=gpu_us / HOUR_US,
        cost=None if cost is None else cost / HOUR_US,
        currency=next(iter(currencies)) if len(currencies) == 1 else None,
        summary=rule.summary({**json.loads(row["evidence"] or "{}"), "thresholds": thresholds_in(row["rule_version"])}),
        verdict=None,
    )


def _item(f: Flagged) -> dict[str, Any]:
    return {
        "key": f.key,
        "change": f.change,
        "cluster": f.cluster,
        "subject": dict(f.subject),
        "team": f.team,
        "started_at": rfc3339(f.started_us),
        "ended_at": None if f.ended_us is None else rfc3339(f.ended_us),
        "confidence": f.confidence,
        "gpu_hours": format_quantity(f.gpu_hours),
        "cost": None if f.cost is None else format_quantity(f.cost, CENT_PLACES),
        "currency": f.currency,
        "summary": f.summary,
        "verdict": f.verdict,
    }


def _sums(rows: Sequence[Flagged]) -> dict[str, Any]:
    """Sums of findings: money by currency, and how many have no price."""
    by_currency: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows:
        if row.cost is not None and row.currency is not None:
            by_currency[row.currency] += row.cost
    return {
        "findings": len(rows),
        "gpu_hours": format_quantity(sum((row.gpu_hours for row in rows), Fraction(0))),
        "cost": [{"amount": format_quantity(a, CENT_PLACES), "currency": c} for c, a in sorted(by_currency.items())],
        "unpriced": sum(1 for row in rows if row.cost is None and row.gpu_hours),
    }


def _feedback(rows: Sequence[Flagged]) -> dict[str, Any]:
    true = sum(1 for row in rows if row.verdict == "true_positive")
    false = sum(1 for row in rows if row.verdict == "false_positive")
    return {**feedback_of(Feedback(true, false)), "unsaid": len(rows) - true - false}
