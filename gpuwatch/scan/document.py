"""A scan as a document: the waste in a sentence, where it went, whose it was, what to do, and what is not known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.ledger.measures import WORDS
from gpuwatch.quality.dumps import MISSING
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    SIZE,
    Bar,
    Block,
    Card,
    Cell,
    Column,
    Document,
    Heading,
    Headline,
    Numbers,
    Row,
    Section,
    Table,
    Terms,
    Text,
    row,
)
from gpuwatch.report.facts import PLATFORM, UNOWNED
from gpuwatch.report.html.markup import name, owner_name
from gpuwatch.report.scorecard.document import a_month, avoidable_sentence, where_section, window_text
from gpuwatch.report.scorecard.plan import METHOD, left_out, unknown_section, worth
from gpuwatch.scan.facts import ASK, Source, top_actions

FIRST = 3
"""Actions before the first section."""
TEAMS_MAX = 20
TEAM_LINES = 6
NOT_MEASURED = "not measured"
MOST_SHARE = Fraction(1, 2)
"""The headline names the teams that have at least this much of the waste, if they are few."""
NAMED_MAX = 3
OWNERS = {PLATFORM: "the platform (free GPUs that fit no request)", UNOWNED: "jobs without a team"}
"""Whose waste it is, in the headline."""

Json = Mapping[str, Any]


def document(card: Json, source: Source) -> Document:
    """The document of scan.facts.read_scan."""
    sections = [where_section(card), _teams(card)] if card["window"] else []
    sections += [_actions(card), *_losses(card), unknown_section(card), _next(source), _method(source)]
    return Document(
        title="Where the GPU money went",
        window=window_text(card),
        head=tuple(_head(card, source)),
        sections=tuple(sections),
        keywords=("GPU", "waste", "cost"),
    )


def headline(card: Json) -> str:
    """The waste in a sentence, and the teams that have most of it."""
    if card["window"] is None:
        return "No GPU time was found in this window; the list below says what is missing."
    if not Fraction(card["gpu_hours"]):
        return "The fleet owned no GPU time in this window."
    return f"{avoidable_sentence(card)} {_most_of_it(card)}".strip()


def _most_of_it(card: Json) -> str:
    """`63 % of it is with vision and nlp.`: at most NAMED_MAX teams; empty where the waste is spread, or not known by team."""
    field = "avoidable_gpu_hours" if card["waste"]["cost"] is None else "avoidable_cost"
    parts = [(Fraction(one[field]), one["team"]) for one in card["teams"] if one[field] is not None]
    if len(parts) < len(card["teams"]) or len(parts) < 2 or not (whole := sum(part for part, _ in parts)):
        return ""
    parts.sort(key=lambda part: (-part[0], part[1]))
    named, sum_of_named = [], Fraction(0)
    for part, team in parts[:NAMED_MAX]:
        named.append(OWNERS.get(team) or owner_name(team))
        sum_of_named += part
        if sum_of_named >= MOST_SHARE * whole:
            return f"{report_text.percent(sum_of_named / whole)} of it is with {_listed(named)}."
    return ""


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _head(card: Json, source: Source) -> list[Block]:
    prices = f" Priced at list prices: {source.prices}." if source.prices else ""
    blocks: list[Block] = [
        Text(f"{window_text(card)}. Source: {source.name}.{prices}", "soft"),
        Text(headline(card), "lead"),
    ]
    if card["only_dumps"]:
        blocks.append(Text(MISSING, "soft"))
    blocks.append(Numbers(tuple(_numbers(card))))
    if first := [one for one in top_actions(card)[:FIRST] if one["kind"] != "decision"]:
        blocks.append(Heading("Do first"))
        blocks += [_card(action) for action in first]
    return blocks + left_out(card)


def _numbers(card: Json) -> list[Headline]:
    waste, currency = card["waste"], card["currency"]
    return [
        _number("Cost of the GPUs", card["cost"], card["gpu_hours"], currency, "whole fleet, in this window"),
        _number(WORDS["avoidable"], waste["cost"], waste["gpu_hours"], currency, _a_month(card)),
        Headline(
            "Measured part of held time",
            report_text.percent(None if waste["measured_ratio"] is None else Fraction(str(waste["measured_ratio"]))),
            str(waste["measured_ratio"]),
            "the rest is not judged",
        ),
    ]


def _number(label: str, cost: str | None, hours: str | None, currency: str | None, note: str) -> Headline:
    if cost is not None and currency is not None:
        return Headline(label, report_text.money(Decimal(cost), currency), f"{cost} {currency}", note)
    if hours is None:
        return Headline(label, report_text.MISSING, "not measured", note)
    return Headline(label, report_text.hours(Fraction(hours)), f"{hours} GPU-hours", note)


def _a_month(card: Json) -> str:
    return a_month(card).removeprefix(", ").strip()


def _card(action: Json) -> Card:
    count = f"{action['findings']:,} {'finding' if action['findings'] == 1 else 'findings'}"
    ongoing = action["open"] and action["kind"] != "lost"
    first = ("Still open: " if ongoing else "The largest: ") if action["findings"] > 1 else ""
    summary = f"{count}, {action['open']:,} still open. {first}{action['summary']}"
    about = f"Ask {action['ask']} · {action['effort']} of work"
    return Card(action["severity"] or "info", what(action), worth(action), summary, about, action["remedy"])


def what(action: Json) -> str:
    """`GPUs held and idle: embedder $38.34, feature-gen $25.56 and 8 more`; a decision has only its title."""
    shown = [_subject(one, action["currency"]) for one in action["subjects"]]
    more = f" and {action['findings'] - len(shown):,} more" if action["findings"] > len(shown) else ""
    return f"{name(action['title'])}: {', '.join(shown)}{more}" if shown else name(action["title"])


def _subject(one: Json, currency: str | None) -> str:
    if one["cost"] is not None and currency is not None:
        return f"{name(one['name'])} {report_text.money(Decimal(one['cost']), currency)}"
    hours = "" if one["gpu_hours"] is None else f" {report_text.hours(Fraction(one['gpu_hours']))}"
    return f"{name(one['name'])}{hours}"


def _teams(card: Json) -> Section:
    """What each team held, and the avoidable part."""
    priced = card["waste"]["cost"] is not None
    field = "avoidable_cost" if priced else "avoidable_gpu_hours"
    known = [Fraction(one[field]) for one in card["teams"] if one[field] is not None]
    largest = max(known, default=Fraction(0))
    rows = [_team_row(one, card["currency"], field, largest) for one in card["teams"][:TEAMS_MAX]]
    columns = (
        Column("Team", label=True, part=2.2),
        Column("", chart=True, part=2),
        Column(WORDS["avoidable"], number=True, part=1.2),
        Column("Of its time", number=True, part=1),
        Column("GPU-hours held", number=True, wide=True, part=1.3),
        Column("Cost", number=True, wide=True, part=1.2),
    )
    blocks: list[Block] = [Table(columns, tuple(rows), "plain")]
    if (more := len(card["teams"]) - len(rows)) > 0:
        blocks.append(Text(f"{more} more are in scan.json.", "soft"))
    return Section("Waste by team", tuple(blocks))


def _team_row(one: Json, currency: str | None, field: str, largest: Fraction) -> Row:
    lost = None if one[field] is None else Fraction(one[field])
    bar = Cell(bar=Bar(SIZE, Fraction(0), lost / largest if lost and largest else Fraction(0)))
    ratio = None if one["avoidable_ratio"] is None else Fraction(str(one["avoidable_ratio"]))
    shown = _money(one["avoidable_cost"], currency) if field == "avoidable_cost" else _hours(one["avoidable_gpu_hours"])
    shown = NOT_MEASURED if one["avoidable_gpu_hours"] is None else shown
    share = NOT_MEASURED if ratio is None else report_text.percent(ratio)
    name = owner_name(one["team"]) + (" (inferred)" if one["inferred"] else "")
    return row([name, bar, shown, share, _hours(one["gpu_hours"]), _money(one["cost"], currency)])


def team_lines(card: Json) -> list[str]:
    """`Team vision: $1.35 k, of it avoidable $690 (51 %).`: the first teams, for a terminal."""
    field = "avoidable_cost" if card["waste"]["cost"] is not None else "avoidable_gpu_hours"
    lines = []
    for one in card["teams"][:TEAM_LINES]:
        name, _, lost, share, held, cost = (
            str(cell.text) for cell in _team_row(one, card["currency"], field, Fraction(0)).cells
        )
        lines.append(f"{name}: {held} GPU-hours, {cost}; avoidable {lost}" + (f" ({share})" if share != lost else ""))
    return lines


def _money(cost: str | None, currency: str | None) -> str:
    return report_text.NO_PRICE if cost is None else report_text.money(Decimal(cost), currency)


def _hours(hours: str | None) -> str:
    return report_text.MISSING if hours is None else report_text.count(Fraction(hours))


def _actions(card: Json) -> Section:
    """The top actions with their worth and whom to ask."""
    acts = top_actions(card)
    if not acts:
        return Section("What to do: nothing was found", (Text("No finding needs action."), *left_out(card)))
    rows = []
    for action in acts:
        decision = action["kind"] == "decision"
        text = f"{'Decide: ' if decision else ''}{what(action)}. {action['remedy']}"
        rows.append(row([str(action["rank"]), text, action["ask"] or "the platform team", worth(action)]))
    columns = (
        Column("", number=True, part=0.4),
        Column("Action", part=4.6),
        Column("Ask", label=True, part=1.4),
        Column("Worth", number=True, part=1.3),
    )
    title = f"What to do: the {'first ' if len(card['actions']) > len(acts) else ''}{len(acts)} actions"
    return Section(title if len(acts) > 1 else "What to do", (Table(columns, tuple(rows), "plain"),))


def _losses(card: Json) -> list[Section]:
    """The waste that no finding names, if there is any."""
    rows = [
        row([f"{one['title']}. {one['remedy']}", _holders(one), _loss(one, card["currency"])]) for one in card["losses"]
    ]
    columns = (
        Column("Waste", part=4.6),
        Column("Ask", label=True, part=1.6),
        Column("In this window", number=True, part=1.2),
    )
    note = Text("Time that is avoidable, but too short or too scattered in each job for a finding.", "soft")
    return [Section("Waste that no finding names", (note, Table(columns, tuple(rows), "plain")))] if rows else []


def loss_lines(card: Json) -> list[str]:
    """`No finding names: Jobs wait on the network, $1.02 k, recsys-dev and nlp. Look at …`: for a terminal."""
    return [
        f"No finding names: {one['title']}, {_loss(one, card['currency'])}, {_holders(one)}. {one['remedy']}"
        for one in card["losses"]
    ]


def _holders(one: Json) -> str:
    return _listed([ASK.get(team) or owner_name(team) for team in one["teams"]])


def _loss(one: Json, currency: str | None) -> str:
    if one["cost"] is not None and currency is not None:
        return report_text.money(Decimal(one["cost"]), currency)
    return f"{report_text.count(Fraction(one['gpu_hours']))} GPU-hours"


def _next(source: Source) -> Section:
    return Section("Keep it running", (Terms(source.commands),))


def _method(source: Source) -> Section:
    terms = [*METHOD, ("Teams", "Named by team rules, else by Slurm account or Kubernetes namespace.")]
    if source.prices:
        listed = "; ".join(source.listed) or "none of the fleet's models has one"
        terms.append(
            (
                "Prices",
                f"List prices, not yours: {source.prices}. {listed}. Scan again with --rates FILE for your own prices.",
            )
        )
    return Section("How this was computed", (Terms(tuple(terms)),), "how")
