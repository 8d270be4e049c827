"""The numbers at the top of a report, each with its change from the previous period."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from gpuwatch.ledger.hours import FREE_BUCKETS, HELD_BUCKETS
from gpuwatch.ledger.measures import NOT_MEASURED, WORDS, Measure
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.actions import named, proposed, steps, unnamed
from gpuwatch.report.document import Headline
from gpuwatch.report.facts import Amount, Facts
from gpuwatch.report.period_records import Budget
from gpuwatch.report.sections.budgets import between
from gpuwatch.report.sections.certainty import UP_TO

MOST = 5
"""Headline numbers of a page."""
SAVING = "Saving a month"
USE_BUCKETS = tuple(name for name in HELD_BUCKETS if name != NOT_MEASURED)
"""What measurements show of the held time."""


def headlines(facts: Facts) -> tuple[Headline, ...]:
    """At most MOST numbers: cost, forecast, avoidable cost, expected saving and budget; then free time for the fleet, or the
    time held for a team. Time that was not measured, and the working share, come first where it is most of the held time.
    """
    found = [_paid(facts)]
    if not facts.measures.shares_known:
        found += [_not_measured(facts), _working(facts)]
    found += [*_forecast(facts), _avoidable(facts), *_saving(facts), *_budget(facts)]
    found.append(_held_hours(facts) if facts.team is not None else _free(facts))
    if facts.measures.shares_known:
        found.append(_working(facts))
    return tuple(found[:MOST])


def unknown_use(facts: Facts, bucket: str) -> bool:
    """Whether a bucket of held time is unknown: nothing was measured, or so little that none of it does not mean zero."""
    found = facts.measures
    nothing = found.measured_ratio == 0 or (not found.shares_known and not facts.of(bucket).gpu_seconds)
    return bucket in USE_BUCKETS and nothing


def _forecast(facts: Facts) -> list[Headline]:
    """The cost of the month at its end."""
    forecast = facts.forecast
    if forecast is None or forecast.forecast is None:
        return []
    exact = f"{forecast.forecast:f} {forecast.currency}"
    title = f"Forecast, {report_text.period(forecast.period)}"
    return [Headline(title, _money(forecast.forecast, forecast), exact, between(forecast))]


def _money(value: Decimal, budget: Budget) -> str:
    return report_text.money(value, budget.currency)


def _saving(facts: Facts) -> list[Headline]:
    """The waste that findings name, a month; beside it what no finding names, which is waste and no saving."""
    found = steps(facts)
    worth, rest, proposal = named(found), unnamed(found), proposed(found)
    if worth:
        note = f"{report_text.money(rest, facts.currency)} more of waste is in no finding" if rest else "by findings"
        return [Headline(SAVING, report_text.money(worth, facts.currency), f"{float(worth):.2f}", note)]
    if rest:
        note = "in no finding yet: see what to do"
        return [Headline("Waste a month", report_text.money(rest, facts.currency), f"{float(rest):.2f}", note)]
    if proposal:
        value = f"{UP_TO}{report_text.money(proposal, facts.currency)}"
        return [Headline(SAVING, value, f"{float(proposal):.2f}", "the largest proposal, an estimate")]
    return []


def working_ratio(facts: Facts) -> Fraction | None:
    """Working share of all GPU time paid for (for a team: of the time it held); None if too little was measured."""
    return _share(facts.measures.working)


def avoidable_ratio(facts: Facts) -> Fraction | None:
    """Avoidable share, of the same time."""
    return _share(facts.measures.avoidable)


def avoidable_part(facts: Facts) -> tuple[Fraction, str] | None:
    """The avoidable share and what it is of: of the cost of the same time, as on the pages, or of GPU time without prices. None
    if too little was measured.
    """
    lost, ratio = avoidable_amount(facts), avoidable_ratio(facts)
    if lost is None or ratio is None:
        return None
    cost, whole = lost.cost_in(facts.currency), facts.of(*listed_buckets(facts)).cost_in(facts.currency)
    if cost is not None and whole:
        return Fraction(cost / whole), "of the cost" if facts.team is None else "of the cost of what it held"
    return ratio, "of the GPU time" if facts.team is None else "of the GPU time it held"


def _share(measure: Measure) -> Fraction | None:
    return None if measure.ratio is None else Fraction(str(measure.ratio))


def trend(facts: Facts) -> str:
    """`, up 3 % from the previous {facts.period_word}`; empty where nothing can be compared."""
    if facts.total_before is None:
        return ""
    now, before = facts.total.cost_in(facts.currency), facts.total_before.cost_in(facts.currency)
    if now is None or before is None:
        return ""
    change = report_text.change(now, before)
    if change.startswith(("▲", "▼")):
        return f", {'up' if change[0] == '▲' else 'down'} {change[2:]} from the previous {facts.period_word}"
    return f", the same as the previous {facts.period_word}" if change == "same" else ""


def compared_cost(facts: Facts, now: Amount, before: Amount | None) -> str:
    """The change of a cost, in words; empty where either cost is not fully known."""
    cost = now.cost_in(facts.currency)
    other = None if before is None else before.cost_in(facts.currency)
    return "" if cost is None else report_text.change(cost, other)


def _paid(facts: Facts) -> Headline:
    label = "Spend" if facts.team is None else "To pay"
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


def _working(facts: Facts) -> Headline:
    now = working_ratio(facts)
    before = None if facts.measures_before is None else _share(facts.measures_before.working)
    seconds = facts.measures.working.gpu_seconds
    exact = "not measured" if seconds is None else f"{seconds:f} GPU-seconds"
    return Headline(WORDS["working"], report_text.percent(now), exact, report_text.points(now, before))


def _not_measured(facts: Facts) -> Headline:
    held = Fraction(str(facts.measures.measured_ratio or 0))
    exact = f"{facts.measures.not_measured.gpu_seconds:f} GPU-seconds"
    return Headline(WORDS["not_measured"], report_text.percent(1 - held), exact, "of the time held")


def _avoidable(facts: Facts) -> Headline:
    now = avoidable_amount(facts)
    if now is None:
        return Headline(WORDS["avoidable"], report_text.MISSING, "not measured", "")
    before = None if facts.measures_before is None else _amount(facts.measures_before.avoidable)
    money = report_text.amount_money(now, facts.currency)
    return Headline(WORDS["avoidable"], money, _exact(now), compared_cost(facts, now, before))


def _free(facts: Facts) -> Headline:
    now = _amount(facts.measures.free) or Amount()
    before = None if facts.measures_before is None else _amount(facts.measures_before.free)
    money = report_text.amount_money(now, facts.currency)
    return Headline(WORDS["free"], money, _exact(now), compared_cost(facts, now, before))


def avoidable_amount(facts: Facts) -> Amount | None:
    """The waste: what was avoidable and what it cost; None if nothing was measured."""
    return _amount(facts.measures.avoidable)


def measures(facts: Facts) -> Iterator[tuple[str, Amount, Amount | None]]:
    """(name, now, before) of each measure that is known."""
    for name in WORDS:
        now = _amount(getattr(facts.measures, name))
        before = None if facts.measures_before is None else _amount(getattr(facts.measures_before, name))
        if now is not None:
            yield name, now, before


def _amount(measure: Measure) -> Amount | None:
    if measure.gpu_seconds is None:
        return None
    return Amount(measure.gpu_seconds, measure.costs, measure.unpriced_gpu_seconds)


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
