"""The findings inbox: how many findings are in each state, and the causes of those in one state, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import Facts, Rate, cost_a_day, facts_of_row, lost_work, mean_price_of
from gpuwatch.findings.ranking import Part, part, ranked, score
from gpuwatch.findings.repository import BULK_MAX
from gpuwatch.findings.selection import Filters, counts
from gpuwatch.findings.selection import ranked as rows_of
from gpuwatch.findings.so_far import so_far
from gpuwatch.findings.texts import SEVERITY_ORDER, rule_of
from gpuwatch.store.database import Store

CAUSES_MAX = 200
"""Causes in an answer; `causes_total` counts all."""

Cause = tuple[str, str, str]
"""Rule, cluster and team: findings that share all three have one cause."""


_Part = Part[tuple[Cause, Facts]]


def summary(store: Store, filters: Filters, states: Sequence[str], now_us: int) -> dict[str, Any]:
    """The counts of all states, and the causes of the findings in `states`. `filters` has no states."""
    rows, _ = rows_of(store, replace(filters, states=states), sort="priority", now_us=now_us)
    facts = [facts_of_row(row) for row in rows]
    currency, mean = mean_price_of(facts)
    found: list[_Part] = []
    for row, one in zip(rows, facts, strict=True):
        rate, saves = cost_a_day(one, now_us, currency)
        cause = (row["detector"], row["cluster"], row["team"])
        found.append(part((cause, one), row["key"], one, rate, saves, mean))
    causes = ranked(found, lambda one: one.finding[0])
    waste = sum((one.rate for one in found if _is_waste(one)), Rate())
    return {
        "states": counts(store, filters),
        "total": _amounts(waste, currency)
        | so_far((one.finding[1] for one in found if _is_waste(one)), now_us, currency),
        "causes": [_cause(parts, now_us, currency) for _, parts in causes[:CAUSES_MAX]],
        "causes_total": len(causes),
    }


def _is_waste(one: _Part) -> bool:
    """Whether the total counts it: neither savings nor lost work, whose time other findings may claim."""
    facts = one.finding[1]
    return not one.saves and lost_work(facts.bucket, facts.evidence) is None


def _cause(parts: Sequence[_Part], now_us: int, currency: str | None) -> Mapping[str, Any]:
    """A cause with its findings, the most urgent first. Costs a day are of findings in `currency` only."""
    detector, cluster, team = parts[0].finding[0]
    facts = [one.finding[1] for one in parts]
    rule = rule_of(detector)
    whole = score(parts)
    certain = sum((one.score * Fraction(str(one.finding[1].confidence)) for one in parts), Fraction(0))
    return {
        "detector": detector,
        "title": detector if rule is None else rule.title,
        "cluster": cluster,
        "team": team,
        "severity": max((one.severity for one in facts), key=SEVERITY_ORDER.index),
        "findings": len(parts),
        "keys": [one.key for one in parts[:BULK_MAX]],
        **_amounts(sum((one.rate for one in parts), Rate()), currency),
        **so_far(facts, now_us, currency),
        "saves": any(one.saves for one in parts),
        "at_risk_gpu_hours_a_day": format_quantity(sum((one.at_risk_hours for one in parts), Fraction(0)), 1),
        "certainty": float(certain / whole) if whole else max(one.confidence for one in facts),
        "since": rfc3339(min(one.started_us for one in facts)),
    }


def _amounts(rate: Rate, currency: str | None) -> dict[str, Any]:
    return {
        "cost_a_day": None if rate.cost is None else format_quantity(rate.cost, CENT_PLACES),
        "gpu_hours_a_day": format_quantity(rate.hours, 1),
        "currency": None if rate.cost is None else currency,
    }
