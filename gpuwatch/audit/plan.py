"""The action plan over all layers: the most urgent remedies, then decisions to take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from gpuwatch.audit.decision import DEFAULT, PART, Decision
from gpuwatch.audit.losses import Loss, loss_actions
from gpuwatch.core.clock import DAY_US, HOUR_US, rfc3339
from gpuwatch.findings.monthly import Claimed, together
from gpuwatch.findings.priority import SAVING_DAYS, Facts, Lost, Rate
from gpuwatch.findings.ranking import Part, order, part, ranked
from gpuwatch.findings.texts import SEVERITY_ORDER
from gpuwatch.ledger.month import MONTH_FROM_US, Basis
from gpuwatch.rules.rule import effort_of, layer_of

Row = Mapping[str, Any]

KEYS_MAX = 50
"""Finding keys listed in an action; its count covers all of them."""
FINDING, SAVING, LOST, DECISION = "finding", "saving", "lost", "decision"
"""Kinds of actions: waste counted by findings, money that another choice would save, work lost with failed runs, a decision
left to a default. losses.py has one more: waste that no finding names."""


def claimed(found: Row) -> Claimed:
    """What a finding cost in the window; in one currency, or nothing is known of a month."""
    return Claimed(found["facts"], found["state"] != "resolved", sum(found["costs"].values(), Fraction(0)))


def needs_action(found: Row) -> bool:
    """Whether a finding, open or resolved, needs action: not while its owner exempts it or calls it a false positive.

    A snoozed one does: its waste continues.
    """
    return not found["let_be"]


def actions(
    findings: Iterable[Row],
    decided: Mapping[str, Sequence[Decision]],
    basis: Basis,
    mean_price: Fraction | None = None,
    by_team: bool = False,
    losses: Sequence[Loss] = (),
) -> list[dict[str, Any]]:
    """Every action: those worth most first (findings/ranking.py, over the window's money), decisions last.

    The findings of one detector that need action are one action, worth what they claimed; `by_team`: those of one detector
    and one team. `costs` is {currency: Fraction} of the window; `saves_a_month` likewise, a month; `lost` is the cost of lost
    work since each finding began. `mean_price` is the cost of a GPU-hour. `losses`: waste that no finding claims.
    """
    acting = [found for found in findings if needs_action(found)]
    mean = mean_price or _mean_price(acting)
    parts = [_part(found, basis, mean) for found in acting]
    groups = ranked(parts, lambda one: (one.finding["detector"], one.finding["team"] if by_team else ""))
    made = [(order(members), _of_findings([one.finding for one in members], basis)) for _, members in groups]
    made += loss_actions(losses, basis, mean)
    made.sort(key=lambda pair: (pair[0], *_order(pair[1])))
    decisions = [
        _of_decision(layer, one)
        for layer, many in decided.items()
        for one in many
        if one.state in (DEFAULT, PART) and one.fix
    ]
    plan = [action for _, action in made] + sorted(decisions, key=_order)
    return [{"rank": rank, **action} for rank, action in enumerate(plan, 1)]


def _part(row: Row, basis: Basis, mean_price: Fraction | None) -> Part[Row]:
    """A finding with what it claimed of the window, lost in it, or would save in it, a day."""
    facts: Facts = row["facts"]
    ended = row["state"] == "resolved"
    if (lost := row["lost"]) is not None:
        days = Fraction(max(basis.recorded_us, DAY_US), DAY_US)
        rate = Rate(None if lost.cost is None else lost.cost / days, lost.hours / days)
        return part(row, row["key"], facts, rate, False, mean_price)
    days = basis.days(facts.bucket)
    if saved := sum(saving(row, basis.recorded_us).values(), Fraction(0)):
        return part(row, row["key"], facts, Rate(saved / SAVING_DAYS), True, mean_price, ended)
    hours, cost = sum(row["hours"].values(), Fraction(0)), sum(row["costs"].values(), Fraction(0))
    cost += row["unpriced_gpu_hours"] * (mean_price or 0)
    return part(row, row["key"], facts, Rate(cost / days if cost else None, hours / days), False, mean_price, ended)


def _mean_price(rows: Sequence[Row]) -> Fraction | None:
    """The mean cost of a GPU-hour that findings claimed; None without any price."""
    cost = sum((sum(row["costs"].values(), Fraction(0)) for row in rows), Fraction(0))
    hours = sum((sum(row["hours"].values(), Fraction(0)) - row["unpriced_gpu_hours"] for row in rows), Fraction(0))
    return cost / hours if cost > 0 and hours > 0 else None


def most_expensive(rows: Iterable[Row]) -> list[Row]:
    """Findings by what they claimed of the window or lost, then by severity; the largest first."""
    return sorted(rows, key=lambda f: (-money_at_stake(f), -_rank(f["severity"]), -hours_at_stake(f), f["key"]))


def foremost(rows: Iterable[Row]) -> list[Row]:
    """The findings of an action: what still goes on first, so that its advice is given, each part the most expensive first.

    Lost work only by its cost: all of it is over.
    """
    ordered = most_expensive(rows)
    if any(row["lost"] is not None for row in ordered):
        return ordered
    return sorted(ordered, key=lambda row: bool(row["state"] == "resolved"))


def money_at_stake(row: Row) -> Fraction:
    """What a finding claimed of the window, or the cost of lost work."""
    lost: Lost | None = row["lost"]
    return sum(row["costs"].values(), lost.cost or Fraction(0) if lost else Fraction(0))


def hours_at_stake(row: Row) -> Fraction:
    """The GPU-hours that a finding claimed of the window, or those of lost work."""
    lost: Lost | None = row["lost"]
    return sum(row["hours"].values(), lost.hours if lost else Fraction(0))


def _of_findings(rows: Sequence[Row], basis: Basis) -> dict[str, Any]:
    ordered = foremost(rows)
    first, lost = ordered[0], [row["lost"] for row in rows if row["lost"] is not None]
    costs, saves = _added(row["costs"] for row in rows), _added(saving(row, basis.recorded_us) for row in rows)
    still = [row for row in ordered if row["state"] != "resolved"]
    return {
        "kind": LOST if lost else SAVING if saves and not any(costs.values()) else FINDING,
        "layer": layer_of(first["detector"]),
        "id": first["detector"],
        "title": first["title"],
        "remedy": first["remedy"],
        "effort": effort_of(first["detector"]),
        "team": first["team"] if len({row["team"] for row in rows}) == 1 else None,
        "severity": max((row["severity"] for row in still or ordered), key=_rank),
        "findings": len(rows),
        "open": len(still),
        "ended_at": None if still or lost else rfc3339(max(row["facts"].last_seen_us for row in rows)),
        "gpu_hours": sum((hours for row in rows for hours in row["hours"].values()), Fraction(0)),
        "unpriced_gpu_hours": sum((row["unpriced_gpu_hours"] for row in rows), Fraction(0)),
        "costs": costs,
        "costs_a_month": _months(rows, basis),
        "counted": basis.words(first["facts"].bucket),
        "saves_a_month": saves,
        "lost": {} if any(one.cost is None for one in lost) else _added({one.currency: one.cost} for one in lost),
        "lost_gpu_hours": sum((one.hours for one in lost), Fraction(0)) if lost else None,
        "keys": [row["key"] for row in ordered[:KEYS_MAX]],
    }


def _months(rows: Sequence[Row], basis: Basis) -> dict[str, Fraction]:
    """What findings cost a month in their one currency; empty where that is not known."""
    currencies = {currency for row in rows for currency in row["costs"]}
    monthly = together(map(claimed, rows), basis) if len(currencies) == 1 else None
    return {} if monthly is None else {currencies.pop(): monthly}


def _of_decision(layer: str, decision: Decision) -> dict[str, Any]:
    return {
        "kind": DECISION,
        "layer": layer,
        "id": decision.id,
        "title": decision.title,
        "remedy": decision.fix,
        "effort": decision.effort,
        "team": None,
        "severity": None,
        "findings": 0,
        "open": 0,
        "ended_at": None,
        "gpu_hours": None,
        "unpriced_gpu_hours": None,
        "costs": {},
        "costs_a_month": {},
        "counted": "",
        "saves_a_month": {},
        "lost": {},
        "lost_gpu_hours": None,
        "ratio": decision.ratio,
        "said": decision.sentence,
        "keys": [],
    }


def saving(found: Row, window_us: int) -> dict[str, Fraction]:
    """What following a finding's advice saves in a month, from its evidence: {currency: amount}. Empty without an amount."""
    evidence, currency = found["saving"], found["saving_currency"]
    if not currency:
        return {}
    for name in ("saved_a_month", "saving"):
        if (amount := _number(evidence.get(name))) is not None:
            return {str(currency): amount}
    hourly, hours = _number(evidence.get("saving_per_hour")), _number(found["saving_hours"])
    if hourly is None or hours is None:
        return {}
    held = min(hours, Fraction(window_us, HOUR_US))
    if window_us < MONTH_FROM_US:
        return {}
    return {str(currency): hourly * held * SAVING_DAYS * DAY_US / window_us}


def _number(value: object) -> Fraction | None:
    try:
        return None if value is None or isinstance(value, bool) else Fraction(Decimal(str(value)))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _added(many: Iterable[Mapping[str, Fraction]]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for costs in many:
        for currency, cost in costs.items():
            total[currency] = total.get(currency, Fraction(0)) + cost
    return total


def _order(action: Row) -> tuple[Any, ...]:
    """The order of actions that are equally urgent, and of decisions."""
    return (
        -_rank(action["severity"]) if action["severity"] else 0,
        action.get("ratio") or 0.0,
        -(action["gpu_hours"] or 0),
        action["layer"],
        action["id"],
    )


def _rank(severity: str | None) -> int:
    return SEVERITY_ORDER.index(severity) if severity in SEVERITY_ORDER else -1
