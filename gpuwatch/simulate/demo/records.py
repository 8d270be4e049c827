"""What people of the demo's company decided: budgets, two closed weeks, a finding acknowledged and one exempt."""

from __future__ import annotations

from decimal import Decimal

from gpuwatch.billing import budgets, chargeback
from gpuwatch.billing.periods.close import close
from gpuwatch.billing.periods.repository import Periods
from gpuwatch.core.clock import DAY_US, Window
from gpuwatch.findings import read as findings_read
from gpuwatch.findings.read import Finding
from gpuwatch.findings.repository import Action, Actions
from gpuwatch.state import State
from gpuwatch.store.database import Store

BUDGET_PARTS = (Decimal("0.93"), Decimal("1.12"), Decimal("1.30"), Decimal("1.05"), Decimal("1.45"))
"""Budgets relative to a month of last week's spending, in turn; the fleet has the second."""
MONTH_WEEKS = Decimal("4.35")
ROUND_TO = Decimal(100)
CLOSED_WEEKS = 2
EXEMPT_DAYS = 14
FINANCE = "dana@finance"
ACKNOWLEDGED = ("false-utilization", "ack", "Batching is on the team's list for this sprint.")
EXEMPTED = ("idle-hoarding", "exempt", "Warm standby for the product launch; agreed with the platform team.")


def decide(store: Store, state: State, weeks: list[tuple[str, Window]], now_us: int) -> None:
    """Sets budgets, closes the weeks before the last complete one, and answers two findings. Once: again changes nothing."""
    if not weeks:
        return
    chargeback.price_all(store, state)
    _budgets(store, state, weeks[0][1], now_us)
    closed = {one.name for one in Periods(state).in_force()}
    for name, _ in reversed(weeks[1 : 1 + CLOSED_WEEKS]):
        if name not in closed:
            close(store, state, name, FINANCE, now_us, force=True)
    _answer(store, state, now_us)


def _budgets(store: Store, state: State, window: Window, now_us: int) -> None:
    """A monthly budget of each of the teams that spend most, and one of the fleet."""
    if budgets.load_budgets(state):
        return
    items = chargeback.chargeback(store, state, window, ("team",)).items
    paid = [(one.group["team"] or "", one.cost) for one in items if one.cost and one.currency == "USD"]
    teams = sorted((pair for pair in paid if not pair[0].startswith("__")), key=lambda pair: -pair[1])
    rows = [("*", sum((cost for _, cost in paid), Decimal(0)) * BUDGET_PARTS[1])]
    rows += [(team, cost * part) for (team, cost), part in zip(teams, BUDGET_PARTS, strict=False)]
    made = [
        budgets.Budget(team, "month", (cost * MONTH_WEEKS / ROUND_TO).to_integral_value() * ROUND_TO or ROUND_TO, "USD")
        for team, cost in rows
    ]
    budgets.replace(state, made, FINANCE, "budgets.csv", now_us)


def _answer(store: Store, state: State, now_us: int) -> None:
    """Acknowledges the most expensive open finding of one rule, and exempts the second of another."""
    actions = Actions(state)
    if actions.current(now_us):
        return
    found = [finding for finding in findings_read.read(store) if finding.state == "open"]
    for place, (detector, action, reason) in enumerate((ACKNOWLEDGED, EXEMPTED)):
        listed = sorted((one for one in found if one.detector == detector), key=_cost, reverse=True)
        if listed:
            chosen = listed[min(place, len(listed) - 1)]
            until = now_us + EXEMPT_DAYS * DAY_US if action == "exempt" else None
            actions.act(Action(chosen.key, action, until, reason, f"lead@{chosen.team}", now_us))


def _cost(finding: Finding) -> Decimal:
    return Decimal(finding.wasted_cost or 0)
