"""The authority scorecard as a document: waste, the most expensive layer, what to do first; then the details. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.audit.losses import LOSS
from gpuwatch.core.clock import Window, parse_rfc3339
from gpuwatch.ledger.measures import WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    Block,
    Card,
    Document,
    Heading,
    Headline,
    Numbers,
    Text,
)
from gpuwatch.report.html.markup import name
from gpuwatch.report.scorecard.layers import layer_section
from gpuwatch.report.scorecard.plan import (
    ended,
    keys_text,
    layer_name,
    left_out,
    method_section,
    plan_section,
    unknown_section,
    worth,
)
from gpuwatch.report.scorecard.where import avoidable_part, mostly_unmeasured, where_section
from gpuwatch.report.sections.certainty import AT_LEAST, UP_TO

FIRST = 3
"""Actions of the first page."""
TITLE = "GPU authority scorecard"

Json = Mapping[str, Any]


def document(card: Json, source: str = "") -> Document:
    """The document of a scorecard. `source` names what was audited."""
    sections = [*([where_section(card)] if card["window"] else [])]
    sections += [layer_section(card, layer) for layer in card["layers"]]
    sections += [plan_section(card), unknown_section(card), method_section(card)]
    return Document(
        title=TITLE,
        window=window_text(card),
        head=tuple(_head(card, source)),
        sections=tuple(sections),
        keywords=("GPU", "audit", "placement", "partitioning", "scheduling", "fabric"),
    )


def window_text(card: Json) -> str:
    """The days that a scorecard covers, or that it has no data."""
    if card["window"] is None:
        return "No data" + ("" if card["known"] is None else " in this window")
    span = Window(parse_rfc3339(card["window"]["start"]), parse_rfc3339(card["window"]["end"]))
    return f"{report_text.days(span)}, UTC"


def _head(card: Json, source: str) -> list[Block]:
    blocks: list[Block] = [
        Text(" ".join([f"{window_text(card)}.", *([f"Source: {source}."] if source else [])]), "soft")
    ]
    blocks += [Text(lead(card), "lead"), Numbers(tuple(_numbers(card)))]
    first = card["actions"][:FIRST]
    if first:
        blocks.append(Heading("Do first" if len(first) > 1 else "Do"))
        blocks += [_card(card, action) for action in first]
    return blocks + left_out(card)


def lead(card: Json) -> str:
    """The opening sentences: the waste, and the layer that costs most."""
    if card["window"] is None:
        window = "" if card["known"] is None else " in this window"
        return f"There is no data{window}, so no layer has a grade. The list below shows what to do."
    if not Fraction(card["gpu_hours"]):
        return "The fleet owned no GPU time in this window."
    sentence = avoidable_sentence(card)
    top = next((layer for layer in card["layers"] if layer["id"] == card["costliest"]), None)
    if top is None:
        return f"{sentence} No finding shows which layer causes it."
    return f"{sentence} By its findings, {top['name'].lower()} costs the most: {_lost(card, top)}."


def avoidable_sentence(card: Json) -> str:
    """The waste in a sentence; what was not measured comes first where that is most of the held time."""
    waste, currency = card["waste"], card["currency"]
    before = "" if waste["ratio"] is not None else f"{_sentence(mostly_unmeasured(card))}. "
    if waste["gpu_hours"] is None:
        return f"{before}What this fleet wastes is unknown."
    known, part = bound(card), avoidable_part(card)
    share = "" if part is None else f"{report_text.percent(part[0])} of {part[1]}"
    if waste["cost"] is None:
        hours = report_text.hours(Fraction(waste["gpu_hours"]))
        return f"{before}This fleet wastes {known}{hours} {f'({share})' if share else 'of GPU time'}. Its price is unknown."
    whole = "" if card["cost"] is None else f" of the {report_text.money(Decimal(card['cost']), currency)} it costs"
    sentence = f"{before}This fleet wastes {known}{report_text.money(Decimal(waste['cost']), currency)}{whole}"
    sentence += f": {share}" if share else ""
    return f"{sentence}{a_month(card)}."


def bound(card: Json) -> str:
    """Which way the waste may be wrong. Free time of a dump is an upper bound, unmeasured time of held GPUs a lower one: where a
    dump is also measured in part, neither can be claimed."""
    if card.get("only_dumps"):
        return UP_TO if not card["waste"]["measured_ratio"] else ""
    return AT_LEAST if card["waste"]["ratio"] is None else ""


def a_month(card: Json) -> str:
    """`, $2.14 k a month`, at which rate if little was measured; what was measured where that is too little for a month."""
    monthly, words = card["waste"]["cost_a_month"], card["waste"]["basis"]
    if monthly is None:
        return f" in {words}" if words else ""
    rate = f" at the rate of {words}" if words else ""
    return f", {report_text.money(Decimal(monthly), card['currency'])} a month{rate}"


def _lost(card: Json, layer: Json) -> str:
    if layer["cost"] is not None and Fraction(layer["cost"]):
        return report_text.money(Decimal(layer["cost"]), card["currency"])
    return report_text.hours(Fraction(layer["gpu_hours"] or 0))


def _numbers(card: Json) -> list[Headline]:
    """The waste, then the grade of each layer with the monthly cost of its findings."""
    waste, currency = card["waste"], card["currency"]
    if waste["gpu_hours"] is None:
        wasted = Headline(WORDS["avoidable"], report_text.MISSING, "not measured" if card["window"] else "no data", "")
    elif waste["cost"] is None:
        wasted = Headline(
            WORDS["avoidable"], report_text.hours(Fraction(waste["gpu_hours"])), f"{waste['gpu_hours']} GPU-hours", ""
        )
    else:
        cost, monthly = Decimal(waste["cost"]), waste["cost_a_month"]
        change = "" if monthly is None else f"{report_text.money(Decimal(monthly), currency)} a month"
        wasted = Headline(WORDS["avoidable"], report_text.money(cost, currency), f"{cost} {currency}", change)
    return [wasted, *(_grade(card, layer) for layer in card["layers"])]


def _grade(card: Json, layer: Json) -> Headline:
    shown = layer["grade"] or ("?" if layer["grade_words"] == "not graded" else "\u2013")
    points = (
        "" if layer["points"] is None else f"{layer['points']} points, {layer['letters_lost']} letters lost to money"
    )
    return Headline(layer["name"], shown, points or layer["grade_words"], _monthly(card, layer) or layer["grade_words"])


def _monthly(card: Json, layer: Json) -> str:
    if layer["grade"] is None:
        return ""
    if layer["cost_a_month"] is not None:
        return f"{report_text.money(Decimal(layer['cost_a_month']), card['currency'])} a month"
    return report_text.hours(Fraction(layer["gpu_hours"] or 0))


def _card(card: Json, action: Json) -> Card:
    layer = layer_name(card, action["layer"])
    if action["kind"] == LOSS:
        summary, about = action["summary"], f"{layer} · {action['effort']} of work · the platform team"
    elif action["kind"] == "decision":
        summary, about = action["said"], f"{layer} · {action['effort']} of work · default in use"
    else:
        count = f"{action['findings']:,} {'finding' if action['findings'] == 1 else 'findings'}"
        summary = (
            f"{count}, {action['open']:,} still open"
            if action["open"]
            else f"{count}, {ended(action) or 'none open now'}"
        )
        hours = Fraction(action["gpu_hours"] or 0)
        summary += f": {report_text.hours(hours)} of the window." if hours else "."
        about = f"{layer} · {action['effort']} of work · {keys_text(action)}"
    return Card(action["severity"] or "info", name(action["title"]), worth(action), summary, about, action["remedy"])


def _sentence(text: str) -> str:
    """With a capital at its beginning; the rest as it is."""
    return text[:1].upper() + text[1:]
