"""The authority scorecard: who decides in each layer, what is left to defaults, what that costs, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.audit.decision import DEFAULT, NONE, PART, Decision, gangs
from gpuwatch.audit.evidence import lacking, too_few
from gpuwatch.audit.fabric import fabric, placement
from gpuwatch.audit.figures import HOUR_PLACES, hours_text, money_text
from gpuwatch.audit.partitioning import partitioning
from gpuwatch.audit.plan import actions, claimed, most_expensive, needs_action
from gpuwatch.audit.scheduling import scheduling, writers
from gpuwatch.audit.unknown import unknown
from gpuwatch.audit.waste import waste
from gpuwatch.core.clock import HOUR_US, rfc3339
from gpuwatch.findings.texts import SEVERITY_ORDER
from gpuwatch.ledger.month import Basis, total
from gpuwatch.rules.layers import LAYERS, OTHER
from gpuwatch.rules.rule import layer_of

Row = Mapping[str, Any]

LETTERS = "ABCDF"
GRADES = (("A", 0.9), ("B", 0.75), ("C", 0.5), ("D", 0.25), ("F", 0.0))
"""The lowest points for each letter."""
COST_LIMITS = (Fraction(2, 100), Fraction(10, 100))
"""Parts of the fleet's cost from which the findings of a layer lower its grade by one letter, and by two."""
CRITICAL = "C"
"""The best grade of a layer with an open critical finding."""
SHOWN_MAX = 10
"""Findings shown for a layer."""
NOT_GRADED = "not graded"
NOTHING = "nothing to decide"

RULE = (
    "A decision counts 1 if it was taken, 0 if it is left to a default, and in between by the part of GPU-hours,"
    + " GPUs, nodes or queues. Decisions that cannot be graded or do not arise do not count.",
    "A layer's points are the mean of its decisions: A from 0.9, B from 0.75, C from 0.5, D from 0.25, F below.",
    "The grade drops a letter if the layer's findings cost 2 % of the fleet's cost in the window, two letters at 10 %.",
    "At best C while a critical finding of the layer is open.",
    "Not graded if less than half of the held GPU time was measured; if less than half of the decisions that arise, or only one"
    + " of several, can be graded; Placement if no source shows the links of GPUs, Fabric if none reads their traffic. Unknown is not zero.",
)
"""How grades are computed, as printed on the scorecard."""

_CLAIMED = (
    "findings_count", "open_count", "worst", "gpu_hours", "unpriced_gpu_hours", "cost", "cost_a_month", "findings",
)  # fmt: skip
_DECIDERS = {"placement": placement, "partitioning": partitioning, "scheduling": scheduling, "fabric": fabric}


