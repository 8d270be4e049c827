"""The authority scorecard: who decides in each layer, what is left to defaults, what it costs, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpuwatch.audit.decision import DEFAULT, NONE, PART, UNKNOWN, Decision, gangs, named
from gpuwatch.audit.fabric import fabric, placement
from gpuwatch.audit.partitioning import partitioning
from gpuwatch.audit.plan import a_month, actions, asks, dearest
from gpuwatch.audit.scheduling import scheduling, writers
from gpuwatch.core.clock import HOUR_US, rfc3339
from gpuwatch.core.money import CENT_PLACES, format_quantity, largest_remainder
from gpuwatch.findings.read import SEVERITY_ORDER
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.rules.layers import LAYERS, OTHER
from gpuwatch.rules.rule import layer_of

Row = Mapping[str, Any]

WASTE = ("hoarded", "gap", "communication", "stalled", "stranded", "mig_remainder", "out_of_service")
"""Buckets that are paid for without work: held and idle or waiting, or held by nobody and of no use to anybody."""
LETTERS = "ABCDF"
GRADES = (("A", 0.9), ("B", 0.75), ("C", 0.5), ("D", 0.25), ("F", 0.0))
"""Points from which on a layer has a letter."""
DEAR = (Fraction(2, 100), Fraction(10, 100))
"""Parts of what the fleet cost from which on findings of a layer cost it a letter, and another."""
CRITICAL = "C"
"""The best letter of a layer with an open critical finding."""
JUDGED_MIN = 0.5
"""Where less of a layer's decisions can be judged, its grade is not known."""
ALONE = 2
"""Neither is it where only one of several can."""
SHOWN_MAX = 10
"""Findings that a layer shows."""
HOUR_PLACES = 3
MANY_HOURS = 10
NOT_KNOWN = "not known"
NOTHING = "nothing to decide"

RULE = (
    "A decision counts 1 where somebody took it, 0 where it is left to a default, and in between by the part of GPU-hours,"
    + " GPUs, nodes or queues. What cannot be judged, and what does not arise, does not count.",
    "The mean of a layer's decisions is its points: A from 0.9, B from 0.75, C from 0.5, D from 0.25, F below.",
    "A letter less where findings of the layer cost 2 % of what the fleet cost in the window, two where they cost 10 %.",
    "At best C while a critical finding of the layer is open.",
    "Not known where less than half of the decisions that arise, or only one of several, can be judged. Unknown is not zero.",
)
"""How a grade comes about, as it is printed."""

_PLACES = (("links", "placement", "what links their GPUs"), ("network", "fabric", "their place in the network"))
"""What nodes may lack: as topology_store.missing says it, the layer whose decision `KIND-told` has the fix, in words."""
_CLAIMED = (
    "findings_count", "open_count", "worst", "gpu_hours", "unpriced_gpu_hours", "cost", "cost_a_month", "findings",
)  # fmt: skip
_DECIDERS = {"placement": placement, "partitioning": partitioning, "scheduling": scheduling, "fabric": fabric}


def card(facts: Row) -> dict[str, Any]:
    """The scorecard of audit_facts.read, as JSON has it: times RFC 3339, money and GPU-hours decimal text, ratios 0..1.

    A fleet's waste is the sum over WASTE buckets of its books, never a sum of findings: these say whose layer a part of
    it is. What nobody knows is None, and is in `unknown` with its fix.
    """
    window = facts["window"]
    if window is None:
        return _empty(facts)
    window_us = window.end_us - window.start_us
    decided = {layer.id: _DECIDERS[layer.id](facts) for layer in LAYERS}
    by_layer: dict[str, list[Row]] = {name: [] for name in (*(layer.id for layer in LAYERS), OTHER)}
    for found in facts["findings"]:
        by_layer[layer_of(found["detector"])].append(found)
    layers = [
        {"id": one.id, "name": one.name, "decides": one.decides}
        | _layer(facts, decided[one.id], by_layer[one.id], window_us)
        for one in LAYERS
    ]
    told = actions(facts["findings"], decided, window_us)
    return {
        "window": {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)},
        "known": {"start": rfc3339(facts["known"].start_us), "end": rfc3339(facts["known"].end_us)},
        "currency": facts["currency"],
        "gpu_hours": _hours(facts["capacity_gpu_hours"]),
        "cost": _money(facts["cost"]),
        "unpriced_gpu_hours": _hours(facts["unpriced_gpu_hours"]),
        "waste": _waste(facts, window_us),
        "layers": layers,
        "other": _claimed(facts, by_layer[OTHER], window_us)
        | {"findings": [_told(f) for f in dearest(by_layer[OTHER])[:SHOWN_MAX]]},
        "costliest": _costliest(layers),
        "writers": writers(facts),
        "gangs": [_gang(row) for row in gangs(facts)],
        "topology": [dict(row) for row in facts["topology"]],
        "mig": [dict(row) for row in facts["mig"]],
        "actions": [_action(action) for action in told],
        "left_out": sum(not asks(one) for one in facts["findings"]),
        "unknown": _unknown(facts, decided),
        "rule": list(RULE),
    }


