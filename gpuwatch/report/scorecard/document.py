"""The authority scorecard as a document: waste, the most expensive layer, what to do first; then the details. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import Window, parse_rfc3339
from gpuwatch.output.listing import BUCKET_WORDS
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    TOTAL,
    Bar,
    Block,
    Card,
    Cell,
    Column,
    Document,
    Heading,
    Numbers,
    Row,
    Section,
    Table,
    Text,
    row,
)
from gpuwatch.report.headlines import Headline
from gpuwatch.report.html.markup import name
from gpuwatch.report.scorecard.layers import layer_section
from gpuwatch.report.scorecard.plan import (
    keys_text,
    layer_name,
    left_out,
    method_section,
    plan_section,
    unknown_section,
    worth,
)

FIRST = 3
"""Actions of the first page."""
TITLE = "GPU authority scorecard"

Json = Mapping[str, Any]


def document(card: Json, source: str = "") -> Document:
    """The document of a scorecard. `source` names what was audited."""
    sections = [*([_where(card)] if card["window"] else [])]
    sections += [layer_section(card, layer) for layer in card["layers"]]
    sections += [plan_section(card), unknown_section(card), method_section(card)]
    return Document(
        title=TITLE,
        window=_window(card),
        head=tuple(_head(card, source)),
        sections=tuple(sections),
        keywords=("GPU", "audit", "placement", "partitioning", "scheduling", "fabric"),
    )


def _window(card: Json) -> str:
    if card["window"] is None:
        return "No data" + ("" if card["known"] is None else " in this window")
    span = Window(parse_rfc3339(card["window"]["start"]), parse_rfc3339(card["window"]["end"]))
    return f"{report_text.days(span)}, UTC"


def _head(card: Json, source: str) -> list[Block]:
    blocks: list[Block] = [Text(" ".join([f"{_window(card)}.", *([f"Source: {source}."] if source else [])]), "soft")]
    blocks += [Text(lead(card), "lead"), Numbers(tuple(_numbers(card)))]
    first = card["actions"][:FIRST]
    if first:
        blocks.append(Heading("Do first" if len(first) > 1 else "Do"))
        blocks += [_card(card, action) for action in first]
    return blocks + left_out(card)


def lead(card: Json) -> str:
    """The opening sentences: the waste, and the layer that costs most."""
    waste, currency = card["waste"], card["currency"]
    if card["window"] is None:
        window = "" if card["known"] is None else " in this window"
        return f"There is no data{window}, so no layer has a grade. The list below shows what to do."
    if not Fraction(card["gpu_hours"]):
        return "The fleet owned no GPU time in this window."
    part = report_text.percent(Fraction(str(waste["ratio"])))
    if waste["cost"] is None:
        hours = report_text.hours(Fraction(waste["gpu_hours"]))
        sentence = f"This fleet wastes {part} of its GPU time: {hours}. Its price is unknown."
    else:
        paid = "" if card["cost"] is None else f" of the {report_text.money(Decimal(card['cost']), currency)} paid"
        monthly = waste["cost_a_month"]
        sentence = (
            f"This fleet wastes {report_text.money(Decimal(waste['cost']), currency)}{paid}: {part} of its GPU time"
        )
        sentence += f", {report_text.money(Decimal(monthly), currency)} a month." if monthly else "."
    top = next((layer for layer in card["layers"] if layer["id"] == card["costliest"]), None)
    if top is None:
        return f"{sentence} No finding shows which layer causes it."
    return f"{sentence} By its findings, {top['name'].lower()} costs the most: {_lost(card, top)}."


def _lost(card: Json, layer: Json) -> str:
    if layer["cost"] is not None and Fraction(layer["cost"]):
        return report_text.money(Decimal(layer["cost"]), card["currency"])
    return report_text.hours(Fraction(layer["gpu_hours"] or 0))


def _numbers(card: Json) -> list[Headline]:
    """The waste, then the grade of each layer with the monthly cost of its findings."""
    waste, currency = card["waste"], card["currency"]
    if waste["gpu_hours"] is None:
        wasted = Headline("Wasted", report_text.MISSING, "no data", "")
    elif waste["cost"] is None:
        wasted = Headline(
            "Wasted", report_text.hours(Fraction(waste["gpu_hours"])), f"{waste['gpu_hours']} GPU-hours", ""
        )
    else:
        cost, monthly = Decimal(waste["cost"]), waste["cost_a_month"]
        change = "" if monthly is None else f"{report_text.money(Decimal(monthly), currency)} a month"
        wasted = Headline("Wasted", report_text.money(cost, currency), f"{cost} {currency}", change)
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
    if action["kind"] == "decision":
        summary, about = action["said"], f"{layer} · {action['effort']} of work · default in use"
    else:
        count = f"{action['findings']:,} {'finding' if action['findings'] == 1 else 'findings'}"
        summary = f"{count}, {action['open']:,} still open" if action["open"] else f"{count}, none open now"
        hours = Fraction(action["gpu_hours"] or 0)
        summary += f": {report_text.hours(hours)} of the window." if hours else "."
        about = f"{layer} · {action['effort']} of work · {keys_text(action)}"
    return Card(action["severity"] or "info", name(action["title"]), worth(action), summary, about, action["remedy"])


def _where(card: Json) -> Section:
    """The buckets of the ledger, with the total waste below."""
    buckets = {one["bucket"]: one for one in card["waste"]["buckets"]}
    places = report_text.places_of([None if one["cost"] is None else Decimal(one["cost"]) for one in buckets.values()])
    figures = _figures(buckets, places)
    rows = [*_bucket_rows(buckets, {name: _figure(one, places, card["currency"]) for name, one in figures.items()})]
    waste = card["waste"]
    lost = [figures[bucket] for bucket, one in buckets.items() if one["waste"]]
    whole_cost = None if None in lost else sum((one for one in lost if one is not None), Decimal(0))
    cost = _figure(whole_cost, places, card["currency"])
    ratio = None if waste["ratio"] is None else Fraction(str(waste["ratio"]))
    hours = Fraction(waste["gpu_hours"])
    bar = Cell(bar=Bar(TOTAL, Fraction(0), ratio or Fraction(0), "Waste"))
    rows.append(row(["Total waste", bar, cost, report_text.count(hours), report_text.percent(ratio), ""], "sum"))
    columns = (
        Column("", label=True, part=2.7),
        Column("", chart=True, part=2.8),
        Column("Cost", number=True),
        Column("GPU-hours", number=True, wide=True),
        Column("Share", number=True, part=0.8),
        Column("", part=0.8, wide=True),
    )
    note = (
        f"Findings explain {report_text.hours(Fraction(waste['explained_gpu_hours']))} of it. The rest is short, scattered, or has "
        "a cause that no rule covers. The cost of a finding is part of these buckets, never added to them."
    )
    return Section(
        f"Where the GPU time went: {report_text.percent(ratio)} of it is waste",
        (Table(columns, tuple(rows), "fall"), Text(note, "soft")),
    )


def _bucket_rows(buckets: Mapping[str, Json], costs: Mapping[str, str]) -> Iterator[Row]:
    """A row with a bar for each bucket; the bars follow each other."""
    whole = sum((Fraction(one["gpu_hours"]) for one in buckets.values()), Fraction(0))
    start = Fraction(0)
    for bucket in filter(buckets.__contains__, BUCKET_WORDS):
        hours = Fraction(buckets[bucket]["gpu_hours"])
        length = hours / whole if whole else Fraction(0)
        share, label = report_text.percent(length), BUCKET_WORDS[bucket]
        bar = Cell(bar=Bar(bucket, start, length, f"{label}: {share}"))
        waste = "waste" if buckets[bucket]["waste"] else ""
        yield row([Cell(label, swatch=bucket), bar, costs[bucket], report_text.count(hours), share, waste])
        start += length


def _figures(buckets: Mapping[str, Json], places: int) -> dict[str, Decimal | None]:
    """The cost of each bucket as shown: wasteful ones add up to the waste in the opening sentence."""
    figures: dict[str, Decimal | None] = {}
    for waste in (True, False):
        costs = {
            name: None if one["cost"] is None else Decimal(one["cost"])
            for name, one in buckets.items()
            if one["waste"] is waste
        }
        figures |= dict(zip(costs, report_text.figures(list(costs.values()), places), strict=True))
    return figures


def _figure(cost: Decimal | None, places: int, currency: str | None) -> str:
    return report_text.NO_PRICE if cost is None else report_text.plain(cost, places, currency)
