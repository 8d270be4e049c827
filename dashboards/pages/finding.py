"""One finding: the evidence over its window with the thresholds used, the remedy, and what to do about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import figures, finding_cards, finding_decide, ledger_math, parts
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import (
    KINDS,
    per_day,
    saving,
    state_words,
    subject,
    wasted,
    wasted_seconds,
)
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme


@dataclass(frozen=True)
class Data:
    """A finding with its series and actions, the rule it comes from, and who looks at it."""

    finding: Row
    rule: Row
    me: Row | None


async def load(api: Api, query: Query) -> Data:
    """The finding of the path's last part."""
    finding, detectors, me = await asyncio.gather(
        api.finding(key_of(query)), ledger_math.optional(api.detectors()), ledger_math.optional(api.me())
    )
    rules = {str(row.get("id")): row for row in (detectors or {}).get("items") or []}
    return Data(finding, rules.get(str(finding.get("detector")), {}), me)


def key_of(query: Query) -> str:
    """The finding's key in a path such as /findings/idle-hoarding-1a2b."""
    return query.path.removeprefix("/findings/")


@page("/findings/*", "Finding", load, filters=())
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """What, who and how much; then why we think so; then what to do. `action` opens that form: a link changes nothing."""
    finding: Row = data.finding
    evidence: Row = finding.get("evidence") or {}
    proof = [finding_cards.contention(finding), finding_cards.placement(evidence), finding_cards.room(finding, query)]
    claimed = finding_cards.claimed(finding)
    facts = [finding_cards.facts(finding, data.rule), preset(data, query)]
    return html.Div(
        [
            parts.link("← Findings", query.link("/findings"), "back"),
            html.Div(
                [
                    html.Div([summary(data, query), *filter(None, proof), chart(data, scheme)], className="column"),
                    html.Div([decide(data, query.get("action")), *filter(None, [claimed, *facts])], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def decide(data: Data, asked: str = "") -> Component:
    """The form of decisions."""
    return finding_decide.form(data.finding, data.me, asked)


def summary(data: Data, query: Query) -> Component:
    """The card: severity, one sentence, dollars, owner, since when, remedy."""
    finding = data.finding
    ended = finding.get("ended_at")
    since = f"since {components_text.when(finding.get('started_at'))}" + (
        f", ended {components_text.when(ended)}" if ended else ""
    )
    kind = str((finding.get("subject") or {}).get("kind") or "")
    work = (finding.get("evidence") or {}).get("workload_class")
    return html.Section(
        [
            html.Div(
                [
                    parts.severity(finding.get("severity")),
                    parts.tag(state_words(finding)),
                    html.Span(since, className="soft"),
                ],
                className="facts",
            ),
            html.H1(components_text.clip(finding.get("title"), 120)),
            html.P(components_text.clip(finding.get("summary"), 600), className="lead"),
            html.Div(
                [
                    *money(finding),
                    fact("Team", parts.team_link(query, finding.get("team"))),
                    fact("User", components_text.clip(components_text.owner(finding.get("user")), 32))
                    if finding.get("user")
                    else None,
                    fact(KINDS.get(kind, "Subject"), subject(finding, query, 60, kind_word=kind not in KINDS)),
                    fact("Workload", components_text.workload(work)) if work else None,
                    fact("Cluster", components_text.clip(finding.get("cluster"), 32)),
                ],
                className="keyfacts",
            ),
            html.Div([html.B("Do this: "), components_text.clip(finding.get("remedy"), 600)], className="remedy"),
        ],
        className="card",
    )


def money(finding: Row) -> list[Component]:
    """What it cost so far and costs a day; of a finding that tells of savings, what would be saved."""
    found = saving(finding)
    if found is not None:
        shown = (
            parts.money(found.amount, found.currency)
            if found.amount is not None
            else parts.num(components_text.MISSING, "No price")
        )
        return [fact(f"Could save {found.span}".strip(), shown)]
    currency, daily = str(finding.get("currency") or ""), per_day(finding)
    return [
        fact("So far", wasted(finding)),
        fact("A day", parts.money(daily.quantize(Decimal("0.01")) if daily is not None else None, currency)),
        fact("GPU time", parts.gpu_time(wasted_seconds(finding))),
    ]


def fact(label: str, value: Any) -> Component:
    """A small label over its value."""
    return html.Div([html.Div(label, className="label"), html.Div(value)])


def preset(data: Data, query: Query) -> Component | None:
    """The rule that said it: its preset, and the way to try other limits."""
    rule = data.rule
    if not rule:
        return None
    named = f"Preset {rule.get('preset')} in general" if rule.get("preset") else "The rule's own limits"
    off = " (switched off in general now)" if rule.get("off") else ""
    ident = str(rule.get("id"))
    way = parts.link("Try other limits on the past", query.link(f"/detectors/{ident}"), "button")
    text = f"{named}{off}; pools and teams may have their own. The limits above are those it was judged by."
    return parts.card(
        f"The rule: {components_text.clip(ident, 60)}",
        html.P(text, className="soft"),
        html.Div(way, className="buttons"),
        name="late",
    )


def chart(data: Data, scheme: Scheme) -> Component:
    """The evidence over the window; what was not measured is a gap."""
    series: Row = data.finding.get("series") or {}
    evidence: Row = data.finding.get("evidence") or {}
    thresholds = series.get("thresholds") or {}
    figure = figures.evidence(series, scheme, thresholds)
    if figure is None:
        return parts.card(
            "No readings to draw",
            states.advice(
                "This finding rests on what the scheduler said, or its readings are past their retention. "
                "The numbers it was judged by are in the table."
            ),
            name="late",
        )
    window: Row = evidence.get("window") or {}
    graph = parts.graph(figure, figures.TALL)
    limits = "; dashed: limits of the rule" if figure["layout"]["shapes"] else ""
    times = components_text.span(window.get("start"), window.get("end")) if window else "UTC"
    note = f"{times}{limits}; a gap was not measured"
    return parts.card("What was measured while it lasted", graph, note=note, name="late")
