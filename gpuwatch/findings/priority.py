"""How urgent a finding is: severity times cost a day times certainty. Lists of findings rank by it. Pure.

Time without a price counts at the mean price; without any price, GPU-hours a day count instead of money.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import DAY_US
from gpuwatch.findings.texts import OLD_EVIDENCE, SEVERITY_ORDER, is_waste

SEVERITY_WEIGHT: dict[str, int] = {name: 2**place for place, name in enumerate(SEVERITY_ORDER)}
"""A step of severity counts as much as twice the money."""
GRAVE = ("high", "critical")
"""A finding of this severity that claims no time ranks by the GPUs that it puts at risk."""
DAY_H, HOUR_S = 24, 3600
SAVING_DAYS = 30
"""The month of the rules that propose savings."""
_NONE = Fraction(0)


@dataclass(frozen=True)
class Rate:
    """A cost a day in one currency, and GPU-hours a day. `cost` None: no price."""

    cost: Fraction | None = None
    hours: Fraction = _NONE

    def __add__(self, other: Rate) -> Rate:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Rate(sum(costs, _NONE) if costs else None, self.hours + other.hours)


@dataclass(frozen=True)
class Facts:
    """What the urgency of a finding depends on. `cost` None: no price. `devices`: how many GPUs or slices."""

    severity: str
    confidence: float
    bucket: str | None
    gpu_hours: Fraction
    cost: Fraction | None
    currency: str | None
    started_us: int
    last_seen_us: int
    devices: int
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """Work that is lost with failed runs: GPU time that was paid for without a result. `cost` None: no price.

    The ledger counts the same time by what the GPUs did, so lost work is never added to waste.
    """

    hours: Fraction
    cost: Fraction | None
    currency: str | None


def lost_work(bucket: str | None, evidence: Mapping[str, Any]) -> Lost | None:
    """What a finding reports as lost work; None for other findings."""
    hours = number(evidence.get("lost_gpu_hours")) if bucket is None else None
    if hours is None:
        return None
    cost, currency = number(evidence.get("lost_cost")), evidence.get("currency")
    known = cost is not None and currency is not None
    return Lost(hours, cost if known else None, str(currency) if known else None)


def facts_of_row(row: Mapping[str, Any]) -> Facts:
    """The facts of a row of findings/rank.sql. Its costs are rounded to cents, as those of a finding are."""
    try:
        evidence = json.loads(row["evidence"] or "{}")
    except OLD_EVIDENCE:
        evidence = {}
    return Facts(
        severity=SEVERITY_ORDER[row["severity"]],
        confidence=row["confidence"],
        bucket=row["bucket"],
        gpu_hours=_millionths(max(row["wasted_s"], 0.0) / HOUR_S),
        cost=None if row["cost"] is None else Fraction(round(row["cost"] * 100), 100),
        currency=row["currency"],
        started_us=row["started_us"],
        last_seen_us=row["last_seen_us"],
        devices=row["devices"],
        evidence=evidence if isinstance(evidence, dict) else {},
    )


def cost_a_day(found: Facts, now_us: int, currency: str | None) -> tuple[Rate, bool]:
    """What a finding costs a day, and whether it is money that could be saved instead of waste.

    Waste is its mean while it lasted, lost work since it began; both over at least a day.
    """
    evidence = found.evidence
    saved = _saving(evidence) if found.bucket is None else None
    if saved is not None:
        return Rate(saved if evidence.get("currency", found.currency) == currency else None), True
    lost = lost_work(found.bucket, evidence)
    if lost is not None:
        days = Fraction(max(now_us - found.started_us, DAY_US), DAY_US)
        cost = lost.cost if lost.currency == currency else None
        return Rate(None if cost is None else cost / days, lost.hours / days), False
    if not is_waste(found.bucket):
        return Rate(), False
    days = Fraction(max(found.last_seen_us - found.started_us, DAY_US), DAY_US)
    cost = found.cost if found.currency == currency else None
    return Rate(None if cost is None or not found.gpu_hours else cost / days, found.gpu_hours / days), False


def at_risk_hours(found: Facts, rate: Rate, saves: bool) -> Fraction:
    """GPU-hours a day that a grave finding puts at risk if it wastes nothing yet."""
    nothing = rate.cost is None and not rate.hours and not saves
    return Fraction(found.devices * DAY_H if nothing and found.severity in GRAVE else 0)


def size(rate: Rate, mean_price: Fraction | None) -> Fraction:
    """A rate as one number: money, or GPU-hours where nothing has a price."""
    if mean_price is None:
        return rate.hours
    return rate.hours * mean_price if rate.cost is None else rate.cost


def priority(severity: str | None, amount: Fraction, confidence: float = 1.0) -> Fraction:
    """How urgent this is: severity times cost a day times certainty."""
    return SEVERITY_WEIGHT.get(severity or "", 1) * amount * certain(confidence)


def certain(confidence: float) -> Fraction:
    """A certainty as an exact number."""
    return Fraction(1) if confidence == 1 else Fraction(str(confidence))


def of_finding(found: Facts, now_us: int, currency: str | None, mean_price: Fraction | None) -> Fraction:
    """The priority of one finding."""
    rate, saves = cost_a_day(found, now_us, currency)
    return of_rate(found, rate, at_risk_hours(found, rate, saves), mean_price)


def of_rate(found: Facts, rate: Rate, risk_hours: Fraction, mean_price: Fraction | None) -> Fraction:
    """The priority of a finding by its cost a day and the GPU-hours a day that it puts at risk."""
    amount = size(rate, mean_price) or size(Rate(None, risk_hours), mean_price)
    return priority(found.severity, amount, found.confidence)


def mean_price_of(findings: Iterable[Facts]) -> tuple[str | None, Fraction | None]:
    """The currency of most of the priced waste, and the mean cost of one of its GPU-hours; None without a price."""
    sums: dict[str, tuple[Fraction, Fraction]] = {}
    for found in findings:
        if found.currency is not None and found.cost and found.gpu_hours:
            cost, hours = sums.get(found.currency, (_NONE, _NONE))
            sums[found.currency] = cost + found.cost, hours + found.gpu_hours
    if not sums:
        return None, None
    currency = max(sorted(sums), key=lambda name: sums[name][1])
    cost, hours = sums[currency]
    return currency, cost / hours


def _saving(evidence: Mapping[str, Any]) -> Fraction | None:
    """Money that could be saved a day, by the fields of the rules that propose savings."""
    for name in ("saved_a_month", "saving"):
        if (amount := number(evidence.get(name))) is not None:
            return amount / SAVING_DAYS
    hourly = number(evidence.get("saving_per_hour"))
    return None if hourly is None else hourly * DAY_H


def number(value: object) -> Fraction | None:
    """A number of the evidence, exactly; None for anything else."""
    try:
        return None if value is None or isinstance(value, bool) else Fraction(Decimal(str(value)))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _millionths(value: float) -> Fraction:
    return Fraction(round(value * 1_000_000), 1_000_000)
