"""The action plan over all layers: the most urgent remedies, then decisions to take. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from gpuwatch.audit.decision import DEFAULT, PART, Decision
from gpuwatch.core.clock import DAY_US, HOUR_US
from gpuwatch.findings.priority import priority
from gpuwatch.findings.texts import SEVERITY_ORDER
from gpuwatch.rules.rule import effort_of, layer_of

Row = Mapping[str, Any]

MONTH_US = 30 * DAY_US
"""The month that amounts are scaled to."""
WINDOW_US_MIN = DAY_US
"""No monthly amount is given for a shorter window."""
KEYS_MAX = 50
"""Finding keys listed in an action; its count covers all of them."""
FINDING, SAVING, DECISION = "finding", "saving", "decision"
"""Kinds of actions: waste counted by findings, money that another choice would save, a decision left to a default."""


def a_month(amount: Fraction, window_us: int) -> Fraction | None:
    """An amount of a window scaled to 30 days; None for a window shorter than a day."""
    return amount * MONTH_US / window_us if window_us >= WINDOW_US_MIN else None


def needs_action(found: Row) -> bool:
    """Whether a finding, open or resolved, needs action: not while its owner exempts it or calls it a false positive.

    A snoozed one does: its waste continues.
    """
    return not found["let_be"]


def actions(findings: Iterable[Row], decided: Mapping[str, Sequence[Decision]], window_us: int) -> list[dict[str, Any]]:
    """Every action: the most urgent first (findings/priority.py, over the window's money), decisions last.

    The findings of one detector that need action are one action, worth what they claimed. `costs` is {currency: Fraction}
    of the window; `saves_a_month` likewise, a month.
    """
    groups: dict[str, list[Row]] = {}
    for found in findings:
        if needs_action(found):
            groups.setdefault(found["detector"], []).append(found)
    mean = _mean_price(groups.values())
    made = [
        (_urgency(rows, window_us, mean), _of_findings(detector, rows, window_us)) for detector, rows in groups.items()
    ]
    made.sort(key=lambda pair: (-pair[0], *_order(pair[1])))
    decisions = [
        _of_decision(layer, one)
        for layer, many in decided.items()
        for one in many
        if one.state in (DEFAULT, PART) and one.fix
    ]
    ranked = [action for _, action in made] + sorted(decisions, key=_order)
    return [{"rank": rank, **action} for rank, action in enumerate(ranked, 1)]


def _urgency(rows: Iterable[Row], window_us: int, mean_price: Fraction | None) -> Fraction:
    """The priorities of findings together, by what they claimed of the window or would save in it, a day."""
    days, month_days = Fraction(window_us, DAY_US), Fraction(MONTH_US, DAY_US)
    total = Fraction(0)
    for row in rows:
        saved = sum(saving(row, window_us).values(), Fraction(0)) / month_days
        cost = sum(row["costs"].values(), Fraction(0)) / days
        unpriced = row["unpriced_gpu_hours"] / days
        worth = saved + cost + unpriced * mean_price if mean_price is not None else saved + unpriced
        total += priority(row["severity"], worth, row["confidence"])
    return total


def _mean_price(groups: Iterable[Sequence[Row]]) -> Fraction | None:
    """The mean cost of a GPU-hour that findings claimed; None without any price."""
    rows = [row for rows in groups for row in rows]
    cost = sum((sum(row["costs"].values(), Fraction(0)) for row in rows), Fraction(0))
    hours = sum((sum(row["hours"].values(), Fraction(0)) - row["unpriced_gpu_hours"] for row in rows), Fraction(0))
    return cost / hours if cost > 0 and hours > 0 else None


def most_expensive(rows: Iterable[Row]) -> list[Row]:
    """Findings by what they claimed of the window, then by severity; the largest first."""
    return sorted(
        rows, key=lambda f: (-sum(f["costs"].values()), -_rank(f["severity"]), -sum(f["hours"].values()), f["key"])
    )


def _of_findings(detector: str, rows: Sequence[Row], window_us: int) -> dict[str, Any]:
    ranked = most_expensive(rows)
    costs, saves = _added(row["costs"] for row in rows), _added(saving(row, window_us) for row in rows)
    still = [row for row in ranked if row["state"] != "resolved"]
    monthly = {name: found for name, cost in costs.items() if (found := a_month(cost, window_us)) is not None}
    return {
        "kind": SAVING if saves and not any(costs.values()) else FINDING,
        "layer": layer_of(detector),
        "id": detector,
        "title": ranked[0]["title"],
        "remedy": ranked[0]["remedy"],
        "effort": effort_of(detector),
        "severity": max((row["severity"] for row in still or ranked), key=_rank),
        "findings": len(rows),
        "open": len(still),
        "gpu_hours": sum((hours for row in rows for hours in row["hours"].values()), Fraction(0)),
        "unpriced_gpu_hours": sum((row["unpriced_gpu_hours"] for row in rows), Fraction(0)),
        "costs": costs,
        "costs_a_month": monthly,
        "saves_a_month": saves,
        "keys": [row["key"] for row in ranked[:KEYS_MAX]],
    }


def _of_decision(layer: str, decision: Decision) -> dict[str, Any]:
    return {
        "kind": DECISION,
        "layer": layer,
        "id": decision.id,
        "title": decision.title,
        "remedy": decision.fix,
        "effort": decision.effort,
        "severity": None,
        "findings": 0,
        "open": 0,
        "gpu_hours": None,
        "unpriced_gpu_hours": None,
        "costs": {},
        "costs_a_month": {},
        "saves_a_month": {},
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
    monthly = a_month(hourly * held, window_us)
    return {} if monthly is None else {str(currency): monthly}


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
