"""One rule: why, its limits with their sources, and a back-test that says who it would have flagged."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row
from gpuwatch.dashboards.components import ledger_math, parts, quantities, rule_trial, rules_list
from gpuwatch.dashboards.components import text as components_text
from gpuwatch.dashboards.components.findings_list import card
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

TOP = 5


@dataclass(frozen=True)
class Data:
    """The rule, its open findings, and the back-test that was asked for, or why there is none."""

    rule: Row
    findings: Row | None
    answer: Row | None
    failure: ApiFailure | None


async def load(api: Api, query: Query) -> Data:
    """The rule of the path's last part; a back-test where the address asks for one."""
    ident = query.path.removeprefix("/detectors/")
    rules = {str(row.get("id")): row for row in (await api.detectors()).get("items") or []}
    if ident not in rules:
        raise ApiFailure(404, "not_found", f"No rule has the id {components_text.clip(ident, 60)}.")
    findings = await ledger_math.optional(api.findings(limit=TOP, detector=ident, state="open"))
    body = rule_trial.asked(rules[ident], query)
    if body is None:
        return Data(rules[ident], findings, None, None)
    try:
        return Data(rules[ident], findings, await api.backtest(ident, body), None)
    except ApiFailure as error:
        if error.status == 401:
            raise
        return Data(rules[ident], findings, None, error)


@page("/detectors/*", "Rule", load, filters=("window", "cluster"), under="/findings", asked_once=True)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """What it is, the form, and what the form found."""
    found = rule_trial.answer(data.answer, query) if data.answer is not None else []
    if data.failure is not None:
        found = [refused(data.failure, query)]
    form = rule_trial.form(data.rule, query)
    top = [html.Div([form, html.Div(found, className="found", id="found")], className="trial")] if found else []
    return html.Div(
        [
            parts.link("← Rules", query.link("/detectors"), "back"),
            *top,
            html.Div(
                [
                    html.Div([about(data.rule, query), *([] if found else [form])], className="column"),
                    html.Div([now(data, query), limits(data.rule)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def about(rule: Row, query: Query) -> Component:
    """Its words, what it claims, and how right owners found it."""
    facts = [
        ("Claims", rules_list.claims(rule)),
        ("Preset in general", html.Span(components_text.clip(rule.get("preset") or components_text.MISSING, 30))),
        ("Precision", rules_list.precision(rule.get("feedback"))),
        ("Page", html.Span(components_text.clip(rule.get("doc") or components_text.MISSING, 80), className="mono")),
    ]
    tags: list[Component] = [html.Span(components_text.clip(rule.get("id"), 60), className="soft mono")]
    tags += [parts.tag("Switched off in general", "warn")] if rule.get("off") else []
    tags += [parts.tag("Of this site")] if rule.get("origin") == "site" else []
    return html.Section(
        [
            html.Div(tags, className="facts"),
            html.H1(components_text.clip(rule.get("title"), 120)),
            html.P(components_text.clip(rule.get("why"), 600), className="lead"),
            html.Div(
                [html.Div([html.Div(name, className="label"), shown]) for name, shown in facts], className="keyfacts"
            ),
        ],
        className="card",
    )


def now(data: Data, query: Query) -> Component:
    """Its open findings, the dearest."""
    items: list[Row] = (data.findings or {}).get("items") or []
    way = parts.link("All of its findings", query.link("/findings", detector=str(data.rule.get("id"))), "more")
    if data.findings is None:
        return parts.card("Open findings could not be loaded")
    if not items:
        return parts.card("No open finding", note=way)
    count = f"{len(items)}{'+' if data.findings.get('next') else ''}"
    title = f"{count} open finding{'s' if count != '1' else ''}"
    return parts.card(title, html.Div([card(item, query) for item in items], className="stack"), note=way)


def limits(rule: Row) -> Component:
    """Limits in force and where each number comes from."""
    sources: Row = rule.get("sources") or {}
    rows = [
        [
            html.Div(
                [
                    html.Div(quantities.label(name), title=name),
                    html.Div(components_text.clip(sources.get(name) or "no source told", 240), className="soft small"),
                ]
            ),
            quantities.value(name, entry),
        ]
        for name, entry in (rule.get("thresholds") or {}).items()
    ]
    columns = [parts.Column("Limit and its source"), parts.Column("In force", "r")]
    return parts.card("Limits in force in general", parts.table(columns, rows, label="Limits"), name="late")


def refused(error: ApiFailure, query: Query) -> Component:
    """What could not be tried: a wrong limit can be set right, a long window shortened."""
    if error.status == 400:
        way = parts.link("Reset", query.link(query.path), "button")
        return states.notice(
            "failing",
            "This cannot be tried so",
            error.message,
            html.P(error.hint, className="hint") if error.hint else None,
            way,
        )
    return states.failed(error, query)
