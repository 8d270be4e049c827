"""One finding: evidence, thresholds, remedy, and the form to act on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import (
    evidence_charts,
    finding_actions,
    finding_cards,
    formats,
    ledger_math,
    parts,
    quantities,
)
from gpuwatch.dashboards.components.figures import Figure
from gpuwatch.dashboards.components.findings_list import (
    KINDS,
    daily,
    saving,
    state_words,
    subject,
    wasted,
    wasted_seconds,
)
from gpuwatch.dashboards.fleet import faulty_gpus
from gpuwatch.dashboards.fleet.finding_map import finding_map, is_about_places
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.page_links import linked
from gpuwatch.dashboards.shell.query import Query, finding_link
from gpuwatch.dashboards.shell.theme import Scheme


@dataclass(frozen=True)
class Data:
    """A finding with its series and actions, its rule, the signed-in caller, and the map where the rule is about places."""

    finding: Row
    rule: Row
    me: Row | None
    fleet: Row | None = None


async def load(api: Api, query: Query) -> Data:
    """The finding in the path."""
    finding, detectors, me = await asyncio.gather(
        api.finding(key_of(query)), ledger_math.optional(api.detectors()), ledger_math.optional(api.me())
    )
    rules = {str(row.get("id")): row for row in (detectors or {}).get("items") or []}
    fleet = None
    if is_about_places(finding):
        fleet = await ledger_math.optional(api.get("topology/map", cluster=str(finding.get("cluster"))))
    return Data(finding, rules.get(str(finding.get("detector")), {}), me, fleet)


def key_of(query: Query) -> str:
    """The finding's key in a path such as /findings/idle-hoarding-1a2b."""
    return query.path.removeprefix("/findings/")


