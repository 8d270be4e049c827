"""A scan as a document: the waste in a sentence, where it went, whose it was, what to do, and what is not known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.words import joined
from gpuwatch.ledger.measures import WORDS
from gpuwatch.policy.ownership import PLATFORM
from gpuwatch.quality.dumps import MISSING
from gpuwatch.report import text as report_text
from gpuwatch.report.document import (
    Block,
    Card,
    Column,
    Document,
    Heading,
    Headline,
    Numbers,
    Section,
    Table,
    Terms,
    Text,
    row,
)
from gpuwatch.report.facts import UNOWNED
from gpuwatch.report.html.markup import name, owner_name
from gpuwatch.report.scorecard.document import a_month, avoidable_sentence, bound, window_text
from gpuwatch.report.scorecard.plan import METHOD, ended, left_out, unknown_section, worth
from gpuwatch.report.scorecard.where import where_section
from gpuwatch.scan import teams
from gpuwatch.scan.facts import Source, top_actions

FIRST = 3
"""Actions before the first section."""
MOST_SHARE = Fraction(1, 2)
"""The headline names the teams that have at least this much of the waste, if they are few."""
NAMED_MAX = 3
OWNERS = {PLATFORM: "the platform (free GPUs)", UNOWNED: "jobs without a team"}
"""Whose waste it is, in the headline."""

Json = Mapping[str, Any]


def document(card: Json, source: Source) -> Document:
    """The document of scan.facts.read_scan."""
    sections = [where_section(card), teams.section(card)] if card["window"] else []
    sections += [_actions(card), unknown_section(card), _next(source), _method(source)]
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
            return f"{report_text.percent(sum_of_named / whole)} of it is with {joined(named)}."
    return ""


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
        _bounded(card, _number(WORDS["avoidable"], waste["cost"], waste["gpu_hours"], currency, _a_month(card))),
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


def _bounded(card: Json, known: Headline) -> Headline:
    """`up to $11.1 k`: the same bound as in the first sentence."""
    return known if card["waste"]["gpu_hours"] is None else replace(known, value=f"{bound(card)}{known.value}")


def _a_month(card: Json) -> str:
    return a_month(card).removeprefix(", ").strip()


def _card(action: Json) -> Card:
    summary = f"{_state(action)}{action['summary']}"
    about = f"Ask {action['ask']} · {action['effort']} of work"
    return Card(action["severity"] or "info", what(action), worth(action), summary, about, action["remedy"])


def _state(action: Json) -> str:
    """`3 findings, 2 still open. Still open: `: before the summary of the first; empty for time that no finding names."""
    if not action["findings"]:
        return ""
    count = f"{action['findings']:,} {'finding' if action['findings'] == 1 else 'findings'}"
    if action["kind"] != "lost":
        count += f", {action['open']:,} still open" if action["open"] else f", {ended(action)}"
    first = (
        ("Still open: " if action["open"] and action["kind"] != "lost" else "The largest: ")
        if action["findings"] > 1
        else ""
    )
    return f"{count}. {first}"


def what(action: Json) -> str:
    """`GPUs held and idle: embedder $38.34, feature-gen $25.56 and 8 more`; a decision has only its title."""
    shown = [_subject(one, action["currency"]) for one in action["subjects"]]
    whole = max(action["findings"], len(action["places"]))
    more = f" and {whole - len(shown):,} more" if whole > len(shown) else ""
    return f"{name(action['title'])}: {', '.join(shown)}{more}" if shown else name(action["title"])


def _subject(one: Json, currency: str | None) -> str:
    if one["cost"] is not None and currency is not None:
        return f"{name(one['name'])} {report_text.money(Decimal(one['cost']), currency)}"
    hours = "" if one["gpu_hours"] is None else f" {report_text.hours(Fraction(one['gpu_hours']))}"
    return f"{name(one['name'])}{hours}"


def _actions(card: Json) -> Section:
    """The top actions with their worth and whom to ask."""
    acts = top_actions(card)
    if not acts:
        return Section("What to do: nothing was found", (Text("No finding needs action."), *left_out(card)))
    rows = []
    for action in acts:
        decision = action["kind"] == "decision"
        over = f" ({ended(action)})" if ended(action) else ""
        text = f"{'Decide: ' if decision else ''}{what(action)}{over}. {action['remedy']}"
        rows.append(row([str(action["rank"]), text, action["ask"] or "the platform team", worth(action)]))
    columns = (
        Column("", number=True, part=0.4),
        Column("Action", part=4.6),
        Column("Ask", label=True, part=1.4),
        Column("Worth", number=True, part=1.3),
    )
    title = f"What to do: the {'first ' if len(card['actions']) > len(acts) else ''}{len(acts)} actions"
    return Section(title if len(acts) > 1 else "What to do", (Table(columns, tuple(rows), "plain"),))


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
