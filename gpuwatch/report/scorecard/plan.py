"""The action plan of the authority scorecard, what could not be evaluated, and the method. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.audit.losses import LOSS
from gpuwatch.core.clock import from_us, parse_rfc3339
from gpuwatch.report import text as report_text
from gpuwatch.report.document import Block, Column, Row, Section, Table, Terms, Text, row
from gpuwatch.report.html.markup import name
from gpuwatch.report.sections import certainty

PLAN_MAX = 40
"""Actions of the plan; the JSON file has all."""
KEYS_SHOWN = 2

Json = Mapping[str, Any]


def plan_section(card: Json) -> Section:
    """The actions of all layers."""
    acts = card["actions"]
    if not acts:
        return Section(
            "Action plan: nothing to do",
            (Text("No finding needs action, and no decision is left to a default."), *left_out(card)),
        )
    rows: list[Row] = []
    for action in acts[:PLAN_MAX]:
        prefix = "Decide: " if action["kind"] == "decision" else ""
        over = f" ({ended(action)})" if ended(action) else ""
        text = f"{prefix}{name(action['title'])}{over}. {action['remedy']}"
        layer = layer_name(card, action["layer"])
        rows.append(row([str(action["rank"]), text, layer, action["effort"], keys_text(action, 1), worth(action, "")]))
    columns = (
        Column("", number=True, part=0.42),
        Column("Action", part=4.2),
        Column("Layer", wide=True, label=True, part=1.1),
        Column("Effort", wide=True, label=True, part=0.7),
        Column("Findings", wide=True, part=2.5),
        Column("At stake" if card["waste"]["cost_a_month"] is None else "A month", number=True, part=1.1),
    )
    blocks: list[Block] = [Table(columns, tuple(rows), "plain")]
    if len(acts) > PLAN_MAX:
        blocks.append(Text(f"{len(acts) - PLAN_MAX} more are in scorecard.json.", "soft"))
    blocks += left_out(card)
    count = f"{len(acts)} {'action' if len(acts) == 1 else 'actions'}"
    return Section(f"Action plan: {count}, those worth most first", tuple(blocks))


def unknown_section(card: Json) -> Section:
    """What could not be evaluated, one row for each fix."""
    by_fix: dict[str, list[Json]] = {}
    for one in card["unknown"]:
        by_fix.setdefault(one["fix"], []).append(one)
    rows = []
    for fix, many in by_fix.items():
        layers = dict.fromkeys(layer_name(card, one["layer"]) if one["layer"] else "All" for one in many)
        rows.append(row([", ".join(layers), " ".join(dict.fromkeys(one["what"] for one in many)), fix]))
    if not rows:
        text = Text("Every relevant decision could be evaluated.")
        return Section("Not evaluated: nothing", (text,), "quality")
    columns = (Column("Layer", wide=True, label=True, part=1.1), Column("Unknown", part=3), Column("Fix", part=4))
    count = f"{len(rows)} {'thing' if len(rows) == 1 else 'things'}"
    return Section(f"Not evaluated: {count}", (Table(columns, tuple(rows), "plain"),), "quality")


METHOD = (
    (
        "Avoidable",
        "Waste: GPU time that was held but idle, waiting, or busy without work; free GPUs as far as usual requests cannot use them; and work "
        + "below the peak as far as findings claim it. Other free GPUs, work below the peak, unmeasured time and GPUs out of "
        + "service are not waste.",
    ),
    (
        "Cost of findings",
        "The GPU time that a finding claims within the window, at the price of that device and hour. No microsecond "
        + "is claimed twice.",
    ),
    (
        "A month",
        "The cost of a day over the days that were measured, times 30.4375; for free GPUs, over the days with records. An open "
        + "finding counts the days since it began. Less than 24 hours are not projected: the cost so far is shown instead.",
    ),
    (
        "Lost work",
        "The cost of runs that failed, since each finding began. It is not waste and in no total: the ledger counts the same "
        + f"GPU time by what the GPUs did. {certainty.SMALL_LOSSES}",
    ),
    certainty.CERTAINTY,
    ("Savings", "From another GPU size, spot capacity, owning or renting. Savings are not waste and are in no total."),
)
"""Terms that the scorecard and the scan share."""


def method_section(card: Json) -> Section:
    """How grades, waste, costs and the order of actions were computed."""
    terms = (
        ("Grades", " ".join(card["rule"])),
        *METHOD,
        ("Effort", "hours: a setting, or a talk with the owner. days: a change to roll out. weeks: a project."),
        (
            "Order of actions",
            "Cost a day times certainty; those without money after them, unless they are critical; then those whose waste has ended. "
            + "Decisions left to defaults come last: their cost is that of the findings they cause.",
        ),
    )
    return Section("How this was computed", (Terms(terms),), "how")


def left_out(card: Json) -> list[Block]:
    """The number of findings that the plan leaves out by decision of their owners; empty without any."""
    return [Text(sentence, "soft")] if (sentence := left_out_sentence(card)) else []


def left_out_sentence(card: Json) -> str:
    """The sentence about findings that are left out; empty without any."""
    many = card["left_out"]
    owner = "finding that its owner" if many == 1 else "findings that their owners"
    return f"Left out: {many:,} {owner} exempted or marked as a false positive." if many else ""


def worth(action: Json, unit: str = " a month") -> str:
    """`$2.02 k a month`: what an action is worth, what it saves, `$6.48 k of lost work`, or `not counted`."""
    if action["kind"] == "decision":
        return "default in use"
    if action["kind"] == "lost":
        return lost(action)
    most = certainty.UP_TO if action["kind"] == LOSS else ""
    for field, before in (("cost_a_month", most), ("saves_a_month", "saves ")):
        if action[field] is not None and Fraction(action[field]):
            return f"{before}{report_text.money(Decimal(action[field]), action['currency'])}{unit}"
    if action["cost"] is not None and Fraction(action["cost"]):
        when = f" in {action['counted'] or 'this window'}" if unit else ""
        return f"{report_text.money(Decimal(action['cost']), action['currency'])}{when}"
    if action["gpu_hours"] and Fraction(action["gpu_hours"]):
        return report_text.hours(Fraction(action["gpu_hours"]))
    return "not counted"


def ended(action: Json) -> str:
    """`ended 22 Nov 18:00`; empty where something goes on."""
    return "" if action["ended_at"] is None else f"ended {from_us(parse_rfc3339(action['ended_at'])):%-d %b %H:%M}"


def lost(action: Json) -> str:
    """The cost of lost work, or its GPU-hours without a price."""
    if action["lost_cost"] is None:
        return f"{report_text.hours(Fraction(action['lost_gpu_hours']))} of lost work"
    return f"{report_text.money(Decimal(action['lost_cost']), action['currency'])} of lost work"


def keys_text(action: Json, shown: int = KEYS_SHOWN) -> str:
    keys: Sequence[str] = action["keys"]
    more = action["findings"] - min(shown, len(keys))
    return ", ".join(keys[:shown]) + (f" and {more} more" if more > 0 else "")


def layer_name(card: Json, layer: str) -> str:
    return next((str(one["name"]) for one in card["layers"] if one["id"] == layer), "Site rules")
