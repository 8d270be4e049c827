"""The avoidable GPU time of a fleet, and its buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.audit.figures import hours_text, money_text
from gpuwatch.core.money import CENT_PLACES
from gpuwatch.ledger.measures import AVOIDABLE, CLAIMABLE, Measure, Measures
from gpuwatch.ledger.month import Basis, total
from gpuwatch.output.listing import BUCKET_WORDS

CENT = Decimal(1).scaleb(-CENT_PLACES)
Parts = Mapping[str, Decimal | None]


def waste(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The avoidable measure of the ledger, and every bucket: the cents of its avoidable parts add up to it."""
    measures: Measures = facts["measures"]
    wasted, cost = measures.avoidable, _cost(measures.avoidable, facts["currency"])
    seconds = wasted.gpu_seconds
    lost, rest = _parts(facts, cost)
    monthly = None if cost is None else _a_month(lost, facts["basis"])
    return {
        "gpu_hours": None if seconds is None else hours_text(Fraction(seconds) / 3600),
        "cost": money_text(cost),
        "cost_a_month": money_text(monthly),
        "basis": _words(lost, facts["basis"], monthly is not None),
        "ratio": wasted.ratio,
        "measured_ratio": measures.measured_ratio,
        "roofline_efficiency": measures.roofline_efficiency,
        "explained_gpu_hours": hours_text(_explained(facts)),
        "buckets": [
            _bucket_row(name, facts["buckets"][name], lost, rest, measures)
            for name in BUCKET_WORDS
            if name in facts["buckets"]
        ],
    }


def _cost(measure: Measure, currency: str | None) -> Decimal | None:
    """Its cost; None where some of it has no rate."""
    return None if measure.unpriced_gpu_seconds else measure.cost_in(currency)


def _a_month(lost: Parts, basis: Basis) -> Fraction | None:
    """The sum of the avoidable parts as dollars a month; None where one is unknown, or too little was measured."""
    return total(None if cost is None else basis.a_month(Fraction(cost), bucket) for bucket, cost in lost.items())


def _words(lost: Parts, basis: Basis, projected: bool) -> str:
    """The time that the avoidable cost was counted in, where it is short; empty where its parts were counted in several."""
    kinds = {basis.words(bucket) for bucket, cost in lost.items() if cost}
    return (kinds.pop() if len(kinds) == 1 else basis.words() if projected else "") if kinds else ""


def _parts(facts: Mapping[str, Any], cost: Decimal | None) -> tuple[Parts, Parts]:
    """The cost of each bucket's avoidable part, and of the rest."""
    costs = {name: one["cost"] for name, one in facts["buckets"].items()}
    lost: dict[str, Decimal | None] = {name: costs[name] for name in AVOIDABLE if name in costs}
    rest: dict[str, Decimal | None] = {name: costs[name] for name in costs if name not in AVOIDABLE}
    claimed = _cost(facts["measures"].claimed, facts["currency"])
    if (below := rest.get(CLAIMABLE)) is not None and claimed is not None:
        lost[CLAIMABLE] = min(below, claimed)
        rest[CLAIMABLE] = below - min(below, claimed)
    whole = facts["cost"]
    return _settled(lost, cost), _settled(rest, None if whole is None or cost is None else whole - cost)


def _settled(costs: Parts, total: Decimal | None) -> Parts:
    """Adds the cents by which rounded costs differ from their total, one each to the largest."""
    settled = dict(costs)
    known = sorted((-cost, name) for name, cost in costs.items() if cost)
    if total is None or None in costs.values() or not known:
        return settled
    missing = total + sum(cost for cost, _ in known)
    for number in range(int(abs(missing) / CENT)):
        name = known[number % len(known)][1]
        settled[name] = (settled[name] or Decimal(0)) + (CENT if missing > 0 else -CENT)
    return settled


def _explained(facts: Mapping[str, Any]) -> Fraction:
    """The avoidable GPU-hours that findings claim."""
    claimed: Iterable[tuple[str, Fraction]] = (pair for one in facts["findings"] for pair in one["hours"].items())
    return sum((hours for bucket, hours in claimed if bucket in (*AVOIDABLE, CLAIMABLE)), Fraction(0))


def _bucket_row(name: str, bucket: Mapping[str, Any], lost: Parts, rest: Parts, measures: Measures) -> dict[str, Any]:
    costs = [part[name] for part in (lost, rest) if name in part]
    known = [cost for cost in costs if cost is not None]
    hours: Fraction = bucket["gpu_hours"] if name in AVOIDABLE else Fraction(0)
    if name == CLAIMABLE:
        hours = Fraction(measures.claimed.gpu_seconds or 0) / 3600
    return {
        "bucket": name,
        "waste": name in AVOIDABLE,
        "gpu_hours": hours_text(bucket["gpu_hours"]),
        "cost": money_text(sum(known, Decimal(0)) if known and len(known) == len(costs) else None),
        "avoidable_gpu_hours": hours_text(hours),
        "avoidable_cost": money_text(lost.get(name, Decimal(0))),
    }
