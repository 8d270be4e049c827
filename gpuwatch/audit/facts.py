"""The facts behind the scorecard, from the store: ledger, findings, placements, queues, MIG and topology."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.audit.losses import stranded_losses
from gpuwatch.billing import chargeback, records
from gpuwatch.capacity import queues
from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.repository import Actions
from gpuwatch.ledger.month import basis_of
from gpuwatch.ledger.totals import ledger_window
from gpuwatch.state import State
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import conflicts, missing

DEFAULT_US = 7 * DAY_US
"""The default window: the last week that is known."""
ROWS_MAX = 10_000
"""Rows of one kind: pools, authorities, kinds of gangs."""
SAVINGS = ("saving", "saving_per_hour", "saved_a_month")
"""Evidence names for what a remedy saves: in 30 days, per hour of use, in a month."""

WITHDRAWN = ("records changed", "rule_changed")
"""Reasons of findings that later records or another rule have replaced: they stand for nothing."""

Row = dict[str, Any]


def last_of(store: Store, span_us: int) -> Window | None:
    """The last `span_us` microseconds of the ledger, less where it is younger; None if it is empty."""
    known = ledger_window(store)
    return None if known is None else Window(max(known.start_us, known.end_us - span_us), known.end_us)


def read_facts(store: Store, state: State, window: Window | None, now_us: int) -> Row:
    """The facts of a window, for `scorecard.scorecard`. Prices and teams are those of the last pricing.

    Without a window, the last 7 days of the ledger; `window` is None in the result if the ledger is empty. Only whole
    hours count. Money is exact: Decimal or Fraction.
    """
    known = ledger_window(store)
    span = _within(window or last_of(store, DEFAULT_US), known)
    facts: Row = {"window": span, "known": known, "asked": window}
    if span is None:
        return facts
    scope = {"since_us": span.start_us, "until_us": span.end_us, "limit": ROWS_MAX}
    ledger = chargeback.ledger(store, state, span)
    facts |= {
        "buckets": _buckets(ledger),
        "measures": ledger.measures,
        "cost": ledger.cost if not ledger.unpriced_gpu_seconds else None,
        "currency": ledger.currency,
        "capacity_gpu_hours": Fraction(ledger.capacity_gpu_seconds) / 3600,
        "unpriced_gpu_hours": Fraction(ledger.unpriced_gpu_seconds) / 3600,
        "mean_price": ledger.mean_price,
        "basis": basis_of(store, span),
        "now_us": now_us,
        "findings": _findings(store, state, span, now_us, scope),
    }
    try:
        store.run("views/run_placer", cluster=None, **scope)
        store.run("audit/placed", **scope)
        for name in ("binder", "shared_pool", "gang", "mig", "topology", "fabric"):
            facts[name] = store.rows(f"audit/{name}", **scope)
    finally:
        store.run("audit/drop")
    facts["losses"] = stranded_losses(store, state, span, facts["findings"])
    facts["queues"] = [_queue(row) for row in queues.queues(store, state, span.end_us)]
    facts["conflicts"] = conflicts(store)
    facts["missing"] = missing(store)
    return facts


def _within(window: Window | None, known: Window | None) -> Window | None:
    """The whole hours of the window that the ledger has."""
    if window is None or known is None:
        return None
    start = max(-(-window.start_us // HOUR_US) * HOUR_US, known.start_us)
    end = min(window.end_us // HOUR_US * HOUR_US, known.end_us)
    return Window(start, end) if start < end else None


def _buckets(ledger: records.Ledger) -> dict[str, Row]:
    """GPU-hours and cost of each bucket; the cost is None where some of it has no rate, or currencies differ."""
    found: dict[str, Row] = {}
    for row in ledger.items:
        sums = found.setdefault(row.bucket, {"gpu_hours": Fraction(0), "cost": Decimal(0)})
        sums["gpu_hours"] += Fraction(row.gpu_seconds) / 3600
        lacks = row.cost is None and row.gpu_seconds
        sums["cost"] = None if lacks or sums["cost"] is None else sums["cost"] + (row.cost or 0)
    if ledger.currency is None:
        for sums in found.values():
            sums["cost"] = None
    return found


def _findings(store: Store, state: State, span: Window, now_us: int, scope: Mapping[str, Any]) -> list[Row]:
    """Findings that touch the window, with what they claimed of it: GPU-hours by bucket and exact money."""
    claims: dict[str, list[Row]] = defaultdict(list)
    store.run("views/finding_claim")
    for row in store.rows("audit/claimed", **scope):
        claims[row["key"]].append(row)
    rows = []
    owners = Actions(state)
    current = owners.current(now_us)
    let_be = owners.dismissed() | {key for key, one in current.items() if one.action == "exempt"}
    for found in findings_read.read(store, window=span, actions=current):
        if found.resolved_reason in WITHDRAWN:
            continue
        hours: dict[str, Fraction] = defaultdict(Fraction)
        costs: dict[str, Fraction] = defaultdict(Fraction)
        unpriced = Fraction(0)
        for row in claims.get(found.key, ()):
            part = Fraction(int(row["units"]), int(row["den"])) / HOUR_US
            hours[row["bucket"]] += part
            if row["usd_per_gpu_hour"] is None:
                unpriced += part
            else:
                costs[row["currency"]] += part * Fraction(row["usd_per_gpu_hour"])
        rows.append(
            {
                "key": found.key,
                "detector": found.detector,
                "title": found.title,
                "severity": found.severity,
                "confidence": found.confidence,
                "state": found.state,
                "let_be": found.key in let_be,
                "facts": findings_read.facts_of(found),
                "lost": findings_read.lost_of(found),
                "cluster": found.cluster,
                "subject": found.subject,
                "team": found.team,
                "user": found.user,
                "headline": found.headline,
                "summary": found.summary,
                "remedy": found.remedy,
                "hours": dict(hours),
                "costs": dict(costs),
                "unpriced_gpu_hours": unpriced,
                "saving": {name: found.evidence[name] for name in SAVINGS if found.evidence.get(name) is not None},
                "saving_hours": found.evidence.get("measured_hours"),
                "saving_currency": found.evidence.get("currency"),
            }
        )
    return rows


def _queue(row: Row) -> Row:
    """What the scorecard needs of a queue: whether it has a quota, and its preemption settings."""
    names = ("cluster", "scheduler", "kind", "name", "namespace", "parent", "state")
    limits = [row, *row["flavors"]]
    detail = row["detail"]
    return {name: row[name] for name in names} | {
        "has_quota": any(part["quota"] or part["quota_max"] for part in limits)
        or any(name.startswith("max_") for name in detail),
        "preemption": row["preemption"],
    }
