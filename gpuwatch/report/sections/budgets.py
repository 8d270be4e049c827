"""Budgets in a report: what is spent, what is expected, and the budgets of the fleet's teams. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.core.words import joined
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Column, Section, Table, Text, row
from gpuwatch.report.facts import UNOWNED, Facts
from gpuwatch.report.html.markup import name
from gpuwatch.report.period_records import Budget

TEAMS_SHOWN = 60
NAMED_MAX = 5
NO_BUDGET = "No budget is set."
STEADY = "every day so far cost nearly the same"
"""In place of an interval whose ends show the same amount."""
TOO_EARLY = "No forecast: it needs seven whole days with a price."


def budgeted(facts: Facts) -> str:
    """What is spent of the budget, and its forecast."""
    budget = facts.budget
    if budget is None:
        return NO_BUDGET
    sentence = f"Budget of {report_text.money(budget.amount, budget.currency)} for {budget.period}: "
    if budget.spent is None:
        return f"{sentence}the amount spent is unknown."
    part = report_text.percent(report_text.ratio(budget.spent, budget.amount))
    sentence += f"{report_text.money(budget.spent, budget.currency)} ({part}) spent"
    if budget.forecast is None:
        return f"{sentence}. {TOO_EARLY}" if budget.goes_on else f"{sentence}."
    sentence += f", {report_text.money(budget.forecast, budget.currency)} expected by the end of the period"
    if words := between(budget):
        sentence += f" ({words if words == STEADY else 'between ' + words.replace(' to ', ' and ')})"
    return f"{sentence}. {budget.level_change}" if budget.level_change else f"{sentence}."


def between(budget: Budget) -> str:
    """`$221 k to $245 k`: the interval of a forecast; STEADY where both ends show the same amount; empty without one."""
    if budget.forecast_low is None or budget.forecast_high is None:
        return ""
    low, high = (report_text.money(one, budget.currency) for one in (budget.forecast_low, budget.forecast_high))
    return STEADY if low == high else f"{low} to {high}"


def team_budgets(facts: Facts) -> Section | None:
    """The budgets of the fleet's teams, those that run out first; None where no team has one."""
    found = sorted(facts.team_budgets.items(), key=_order)
    if not found:
        return None
    columns = (
        Column("Team", part=2),
        Column("Period", label=True, wide=True),
        Column("Budget", number=True),
        Column("Spent", number=True),
        Column("Used", number=True, part=0.8),
        Column("Forecast", number=True),
        Column("", label=True, part=2),
    )
    rows = [row(_cells(team, budget)) for team, budget in found[:TEAMS_SHOWN]]
    blocks: list[Block] = [Table(columns, tuple(rows))]
    if len(found) > TEAMS_SHOWN:
        blocks.append(Text(f"{len(found) - TEAMS_SHOWN} more are on the budgets page.", "soft"))
    if without := _without(facts):
        blocks.append(Text(without, "soft"))
    over = [team for team, budget in found if _over(budget)]
    if not over:
        return Section(f"Team budgets: none of {len(found)} runs out", tuple(blocks))
    return Section(f"Team budgets: {_listed(over)} {'runs' if len(over) == 1 else 'run'} out", tuple(blocks))


def _cells(team: str, budget: Budget) -> list[str]:
    spent = report_text.MISSING if budget.spent is None else report_text.money(budget.spent, budget.currency)
    used = None if budget.spent is None else report_text.ratio(budget.spent, budget.amount)
    expected = "" if budget.forecast is None else report_text.money(budget.forecast, budget.currency)
    whole = report_text.money(budget.amount, budget.currency)
    return [name(team), budget.period, whole, spent, report_text.percent(used), expected, _state(budget)]


def _state(budget: Budget) -> str:
    """`exceeded on 24 Nov`, `runs out on 28 Nov`, `within the budget`, or why that is not known."""
    if budget.spent is None:
        return "charges have no price, or another currency"
    day = "" if budget.runs_out is None else f" on {budget.runs_out.day} {budget.runs_out:%b}"
    if budget.spent > budget.amount:
        return f"exceeded{day}"
    if _over(budget):
        return f"runs out{day}"
    return "too early for a forecast" if budget.goes_on and budget.forecast is None else "within the budget"


def _over(budget: Budget) -> bool:
    """Whether the amount is exceeded, or is expected to be."""
    expected = budget.forecast if budget.forecast is not None else budget.spent
    return budget.runs_out is not None or (expected is not None and expected > budget.amount)


def _order(item: tuple[str, Budget]) -> tuple[bool, object, str]:
    team, budget = item
    used = None if budget.spent is None else report_text.ratio(budget.spent, budget.amount)
    return not _over(budget), -(used or 0), team


def _without(facts: Facts) -> str:
    """`No budget: ops and qa.`: teams that pay and have no budget."""
    paying = [p.name for p in facts.payers if p.kind == "allocated" and p.name not in (None, PLATFORM, UNOWNED)]
    lacking = [str(team) for team in dict.fromkeys(paying) if team not in facts.team_budgets]
    return f"No budget: {_listed(lacking)}." if lacking else ""


def _listed(teams: Sequence[str]) -> str:
    named = [name(team) for team in teams]
    if len(named) > NAMED_MAX:
        named = [*named[: NAMED_MAX - 1], f"{len(named) - NAMED_MAX + 1} more"]
    return joined(named)