def scorecard(facts: Row, by_team: bool = False) -> dict[str, Any]:
    """The scorecard as JSON: times in RFC 3339, money and GPU-hours as decimal text, ratios 0..1.

    A fleet's waste is the avoidable measure of its ledger, never a sum of findings: findings attribute parts of it to
    layers. Unknown values are None, and are listed in `unknown` with their fix. `by_team`: each team has its own actions.
    """
    window = facts["window"]
    if window is None:
        return _empty(facts)
    decided = {layer.id: _DECIDERS[layer.id](facts) for layer in LAYERS}
    by_layer: dict[str, list[Row]] = {name: [] for name in (*(layer.id for layer in LAYERS), OTHER)}
    for found in facts["findings"]:
        by_layer[layer_of(found["detector"])].append(found)
    layers = [
        {"id": one.id, "name": one.name, "decides": one.decides}
        | _layer(facts, one.id, decided[one.id], by_layer[one.id])
        for one in LAYERS
    ]
    losses = facts.get("losses", ())
    plan = actions(facts["findings"], decided, facts["basis"], facts["mean_price"], by_team, losses)
    return {
        "window": {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
        "known": {"start": rfc3339(facts["known"].start_us), "end": rfc3339(facts["known"].end_us)},
        "currency": facts["currency"],
        "gpu_hours": hours_text(facts["capacity_gpu_hours"]),
        "cost": money_text(facts["cost"]),
        "unpriced_gpu_hours": hours_text(facts["unpriced_gpu_hours"]),
        "waste": waste(facts),
        "basis": _basis(facts["basis"]),
        "layers": layers,
        "other": _claimed(facts, by_layer[OTHER])
        | {"findings": [_finding(f) for f in most_expensive(by_layer[OTHER])[:SHOWN_MAX]]},
        "costliest": _costliest(layers),
        "writers": writers(facts),
        "gangs": [_gang(row) for row in gangs(facts)],
        "topology": [dict(row) for row in facts["topology"]],
        "mig": [dict(row) for row in facts["mig"]],
        "actions": [_action(action) for action in plan],
        "left_out": sum(not needs_action(one) for one in facts["findings"]),
        "unknown": unknown(facts, decided),
        "rule": list(RULE),
    }


def worst(card: Row) -> str | None:
    """The highest severity among open findings that need action; None without any."""
    found = [layer["worst"] for layer in [*card["layers"], card["other"]] if layer.get("worst")]
    return max(found, key=SEVERITY_ORDER.index) if found else None


def grade(
    decided: Sequence[Decision], claimed: Fraction | None, cost: Fraction | None, critical: bool = False
) -> tuple[str, float | None, int]:
    """(letter, NOT_GRADED or NOTHING; points; letters lost to cost) of a layer's decisions, by RULE.

    `claimed` is what its findings cost in the window, `cost` what the fleet cost; None if unknown. `critical`: one of its
    findings is open and critical.
    """
    arise = [one for one in decided if one.state != NONE]
    ratios = [one.ratio for one in arise if one.ratio is not None]
    if not arise:
        return NOTHING, None, 0
    if too_few(decided):
        return NOT_GRADED, None, 0
    points = sum(ratios) / len(ratios)
    letter = next(name for name, least in GRADES if points >= least)
    lost = 0 if claimed is None or not cost else sum(claimed >= part * cost for part in COST_LIMITS)
    place = min(LETTERS.index(letter) + lost, len(LETTERS) - 1)
    return LETTERS[max(place, LETTERS.index(CRITICAL)) if critical else place], points, lost


def _layer(facts: Row, layer: str, decided: Sequence[Decision], found: Sequence[Row]) -> dict[str, Any]:
    spent = _sum(found, facts["currency"])
    cost = None if facts["cost"] is None else Fraction(facts["cost"])
    claims = _claimed(facts, found)
    letter, points, lost = grade(decided, spent, cost, claims["worst"] == "critical")
    lack = lacking(facts, layer, decided)
    if lack is not None:
        letter, points, lost = NOT_GRADED, None, 0
    arise = [one for one in decided if one.state != NONE]
    return {
        "grade": letter if letter in LETTERS else None,
        "grade_words": letter,
        "not_graded": None if lack is None else lack[0],
        "points": None if points is None else round(points, 4),
        "letters_lost": lost,
        "decisions_judged": sum(one.ratio is not None for one in arise),
        "decisions": [one.as_dict() for one in decided],
        "defaults": [f"{one.title}: {one.sentence}" for one in decided if one.state in (DEFAULT, PART)],
        **claims,
        "findings": [_finding(one) for one in most_expensive(found)[:SHOWN_MAX]],
    }


def _claimed(facts: Row, found: Sequence[Row]) -> dict[str, Any]:
    """How many findings, how many are open, the worst open one, and what all of them claimed of the window."""
    live = [one["severity"] for one in found if one["state"] != "resolved" and needs_action(one)]
    cost = _sum(found, facts["currency"])
    monthly = total(None if cost is None else claimed(one).a_month(facts["basis"]) for one in found)
    return {
        "findings_count": len(found),
        "open_count": len(live),
        "worst": max(live, key=SEVERITY_ORDER.index) if live else None,
        "gpu_hours": hours_text(sum((h for one in found for h in one["hours"].values()), Fraction(0))),
        "unpriced_gpu_hours": hours_text(sum((one["unpriced_gpu_hours"] for one in found), Fraction(0))),
        "cost": money_text(cost),
        "cost_a_month": money_text(monthly),
    }


def _sum(found: Iterable[Row], currency: str | None) -> Fraction | None:
    """What findings cost in this currency; None if some cost is in another, nothing has a price, or the fleet has none."""
    if currency is None:
        return None
    total, lacking = Fraction(0), Fraction(0)
    priced = False
    for one in found:
        lacking += one["unpriced_gpu_hours"]
        for name, cost in one["costs"].items():
            if name != currency:
                return None
            total, priced = total + cost, True
    return None if lacking and not priced else total


def _costliest(layers: Sequence[Row]) -> str | None:
    """The layer whose findings claimed most money (GPU-hours if some money is unknown). None if nothing was claimed."""
    by_cost = all(layer["cost"] is not None for layer in layers)
    name = "cost" if by_cost else "gpu_hours"
    top = max(layers, key=lambda layer: Fraction(layer[name]))
    return top["id"] if Fraction(top[name]) else None


def _finding(found: Row) -> dict[str, Any]:
    """A finding as the scorecard shows it, with what it claimed of the window."""
    names = ("key", "detector", "title", "severity", "state", "cluster", "subject", "team", "summary", "remedy")
    costs = found["costs"]
    return {name: found[name] for name in names} | {
        "gpu_hours": hours_text(sum(found["hours"].values(), Fraction(0))),
        "cost": money_text(next(iter(costs.values()))) if len(costs) == 1 else None,
        "currency": next(iter(costs)) if len(costs) == 1 else None,
    }


def _gang(row: Row) -> dict[str, Any]:
    names = ("cluster", "authority", "gate", "whole", "topology", "runs", "jobs")
    return {name: row[name] for name in names} | {"gpu_hours": round(row["gpu_hours"], HOUR_PLACES)}


def _basis(basis: Basis) -> dict[str, Any]:
    """The hours that costs were counted in."""
    return {
        "recorded_hours": hours_text(Fraction(basis.recorded_us, HOUR_US)),
        "measured_hours": hours_text(Fraction(basis.measured_us, HOUR_US)),
    }


_MONEY = ("costs", "costs_a_month", "saves_a_month", "lost")


def _action(action: Row) -> dict[str, Any]:
    """An action with its money as text; None without money in one currency."""
    shown = {name: value for name, value in action.items() if name not in _MONEY}
    currencies = sorted({*action["costs"], *action["saves_a_month"], *action["lost"]})
    one = currencies[0] if len(currencies) == 1 else None
    for name in ("gpu_hours", "unpriced_gpu_hours", "lost_gpu_hours"):
        shown[name] = None if action[name] is None else hours_text(action[name])
    shown["places"] = [
        place | {"cost": money_text(place["cost"]), "gpu_hours": hours_text(place["gpu_hours"])}
        for place in action.get("places", ())
    ]
    return (
        {"ratio": None, "said": None, "summary": ""}
        | shown
        | {
            "currency": one,
            "cost": money_text(action["costs"].get(one)),
            "cost_a_month": money_text(action["costs_a_month"].get(one)),
            "saves_a_month": money_text(action["saves_a_month"].get(one)),
            "lost_cost": money_text(action["lost"].get(one)),
        }
    )


def _empty(facts: Row) -> dict[str, Any]:
    """The scorecard without data for the requested window."""
    known, requested = facts["known"], facts.get("asked")
    what, fix = (
        "The ledger is empty.",
        "gpuwatch import bundle BUNDLE; gpuwatch analyze. docs/connect/sources.md lists what to import.",
    )
    if known is not None:
        span = f"{rfc3339(known.start_us)},{rfc3339(known.end_us)}"
        whole = requested is None or -(-requested.start_us // HOUR_US) < requested.end_us // HOUR_US
        what = (
            "The ledger has no data for this window."
            if whole
            else "This window has no whole hour; only whole hours are graded."
        )
        fix = f"Choose a window within: --window {span}"
    blank: dict[str, Any] = {
        "grade": None, "grade_words": NOT_GRADED, "not_graded": None, "points": None, "letters_lost": 0, "decisions_judged": 0,
        "decisions": [], "defaults": [], "findings_count": 0, "open_count": 0, "worst": None, "gpu_hours": None,
        "unpriced_gpu_hours": None, "cost": None, "cost_a_month": None, "findings": [],
    }  # fmt: skip
    return {
        "window": None,
        "known": None if known is None else {"start": rfc3339(known.start_us), "end": rfc3339(known.end_us)},
        "currency": None,
        "gpu_hours": None,
        "cost": None,
        "unpriced_gpu_hours": None,
        "waste": {
            "gpu_hours": None, "cost": None, "cost_a_month": None, "basis": "", "ratio": None, "measured_ratio": None,
            "roofline_efficiency": None, "explained_gpu_hours": None, "buckets": [],
        },
        "basis": None,
        "layers": [{"id": one.id, "name": one.name, "decides": one.decides} | blank for one in LAYERS],
        "other": {name: blank[name] for name in _CLAIMED},
        "costliest": None,
        "writers": [],
        "gangs": [],
        "topology": [],
        "mig": [],
        "actions": [],
        "left_out": 0,
        "unknown": [{"layer": "", "what": what, "fix": fix}],
        "rule": list(RULE),
    }  # fmt: skip
