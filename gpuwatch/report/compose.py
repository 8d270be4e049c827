"""The facts of a week as a document: what was paid, where it went, what to do, who pays, how far to trust it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from gpuwatch.quality.dumps import MISSING
from gpuwatch.report import actions, corrections, cost_bridge, data_quality, tables, top_waste
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    Chart,
    Document,
    Numbers,
    Pillar,
    Section,
    Text,
)
from gpuwatch.report.facts import UNOWNED, Facts
from gpuwatch.report.headlines import (
    avoidable_amount,
    avoidable_part,
    headlines,
    trend,
)
from gpuwatch.report.html.markup import name
from gpuwatch.report.period_records import Past
from gpuwatch.report.sections import budgets, job_steps, models
from gpuwatch.report.sections.where_it_went import mostly_unmeasured, where_it_went
from gpuwatch.report.steps import Step

WEEK_HOURS = 168


def document(facts: Facts) -> Document:
    """The whole report."""
    sections = [
        actions.actions(facts),
        job_steps.job_steps(facts),
        _trend_section(facts),
        where_it_went(facts),
        tables.payers(facts),
        budgets.team_budgets(facts),
        top_waste.wastes(facts),
        top_waste.waited(facts) if not facts.bound else None,
        tables.slices(facts),
        models.models(facts),
        cost_bridge.bridge(facts),
        corrections.corrections(facts),
        data_quality.quality(facts),
        data_quality.how(facts),
    ]
    return Document(
        title=title(facts),
        window=f"{report_text.days(facts.window)}, UTC",
        head=_head(facts),
        sections=tuple(section for section in sections if section is not None),
        keywords=("GPU", "chargeback", facts.week),
    )


def title(facts: Facts) -> str:
    """`Team search: GPU spend, week 2026-W47`."""
    return f"{whose(facts)}: GPU spend, {facts.period_word} {facts.week}"


def whose(facts: Facts) -> str:
    """The subject of the report."""
    if facts.team is None:
        return "The fleet"
    return "Unassigned GPU time" if facts.team == UNOWNED else f"Team {name(facts.team)}"


def lead(facts: Facts) -> str:
    """The opening sentences: the cost and its change, what of it was avoidable, what the actions save, and the forecast."""
    who = whose(facts)
    verb = {None: "cost", UNOWNED: "costs"}.get(facts.team, "pays")
    if facts.total.costs or not facts.total.unpriced_gpu_seconds:
        cost = report_text.amount_money(facts.total, facts.currency)
        sentence = f"{who} {verb} {cost} in {facts.period_word} {facts.week}{trend(facts)}."
    else:
        sentence = f"The cost of {who[0].lower()}{who[1:]} in {facts.period_word} {facts.week} is unknown: no rate covers its GPU time."
    lost, part, found = avoidable_amount(facts), avoidable_part(facts), actions.steps(facts)
    if lost is None or part is None:
        return f"{sentence} {mostly_unmeasured(facts)}{_lost_work(facts, found)}"
    share = f"{report_text.percent(part[0])} {part[1]}"
    sentence += f" {report_text.amount_money(lost, facts.currency)} of it was avoidable ({share})."
    sentence += _savings(facts, found) + _lost_work(facts, found)
    if (forecast := facts.forecast) is not None and forecast.forecast is not None:
        sentence += f" {report_text.period(forecast.period)} is expected to cost {report_text.money(forecast.forecast, forecast.currency)}."
    return sentence


def _savings(facts: Facts, found: Sequence[Step]) -> str:
    """What acting on findings saves, and the waste that no finding names: nobody knows how much of that can be saved."""
    worth, rest = actions.named(found), actions.unnamed(found)
    text = ""
    if worth:
        text += f" Acting on the findings is expected to save {report_text.money(worth, facts.currency)} a month{_rate(facts)}."
    if rest:
        left = report_text.money(rest, facts.currency)
        text += (
            f" {'Another ' if worth else ''}{left} of waste a month{'' if worth else _rate(facts)} is in no finding: "
        )
        text += "how much of it can be saved is not known."
    return text


def _rate(facts: Facts) -> str:
    """` at the rate of the 2.5 measured days`; empty from a week on."""
    words = facts.counted.words()
    return f" at the rate of {words}" if words and facts.counted.measured_us else ""


def _lost_work(facts: Facts, steps: Sequence[Step]) -> str:
    """` Failed runs lost $6.48 k of work, the most vit-l-pretrain.`; empty where nothing was lost."""
    found = [step for step in steps if step.lost]
    if not found:
        return ""
    lost = report_text.money(actions.lost_work(found), facts.currency)
    largest = max((one for step in found for one in step.findings), key=lambda one: actions.lost_cost(facts, one))
    return f" Failed runs lost {lost} of work, the most {actions.subject_name(facts, largest)}."


def _head(facts: Facts) -> tuple[Text | Numbers, ...]:
    lines = [f"{report_text.days(facts.window)}, UTC."]
    if facts.covered != facts.window:
        lines.append(f"The data covers {report_text.days(facts.covered)}, and so do all numbers.")
    if facts.only_dumps:
        lines.append(MISSING)
    elif facts.compared is None:
        begin = report_text.moment(facts.ledger_from_us)
        lines.append(f"No comparison with the previous {facts.period_word}: the data begins on {begin}.")
    else:
        lines.append(f"Changes compare with {report_text.days(facts.compared)}.")
    if facts.closed is not None:
        lines.append(
            f"The {facts.period_word} was closed on {report_text.moment(facts.closed.at_us)} by {name(facts.closed.by)}."
        )
        if facts.closed.forced is not None:
            lines.append(f"The closing was forced: {facts.closed.forced}.")
    if facts.budget is None:
        lines.append(budgets.budgeted(facts))
        return Text(" ".join(lines), "soft"), Text(lead(facts), "lead"), Numbers(headlines(facts))
    return (
        Text(" ".join(lines), "soft"),
        Text(lead(facts), "lead"),
        Numbers(headlines(facts)),
        Text(budgets.budgeted(facts)),
    )


def _trend_section(facts: Facts) -> Section | None:
    """The weeks as columns; None with fewer than two whose cost is known in the report's currency."""
    known = [(past, past.cost) for past in facts.history if past.currency == facts.currency and past.cost is not None]
    most = max((cost for _, cost in known), default=Decimal(0))
    if len(known) < 2 or most <= 0:
        return None
    pillars, words = [], []
    for past, cost in known:
        value = report_text.money(cost, past.currency)
        part = Fraction((past.avoidable or Decimal(0)) / most)
        pillars.append(Pillar(past.week[5:], value, Fraction(cost / most), part, past.hours < WEEK_HOURS))
        lost = "unknown" if past.avoidable is None else report_text.money(past.avoidable, past.currency)
        words.append(f"{past.week}: {value}, {lost} avoidable")
    note = "Red: avoidable. Pale: the ledger does not cover the whole week."
    blocks = (Chart(tuple(pillars), "; ".join(words)), Text(note, "soft"))
    whole = [(past, cost) for past, cost in known if past.hours >= WEEK_HOURS and not facts.only_dumps]
    return Section(_trend_title(whole), blocks)


def _trend_title(whole: Sequence[tuple[Past, Decimal]]) -> str:
    if len(whole) < 2:
        return "Spend by week"
    (first, before), (_, now) = whole[0], whole[-1]
    change = report_text.change(now, before)
    if not change.startswith(("▲", "▼")):
        return f"Spend by week: the same as in {first.week}"
    return f"Spend by week: {'up' if change[0] == '▲' else 'down'} {change[2:]} since {first.week}"
