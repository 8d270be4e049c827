"""The findings inbox: how many findings are in each state, and the causes of those in one state, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import Facts, Rate, at_risk_hours, cost_a_day, facts_of_row, mean_price_of, of_rate
from gpuwatch.findings.repository import BULK_MAX
from gpuwatch.findings.selection import Filters, counts, ranked
from gpuwatch.findings.texts import SEVERITY_ORDER, rule_of
from gpuwatch.store.database import Store

CAUSES_MAX = 200
"""Causes in an answer; `causes_total` counts all."""

Cause = tuple[str, str, str]
"""Rule, cluster and team: findings that share all three have one cause."""


@dataclass(frozen=True)
class _Part:
    key: str
    facts: Facts
    rate: Rate
    saves: bool
    at_risk_hours: Fraction
    score: Fraction


def summary(store: Store, filters: Filters, states: Sequence[str], now_us: int) -> dict[str, Any]:
    """The counts of all states, and the causes of the findings in `states`. `filters` has no states."""
    rows, _ = ranked(store, replace(filters, states=states), sort="priority", now_us=now_us)
    facts = [facts_of_row(row) for row in rows]
    currency, mean = mean_price_of(facts)
    groups: dict[Cause, list[_Part]] = {}
    for row, one in zip(rows, facts, strict=True):
        rate, saves = cost_a_day(one, now_us, currency)
        risk_hours = at_risk_hours(one, rate, saves)
        part = _Part(row["key"], one, rate, saves, risk_hours, of_rate(one, rate, risk_hours, mean))
        groups.setdefault((row["detector"], row["cluster"], row["team"]), []).append(part)
    scored = sorted(groups.items(), key=lambda item: -sum(part.score for part in item[1]))
    waste = sum((part.rate for parts in groups.values() for part in parts if not part.saves), Rate())
    return {
        "states": counts(store, filters),
        "total": _amounts(waste, currency),
        "causes": [_cause(cause, parts, currency) for cause, parts in scored[:CAUSES_MAX]],
        "causes_total": len(scored),
    }


def _cause(cause: Cause, parts: Sequence[_Part], currency: str | None) -> Mapping[str, Any]:
    """A cause with its findings, the most urgent first. Costs a day are of findings in `currency` only."""
    detector, cluster, team = cause
    rule = rule_of(detector)
    score = sum((part.score for part in parts), Fraction(0))
    certain = sum((part.score * Fraction(str(part.facts.confidence)) for part in parts), Fraction(0))
    return {
        "detector": detector,
        "title": detector if rule is None else rule.title,
        "cluster": cluster,
        "team": team,
        "severity": max((part.facts.severity for part in parts), key=SEVERITY_ORDER.index),
        "findings": len(parts),
        "keys": [part.key for part in parts[:BULK_MAX]],
        **_amounts(sum((part.rate for part in parts), Rate()), currency),
        "saves": any(part.saves for part in parts),
        "at_risk_gpu_hours_a_day": format_quantity(sum((part.at_risk_hours for part in parts), Fraction(0)), 1),
        "certainty": float(certain / score) if score else max(part.facts.confidence for part in parts),
        "since": rfc3339(min(part.facts.started_us for part in parts)),
    }


def _amounts(rate: Rate, currency: str | None) -> dict[str, Any]:
    return {
        "cost_a_day": None if rate.cost is None else format_quantity(rate.cost, CENT_PLACES),
        "gpu_hours_a_day": format_quantity(rate.hours, 1),
        "currency": None if rate.cost is None else currency,
    }