def worst(told: Row) -> str | None:
    """The gravest severity of findings that are not over and ask for something; None where there is none."""
    found = [layer["worst"] for layer in [*told["layers"], told["other"]] if layer.get("worst")]
    return max(found, key=SEVERITY_ORDER.index) if found else None


def grade(
    decided: Sequence[Decision], claimed: Fraction | None, cost: Fraction | None, critical: bool = False
) -> tuple[str, float | None, int]:
    """(letter, NOT_KNOWN or NOTHING; points; letters lost to money) of a layer's decisions, by RULE.

    `claimed` is what its findings cost in the window, `cost` what the fleet cost; None where either is not known.
    `critical`: one of them is open and critical.
    """
    arise = [one for one in decided if one.state != NONE]
    ratios = [one.ratio for one in arise if one.ratio is not None]
    if not arise:
        return NOTHING, None, 0
    if len(ratios) < len(arise) and (len(ratios) < ALONE or len(ratios) < JUDGED_MIN * len(arise)):
        return NOT_KNOWN, None, 0
    points = sum(ratios) / len(ratios)
    letter = next(name for name, least in GRADES if points >= least)
    lost = 0 if claimed is None or not cost else sum(claimed >= part * cost for part in DEAR)
    place = min(LETTERS.index(letter) + lost, len(LETTERS) - 1)
    return LETTERS[max(place, LETTERS.index(CRITICAL)) if critical else place], points, lost


def _layer(facts: Row, decided: Sequence[Decision], found: Sequence[Row], window_us: int) -> dict[str, Any]:
    claimed = _sum(found, facts["currency"])
    cost = None if facts["cost"] is None else Fraction(facts["cost"])
    told = _claimed(facts, found, window_us)
    letter, points, lost = grade(decided, claimed, cost, told["worst"] == "critical")
    arise = [one for one in decided if one.state != NONE]
    return {
        "grade": letter if letter in LETTERS else None,
        "grade_words": letter,
        "points": None if points is None else round(points, 4),
        "letters_lost": lost,
        "decisions_judged": sum(one.ratio is not None for one in arise),
        "decisions": [one.as_dict() for one in decided],
        "defaults": [f"{one.title}: {one.said}" for one in decided if one.state in (DEFAULT, PART)],
        **told,
        "findings": [_told(one) for one in dearest(found)[:SHOWN_MAX]],
    }


def _claimed(facts: Row, found: Sequence[Row], window_us: int) -> dict[str, Any]:
    """How many findings, how many are open, the worst of these, and what all claimed of the window."""
    live = [one["severity"] for one in found if one["state"] != "resolved" and asks(one)]
    cost = _sum(found, facts["currency"])
    monthly = None if cost is None else a_month(cost, window_us)
    return {
        "findings_count": len(found),
        "open_count": len(live),
        "worst": max(live, key=SEVERITY_ORDER.index) if live else None,
        "gpu_hours": _hours(sum((h for one in found for h in one["hours"].values()), Fraction(0))),
        "unpriced_gpu_hours": _hours(sum((one["unpriced_gpu_hours"] for one in found), Fraction(0))),
        "cost": _money(cost),
        "cost_a_month": _money(monthly),
    }


def _sum(found: Iterable[Row], currency: str | None) -> Fraction | None:
    """What findings cost in this currency; None where some of it is in another, where nothing of it has a price, and where
    the fleet has none.
    """
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


def _waste(facts: Row, window_us: int) -> dict[str, Any]:
    """The sum over WASTE buckets, and every bucket beside it; cents add up as they are shown."""
    buckets = facts["buckets"]
    priced = [name for name, one in buckets.items() if one["cost"] is not None]
    shown = dict(
        zip(priced, largest_remainder([buckets[name]["cost"] for name in priced], CENT_PLACES, priced), strict=True)
    )
    there = [name for name in WASTE if name in buckets]
    hours = sum((buckets[name]["gpu_hours"] for name in there), Fraction(0))
    lacks = any(name not in shown for name in there)
    cost = None if lacks else sum((Fraction(shown[name]) for name in there), Fraction(0))
    said = sum((h for one in facts["findings"] for name, h in one["hours"].items() if name in WASTE), Fraction(0))
    return {
        "gpu_hours": _hours(hours),
        "cost": _money(cost),
        "cost_a_month": _money(None if cost is None else a_month(cost, window_us)),
        "ratio": None if not facts["capacity_gpu_hours"] else round(float(hours / facts["capacity_gpu_hours"]), 6),
        "explained_gpu_hours": _hours(said),
        "buckets": [
            {
                "bucket": name,
                "waste": name in WASTE,
                "gpu_hours": _hours(buckets[name]["gpu_hours"]),
                "cost": _money(shown.get(name)),
            }
            for name in BUCKET_WORDS
            if name in buckets
        ],
    }