@page("/findings/*", "Finding", load, filters=())
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """Summary, evidence and the form. `action` in the URL preselects an action but changes nothing by itself."""
    finding: Row = data.finding
    evidence: Row = finding.get("evidence") or {}
    proof = [finding_cards.contention(finding), finding_cards.placement(evidence), finding_cards.room(finding, query)]
    claimed = finding_cards.claimed(finding)
    drawn = finding_map(data.fleet, finding, query, scheme)
    facts = [finding_cards.facts(finding, data.rule), preset(data, query)]
    return html.Div(
        [
            parts.link("← Findings", query.link("/findings"), "back"),
            html.Div(
                [
                    html.Div(
                        [summary(data, query), *filter(None, [*proof, drawn]), *proofs(data, scheme)],
                        className="column",
                    ),
                    html.Div([decide(data, query.get("action")), *filter(None, [claimed, *facts])], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def decide(data: Data, chosen: str = "") -> Component:
    """The form to act on the finding."""
    feedback: Row = data.rule.get("feedback") or {}
    true, false = int(feedback.get("true_positives") or 0), int(feedback.get("false_positives") or 0)
    rated = f"Of this rule's findings, {true} of {true + false} were judged true." if true + false else ""
    return finding_actions.form(data.finding, data.me, chosen, rated)


def summary(data: Data, query: Query) -> Component:
    """Severity, state, summary, cost, owner and remedy."""
    finding, headline = data.finding, data.finding.get("headline")
    ended = finding.get("ended_at")
    since = f"since {formats.when(finding.get('started_at'))}" + (f", ended {formats.when(ended)}" if ended else "")
    kind = str((finding.get("subject") or {}).get("kind") or "")
    work = (finding.get("evidence") or {}).get("workload_class")
    return html.Section(
        [
            html.Div(
                [
                    parts.severity(finding.get("severity")),
                    parts.tag(state_words(finding)),
                    html.Span(formats.clip(finding.get("title"), 90)) if headline else None,
                    html.Span(since, className="soft"),
                ],
                className="facts",
            ),
            html.H1(formats.clip(headline or finding.get("title"), 200)),
            html.P(formats.clip(quantities.readable(finding.get("summary")), 600), className="lead"),
            html.Div(
                [
                    *money(finding),
                    fact("Team", parts.team_link(query, finding.get("team"))),
                    fact("User", formats.clip(formats.owner(finding.get("user")), 32)) if finding.get("user") else None,
                    fact(KINDS.get(kind, "Subject"), subject(finding, query, 60, kind_word=kind not in KINDS)),
                    fact("Workload", formats.workload(work)) if work else None,
                    fact("Cluster", formats.clip(finding.get("cluster"), 32)),
                    fact("Assigned to", formats.clip(finding["assignee"], 40)) if finding.get("assignee") else None,
                ],
                className="keyfacts",
            ),
            html.Div([html.B("What to do: "), *linked(formats.clip(finding.get("remedy"), 600))], className="remedy"),
            *returned(finding, query),
        ],
        className="card",
    )


def returned(finding: Row, query: Query) -> list[Component]:
    """Whether it came back, and what the end of a fault does not say."""
    found: list[Component] = []
    if earlier := finding.get("earlier"):
        days: list[Component | str] = []
        for one in earlier:
            link = parts.link(formats.when(one.get("started_at")), finding_link(query, str(one.get("key"))))
            days += [", " if days else "", link]
        found.append(html.P([html.B("It has come back. "), "Earlier in these 30 days: ", *days], className="small"))
    if finding.get("ended_at") and finding.get("detector") in faulty_gpus.RULES:
        found.append(
            html.P(
                "It ended: the sign was not measured again. That does not mean that the GPU was repaired.",
                className="soft small",
            )
        )
    return found


def money(finding: Row) -> list[Component]:
    """The cost so far and per day, or the proposed saving."""
    found = saving(finding)
    if found is not None:
        shown = (
            parts.money(found.amount, found.currency)
            if found.amount is not None
            else parts.num(formats.MISSING, "No price")
        )
        return [fact(f"Could save {found.span}".strip(), shown)]
    return [
        fact("Cost so far", wasted(finding)),
        fact("Per day", daily(finding)),
        fact("GPU time", parts.gpu_time(wasted_seconds(finding))),
    ]


def fact(label: str, value: Any) -> Component:
    """A label and a value."""
    return html.Div([html.Div(label, className="label"), html.Div(value)])


def preset(data: Data, query: Query) -> Component | None:
    """The rule of the finding: its preset, and a link to try other thresholds."""
    rule = data.rule
    if not rule:
        return None
    base = f"Preset {rule.get('preset')}" if rule.get("preset") else "Default thresholds"
    off = " (now disabled)" if rule.get("off") else ""
    ident = str(rule.get("id"))
    way = parts.link("Try other thresholds", query.link(f"/detectors/{ident}"), "button")
    text = f"{base}{off}. Pools and teams may have their own settings; this finding used the thresholds listed above."
    return parts.card(
        f"Rule: {formats.clip(ident, 60)}",
        html.P(text, className="soft"),
        html.Div(way, className="buttons"),
        name="late",
    )


def proofs(data: Data, scheme: Scheme) -> list[Component]:
    """The charts that prove the finding; a notice if there is nothing to draw."""
    found = evidence_charts.charts(data.finding, scheme)
    if not found:
        return [
            parts.card(
                "No readings to draw",
                states.advice(
                    "This finding is based on scheduler data, or its readings have expired. "
                    "The evidence table has the numbers."
                ),
                name="late",
            )
        ]
    cards = []
    for title, figure, height in found:
        timed = any(trace.get("type") == "scatter" for trace in figure["data"])
        dashed = any((shape.get("line") or {}).get("dash") for shape in figure["layout"].get("shapes") or [])
        note = f"{shown_times(figure)}{'; dashed: limits' if dashed else ''}; gaps: no measurements" if timed else None
        graph = parts.graph(figure, {"height": f"{height}px"})
        cards.append(parts.card(formats.clip(title, 120), graph, note=note, name="late"))
    return cards


def shown_times(figure: Figure) -> str:
    """From when to when a chart over time reaches."""
    times = [str(at) for trace in figure["data"] if trace.get("type") == "scatter" for at in trace["x"] if at]
    return formats.span(min(times), max(times)) if times else formats.zone_word()
