"""The authority scorecard as a document: what is wasted, which layer costs most, what to do first; then the proof. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    Terms,
    Text,
    row,
)
from gpuwatch.report.headlines import Headline
from gpuwatch.report.html.markup import name
from gpuwatch.report.scorecard.layers import layer_section

FIRST = 3
"""Actions of the first page."""
PLAN_MAX = 40
"""Actions of the plan; the JSON file has all."""
KEYS_SHOWN = 2
TITLE = "GPU authority scorecard"

Told = Mapping[str, Any]


def document(card: Told, source: str = "") -> Document:
    """The scorecard of audit_card.card. `source` says what was audited."""
    sections = [*([_where(card)] if card["window"] else [])]
    sections += [layer_section(card, layer) for layer in card["layers"]]
    sections += [_plan(card), _unknown(card), _how(card)]
    return Document(
        title=TITLE,
        window=_window(card),
        head=tuple(_head(card, source)),
        sections=tuple(sections),
        keywords=("GPU", "audit", "placement", "partitioning", "scheduling", "fabric"),
    )


def _window(card: Told) -> str:
    if card["window"] is None:
        return "Nothing is known" + ("" if card["known"] is None else " of this window")
    span = Window(parse_rfc3339(card["window"]["start"]), parse_rfc3339(card["window"]["end"]))
    return f"{report_text.days(span)}, UTC"


def _head(card: Told, source: str) -> list[Block]:
    blocks: list[Block] = [Text(" ".join([f"{_window(card)}.", *([f"Of {source}."] if source else [])]), "soft")]
    blocks += [Text(lead(card), "lead"), Numbers(tuple(_numbers(card)))]
    first = card["actions"][:FIRST]
    if first:
        blocks.append(Heading("Do first" if len(first) > 1 else "Do"))
        blocks += [_card(card, action) for action in first]
    return blocks + left_out(card)


def left_out(card: Told) -> list[Block]:
    """How many findings the plan leaves out because of what their owners said; nothing where none."""
    return [Text(said, "soft")] if (said := owners_said(card)) else []


def owners_said(card: Told) -> str:
    """The sentence of it; empty where none is left out."""
    many = card["left_out"]
    what = "finding that its owner" if many == 1 else "findings that their owners"
    return f"Left out: {many:,} {what} exempted or called a false positive." if many else ""


def lead(card: Told) -> str:
    """The sentences that say it all: what is wasted, which layer costs most."""
    waste, currency = card["waste"], card["currency"]
    if card["window"] is None:
        known = "" if card["known"] is None else " of this window"
        return f"Nothing is known{known}, so no layer has a grade: what to do is listed below."
    if not Fraction(card["gpu_hours"]):
        return "The fleet owned no GPU time in this window."
    part = report_text.percent(Fraction(str(waste["ratio"])))
    if waste["cost"] is None:
        said = f"This fleet wastes {part} of its GPU time: {report_text.hours(Fraction(waste['gpu_hours']))}. Its price is not known."
    else:
        paid = "" if card["cost"] is None else f" of the {report_text.money(Decimal(card['cost']), currency)} paid"
        said = f"This fleet wastes {report_text.money(Decimal(waste['cost']), currency)}{paid}: {part} of its GPU time"
        said += (
            f", {report_text.money(Decimal(waste['cost_a_month']), currency)} a month."
            if waste["cost_a_month"]
            else "."
        )
    top = next((layer for layer in card["layers"] if layer["id"] == card["costliest"]), None)
    if top is None:
        return f"{said} No finding says by which layer."
    return f"{said} Of what findings name, {top['name'].lower()} costs most: {_lost(card, top)}."


def _lost(card: Told, layer: Told) -> str:
    if layer["cost"] is not None and Fraction(layer["cost"]):
        return report_text.money(Decimal(layer["cost"]), card["currency"])
    return report_text.hours(Fraction(layer["gpu_hours"] or 0))


def _numbers(card: Told) -> list[Headline]:
    """What is wasted, then the grade of each layer with what its findings cost a month."""
    waste, currency = card["waste"], card["currency"]
    if waste["gpu_hours"] is None:
        wasted = Headline("Wasted", report_text.MISSING, "nothing is known", "")
    elif waste["cost"] is None:
        wasted = Headline(
            "Wasted", report_text.hours(Fraction(waste["gpu_hours"])), f"{waste['gpu_hours']} GPU-hours", ""
        )
    else:
        cost, monthly = Decimal(waste["cost"]), waste["cost_a_month"]
        change = "" if monthly is None else f"{report_text.money(Decimal(monthly), currency)} a month"
        wasted = Headline("Wasted", report_text.money(cost, currency), f"{cost} {currency}", change)
    return [wasted, *(_grade(card, layer) for layer in card["layers"])]


def _grade(card: Told, layer: Told) -> Headline:
    shown = layer["grade"] or ("?" if layer["grade_words"] == "not known" else "\u2013")
    points = (
        "" if layer["points"] is None else f"{layer['points']} points, {layer['letters_lost']} letters lost to money"
    )
    return Headline(layer["name"], shown, points or layer["grade_words"], _monthly(card, layer) or layer["grade_words"])


def _monthly(card: Told, layer: Told) -> str:
    if layer["grade"] is None:
        return ""
    if layer["cost_a_month"] is not None:
        return f"{report_text.money(Decimal(layer['cost_a_month']), card['currency'])} a month"
    return report_text.hours(Fraction(layer["gpu_hours"] or 0))


def worth(action: Told, unit: str = " a month") -> str:
    """`$2.02 k a month`; what an action saves, or that no waste was counted."""
    if action["kind"] == "decision":
        return "a default"
    for field, before in (("cost_a_month", ""), ("saves_a_month", "saves ")):
        if action[field] is not None and Fraction(action[field]):
            return f"{before}{report_text.money(Decimal(action[field]), action['currency'])}{unit}"
    if action["cost"] is not None and Fraction(action["cost"]):
        return report_text.money(Decimal(action["cost"]), action["currency"])
    if action["gpu_hours"] and Fraction(action["gpu_hours"]):
        return report_text.hours(Fraction(action["gpu_hours"]))
    return "not counted"


def _card(card: Told, action: Told) -> Card:
    layer = _layer_name(card, action["layer"])
    if action["kind"] == "decision":
        summary, about = action["said"], f"{layer} · {action['effort']} of work · left to a default"
    else:
        count = f"{action['findings']:,} {'finding' if action['findings'] == 1 else 'findings'}"
        summary = f"{count}, {action['open']:,} still open" if action["open"] else f"{count}, none open now"
        hours = Fraction(action["gpu_hours"] or 0)
        summary += f": {report_text.hours(hours)} of the window." if hours else "."
        about = f"{layer} · {action['effort']} of work · {_keys(action)}"
    return Card(action["severity"] or "info", name(action["title"]), worth(action), summary, about, action["remedy"])


def _keys(action: Told, shown: int = KEYS_SHOWN) -> str:
    keys: Sequence[str] = action["keys"]
    more = action["findings"] - min(shown, len(keys))
    return ", ".join(keys[:shown]) + (f" and {more} more" if more > 0 else "")


def _layer_name(card: Told, layer: str) -> str:
    return next((str(one["name"]) for one in card["layers"] if one["id"] == layer), "Rules of the site")


def _where(card: Told) -> Section:
    """Every bucket of the books; those that are waste first told, the sum below them."""
    told = {one["bucket"]: one for one in card["waste"]["buckets"]}
    whole = sum((Fraction(one["gpu_hours"]) for one in told.values()), Fraction(0))
    priced = [None if one["cost"] is None else Decimal(one["cost"]) for one in told.values()]
    places = report_text.places_of(priced)
    figures = _figures(told, places)
    rows, start = [], Fraction(0)
    for bucket in BUCKET_WORDS:
        if bucket not in told:
            continue
        hours = Fraction(told[bucket]["gpu_hours"])
        length = hours / whole if whole else Fraction(0)
        said = f"{BUCKET_WORDS[bucket]}: {report_text.percent(length)}"
        rows.append(
            row(
                [
                    Cell(BUCKET_WORDS[bucket], swatch=bucket),
                    Cell(bar=Bar(bucket, start, length, said)),
                    _figure(figures[bucket], places, card["currency"]),
                    report_text.count(hours),
                    report_text.percent(length),
                    "waste" if told[bucket]["waste"] else "",
                ]
            )
        )
        start += length
    waste = card["waste"]
    lost = [figures[bucket] for bucket, one in told.items() if one["waste"]]
    whole_cost = None if None in lost else sum((one for one in lost if one is not None), Decimal(0))
    cost = _figure(whole_cost, places, card["currency"])
    ratio = None if waste["ratio"] is None else Fraction(str(waste["ratio"]))
    hours = Fraction(waste["gpu_hours"])
    bar = Cell(bar=Bar(TOTAL, Fraction(0), ratio or Fraction(0), "Waste"))
    rows.append(row(["Waste, in all", bar, cost, report_text.count(hours), report_text.percent(ratio), ""], "sum"))
    columns = (
        Column("", label=True, part=2.7),
        Column("", chart=True, part=2.8),
        Column("Cost", number=True),
        Column("GPU-hours", number=True, wide=True),
        Column("Part", number=True, part=0.8),
        Column("", part=0.8, wide=True),
    )
    note = (
        f"Findings name the cause of {report_text.hours(Fraction(waste['explained_gpu_hours']))} of it. The rest is short, spread, or "
        "of a cause that no rule judges. A finding's money is a part of these buckets and is never added to them."
    )
    return Section(
        f"Where the GPU time went: {report_text.percent(ratio)} of it is waste",
        (Table(columns, tuple(rows), "fall"), Text(note, "soft")),
    )


def _figures(told: Mapping[str, Told], places: int) -> dict[str, Decimal | None]:
    """What each bucket cost, as shown: those that are waste add up to the waste that the first sentence tells."""
    figures: dict[str, Decimal | None] = {}
    for waste in (True, False):
        costs = {
            name: None if one["cost"] is None else Decimal(one["cost"])
            for name, one in told.items()
            if one["waste"] is waste
        }
        figures |= dict(zip(costs, report_text.figures(list(costs.values()), places), strict=True))
    return figures


def _figure(cost: Decimal | None, places: int, currency: str | None) -> str:
    return report_text.NO_PRICE if cost is None else report_text.plain(cost, places, currency)


def _plan(card: Told) -> Section:
    """Every action over all layers."""
    acts = card["actions"]
    if not acts:
        return Section(
            "Action plan: nothing to do is known",
            (Text("No finding asks for anything, and no decision is left to a default."), *left_out(card)),
        )
    rows: list[Row] = []
    for action in acts[:PLAN_MAX]:
        prefix = "Decide: " if action["kind"] == "decision" else ""
        text = f"{prefix}{name(action['title'])}. {action['remedy']}"
        layer = _layer_name(card, action["layer"])
        rows.append(row([str(action["rank"]), text, layer, action["effort"], _keys(action, 1), worth(action, "")]))
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
    return Section(f"Action plan: {count}, the most money first", tuple(blocks))


def _unknown(card: Told) -> Section:
    """What could not be judged; what one fix would tell is one row."""
    by_fix: dict[str, list[Told]] = {}
    for one in card["unknown"]:
        by_fix.setdefault(one["fix"], []).append(one)
    rows = []
    for fix, many in by_fix.items():
        layers = dict.fromkeys(_layer_name(card, one["layer"]) if one["layer"] else "All" for one in many)
        rows.append(row([", ".join(layers), " ".join(one["what"] for one in many), fix]))
    if not rows:
        text = Text("Every decision that arises could be judged.")
        return Section("What could not be judged: nothing", (text,), "quality")
    columns = (Column("Layer", wide=True, label=True, part=1.1), Column("Not known", part=3), Column("Fix", part=4))
    things = len(card["unknown"])
    count = f"{things} {'thing' if things == 1 else 'things'}"
    return Section(f"What could not be judged: {count}", (Table(columns, tuple(rows), "plain"),), "quality")


def _how(card: Told) -> Section:
    terms = [
        ("Grades", " ".join(card["rule"])),
        (
            "Waste",
            "GPU time that was paid for and did no work: held idle, gaps, waiting on links, busy with idle SMs; stranded, left over "
            + "by MIG, out of service. Free GPUs, work below the roof, and what nobody measured are not counted as waste.",
        ),
        (
            "Money of findings",
            "What a finding claimed of the buckets within the window, at the price of that device and hour. No microsecond "
            + "is claimed twice. Its remedy is worth at most that.",
        ),
        ("A month", "The window's money over 30 days. Of a window shorter than a day none is told."),
        ("Savings", "Another size, spot capacity, owning or renting: no waste, and not in any sum."),
        ("Effort", "hours: a setting, or a word with the owner. days: a change that is rolled out. weeks: a project."),
        (
            "Order of actions",
            "Money a month at stake, then severity; decisions that are left to defaults last: their money is that of the findings they cause.",
        ),
    ]
    return Section("How this was computed", (Terms(tuple(terms)),), "how")