def _costliest(layers: Sequence[Row]) -> str | None:
    """The layer whose findings claimed most; by GPU-hours where money is not known of all. None where nothing was claimed."""
    by_cost = all(layer["cost"] is not None for layer in layers)
    name = "cost" if by_cost else "gpu_hours"
    top = max(layers, key=lambda layer: Fraction(layer[name]))
    return top["id"] if Fraction(top[name]) else None


def _unknown(facts: Row, decided: Mapping[str, Sequence[Decision]]) -> list[dict[str, str]]:
    """What could not be judged and the fix, once each."""
    told = [
        {"layer": layer, "what": f"{one.title}: {one.said}", "fix": one.fix}
        for layer, many in decided.items()
        for one in many
        if one.state == UNKNOWN
    ]
    if facts["unpriced_gpu_hours"]:
        hours = _said(facts["unpriced_gpu_hours"])
        fix = "Add their models to rates.csv (gpuwatch doctor prints the lines)."
        told.append({"layer": "", "what": f"{hours} GPU-hours have no rate: their money is not known.", "fix": fix})
    blind = facts["buckets"].get("unobserved", {}).get("gpu_hours")
    if blind:
        what = f"{_said(blind)} held GPU-hours were not measured: neither work nor waste."
        told.append(
            {"layer": "", "what": what, "fix": "Run dcgm-exporter on these nodes (gpuwatch doctor names them)."}
        )
    for kind, layer, what in _PLACES:
        nodes = [str(row["node"]) for row in facts["missing"] if row["what"] == kind]
        own = next(one for one in decided[layer] if one.id == f"{kind}-told")
        if nodes and own.state == PART:
            what = f"Of {len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} nobody tells {what}: {named(nodes)}."
            told.append({"layer": layer, "what": what, "fix": own.fix})
    odd = [row for row in facts["gang"] if not row["known"]]
    if odd:
        jobs = sum(row["runs"] for row in odd)
        what = f"{jobs} {'job' if jobs == 1 else 'jobs'} held GPUs in several pods or nodes, and nothing says whether that was one gang."
        told.append(
            {
                "layer": "scheduling",
                "what": what,
                "fix": "Label them (training.kubeflow.org/job-name), or give them a PodGroup.",
            }
        )
    return told


def _told(found: Row) -> dict[str, Any]:
    """A finding as the card shows it: what it claimed of the window."""
    names = ("key", "detector", "title", "severity", "state", "cluster", "subject", "team", "summary", "remedy")
    costs = found["costs"]
    return {name: found[name] for name in names} | {
        "gpu_hours": _hours(sum(found["hours"].values(), Fraction(0))),
        "cost": _money(next(iter(costs.values()))) if len(costs) == 1 else None,
        "currency": next(iter(costs)) if len(costs) == 1 else None,
    }


def _gang(row: Row) -> dict[str, Any]:
    names = ("cluster", "authority", "gate", "whole", "topology", "runs", "jobs")
    return {name: row[name] for name in names} | {"gpu_hours": round(row["gpu_hours"], HOUR_PLACES)}


def _action(action: Row) -> dict[str, Any]:
    """An action with its money as text; None where there is none in one currency."""
    told = {name: value for name, value in action.items() if name not in ("costs", "costs_a_month", "saves_a_month")}
    currencies = sorted({*action["costs"], *action["saves_a_month"]})
    one = currencies[0] if len(currencies) == 1 else None
    for name in ("gpu_hours", "unpriced_gpu_hours"):
        told[name] = None if action[name] is None else _hours(action[name])
    return (
        {"ratio": None, "said": None}
        | told
        | {
            "currency": one,
            "cost": _money(action["costs"].get(one)),
            "cost_a_month": _money(action["costs_a_month"].get(one)),
            "saves_a_month": _money(action["saves_a_month"].get(one)),
        }
    )


def _empty(facts: Row) -> dict[str, Any]:
    """The card of books that know nothing of what was asked."""
    known, asked = facts["known"], facts.get("asked")
    what, fix = (
        "The books are empty.",
        "gpuwatch import bundle BUNDLE; gpuwatch analyze. docs/sources.md says what to bring.",
    )
    if known is not None:
        span = f"{rfc3339(known.start_us)},{rfc3339(known.end_us)}"
        whole = asked is None or -(-asked.start_us // HOUR_US) < asked.end_us // HOUR_US
        what = (
            "The books know nothing of this window."
            if whole
            else "This window has no whole hour: only such are judged."
        )
        fix = f"Ask for a part of what they know: --window {span}"
    blank: dict[str, Any] = {
        "grade": None, "grade_words": NOT_KNOWN, "points": None, "letters_lost": 0, "decisions_judged": 0,
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
        "waste": {"gpu_hours": None, "cost": None, "cost_a_month": None, "ratio": None, "explained_gpu_hours": None, "buckets": []},
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


def _money(amount: Any) -> str | None:
    return None if amount is None else format_quantity(Fraction(amount), CENT_PLACES)


def _said(hours: Fraction) -> str:
    """In a sentence: whole hours where there are many."""
    return f"{round(hours):,}" if hours >= MANY_HOURS else _hours(hours)


def _hours(hours: Fraction) -> str:
    return format_quantity(hours, HOUR_PLACES)
