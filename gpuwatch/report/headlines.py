"""The numbers at the top of a report, each with its change from the previous week."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.ledger.hours import FREE_BUCKETS, HELD_BUCKETS
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.facts import PRODUCTIVE, Amount, Facts

MOST = 5
"""Headline numbers of a page."""
UNSEEN_MAX = Decimal("0.9")
"""Unmeasured share of the held time above which its productive share is unknown."""


@dataclass(frozen=True)
class Headline:
    """A number with its label, exact value and change (empty: nothing to compare with)."""

    label: str
    value: str
    exact: str
    change: str


def headlines(facts: Facts) -> tuple[Headline, ...]:
    """At most MOST numbers: cost, budget if there is one, productive time, its price, held idle; then unallocated time for
    the fleet, or the time held for a team.
    """
    found = [_paid(facts), *_budget(facts)]
    found += [_productive(facts), _price(facts), _cost("Held idle", facts, "hoarded")]
    found.append(_held_hours(facts) if facts.team is not None else _cost("Unallocated", facts, *FREE_BUCKETS))
    return tuple(found[:MOST])


def productive_ratio(facts: Facts, before: bool = False) -> Fraction | None:
    """Productive share of all GPU time paid for (for a team: of the time it held); None without any time, and where
    (nearly) none of the held time was measured.
    """
    held = facts.of(*HELD_BUCKETS, before=before).gpu_seconds
    if facts.of("unobserved", before=before).gpu_seconds > held * UNSEEN_MAX:
        return None
    whole = facts.of(*FREE_BUCKETS, *HELD_BUCKETS, before=before).gpu_seconds
    return report_text.ratio(facts.of(*PRODUCTIVE, before=before).gpu_seconds, whole)


def price_of_work(facts: Facts, before: bool = False) -> Fraction | None:
    """Cost of a productive GPU-hour; None where the cost or the productive time is unknown or zero."""
    if productive_ratio(facts, before) is None:
        return None
    cost = (facts.total_before or Amount()).cost_in(facts.currency) if before else facts.total.cost_in(facts.currency)
    hours = facts.of(*PRODUCTIVE, before=before).gpu_hours
    return None if cost is None or not hours else Fraction(cost) / hours


def trend(facts: Facts) -> str:
    """`, up 3 % from the previous week`; empty where nothing can be compared."""
    if facts.total_before is None:
        return ""
    now, before = facts.total.cost_in(facts.currency), facts.total_before.cost_in(facts.currency)
    if now is None or before is None:
        return ""
    change = report_text.change(now, before)
    if change.startswith(("▲", "▼")):
        return f", {'up' if change[0] == '▲' else 'down'} {change[2:]} from the previous week"
    return ", the same as the previous week" if change == "same" else ""


def compared_cost(facts: Facts, now: Amount, before: Amount | None) -> str:
    """The change of a cost, in words; empty where either cost is not fully known."""
    cost = now.cost_in(facts.currency)
    other = None if before is None else before.cost_in(facts.currency)
    return "" if cost is None else report_text.change(cost, other)


def _paid(facts: Facts) -> Headline:
    label = "Paid" if facts.team is None else "To pay"
    change = compared_cost(facts, facts.total, facts.total_before)
    return Headline(label, report_text.amount_money(facts.total, facts.currency), _exact(facts.total), change)


def _budget(facts: Facts) -> list[Headline]:
    """What is spent of the budget."""
    budget = facts.budget
    if budget is None:
        return []
    label = f"Budget used, {budget.period}"
    whole = report_text.money(budget.amount, budget.currency)
    if budget.spent is None:
        return [Headline(label, report_text.MISSING, f"of {budget.amount:f} {budget.currency}", f"of {whole}")]
    exact = f"{budget.spent:f} of {budget.amount:f} {budget.currency}"
    part = report_text.percent(report_text.ratio(budget.spent, budget.amount))
    return [Headline(label, part, exact, f"{report_text.money(budget.spent, budget.currency)} of {whole}")]


def _productive(facts: Facts) -> Headline:
    now = productive_ratio(facts)
    before = productive_ratio(facts, before=True) if facts.compared is not None else None
    exact = f"{facts.of(*PRODUCTIVE).gpu_seconds:f} GPU-seconds"
    return Headline("Productive GPU time", report_text.percent(now), exact, report_text.points(now, before))


def _price(facts: Facts) -> Headline:
    now = price_of_work(facts)
    before = price_of_work(facts, before=True) if facts.compared is not None else None
    label = "Per productive GPU-hour"
    if now is None:
        return Headline(label, report_text.MISSING, "requires a price for every hour, and productive time", "")
    return Headline(label, report_text.money(now, facts.currency), f"{float(now):.6f}", report_text.change(now, before))


def listed_buckets(facts: Facts) -> list[str]:
    """The buckets in listed order; unallocated ones for the fleet only."""
    return [b for b in BUCKET_WORDS if facts.team is None or b not in FREE_BUCKETS]


def bucket_money(facts: Facts, *buckets: str) -> str:
    """What these buckets cost, in a sentence: the sum of the figures that their rows show."""
    listed = listed_buckets(facts)
    costs = [facts.of(bucket).cost_in(facts.currency) for bucket in listed]
    places = report_text.places_of(costs)
    shown = dict(zip(listed, report_text.figures(costs, places), strict=True))
    parts = [shown[bucket] for bucket in buckets if bucket in shown]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return report_text.amount_money(facts.of(*buckets), facts.currency)
    return report_text.figure(sum(known, Decimal(0)), places, facts.currency)


def _cost(label: str, facts: Facts, *buckets: str) -> Headline:
    now = facts.of(*buckets)
    before = facts.of(*buckets, before=True) if facts.compared is not None else None
    return Headline(label, bucket_money(facts, *buckets), _exact(now), compared_cost(facts, now, before))


def _held_hours(facts: Facts) -> Headline:
    now = facts.of(*HELD_BUCKETS)
    before = facts.of(*HELD_BUCKETS, before=True).gpu_seconds if facts.compared is not None else None
    change = report_text.change(now.gpu_seconds, before)
    return Headline("GPU time held", report_text.hours(now.gpu_hours), f"{now.gpu_seconds:f} GPU-seconds", change)


def _exact(amount: Amount) -> str:
    parts = [f"{cost:f} {currency}" for currency, cost in amount.costs]
    if amount.unpriced_gpu_seconds != Decimal(0):
        parts.append(f"{amount.unpriced_gpu_seconds:f} GPU-seconds without a rate")
    return ", ".join(parts) or "0"
