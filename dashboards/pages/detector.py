"""One rule: its purpose, thresholds with sources, open findings, a back-test, and a form that sets thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, ApiFailure, Row, administers
from gpuwatch.dashboards.components import formats, ledger_math, parts, quantities, rule_trial, rules_list
from gpuwatch.dashboards.components.findings_list import card
from gpuwatch.dashboards.editing import fields
from gpuwatch.dashboards.editing.outcome import Outcome, Values, acts_on
from gpuwatch.dashboards.pages.setup import threshold_form
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query

TOP = 5


@dataclass(frozen=True)
class Data:
    """The rule, its open findings, and the back-test or its error."""

    rule: Row
    findings: Row | None
    answer: Row | None
    failure: ApiFailure | None
    edits: bool = False
    """Whether the reader may set thresholds."""
    card: Row | None = None
    """The card of thresholds, where its form is open."""


async def load(api: Api, query: Query) -> Data:
    """The rule in the path, and a back-test if the URL has one."""
    ident = query.path.removeprefix("/detectors/")
    rules = {str(row.get("id")): row for row in (await api.detectors()).get("items") or []}
    if ident not in rules:
        raise ApiFailure(404, "not_found", f"There is no rule with the id {formats.clip(ident, 60)}.")
    findings = await ledger_math.optional(api.findings(limit=TOP, detector=ident, state="open"))
    edits = administers(await api.me())
    opened = await api.detectors_card() if edits and query.get("edit") == "set" else None
    body = rule_trial.request_body(rules[ident], query)
    if body is None:
        return Data(rules[ident], findings, None, None, edits, opened)
    try:
        return Data(rules[ident], findings, await api.backtest(ident, body), None, edits, opened)
    except ApiFailure as error:
        if error.status == 401:
            raise
        return Data(rules[ident], findings, None, error, edits, opened)


@page("/detectors/*", "Rule", load, filters=("window", "cluster"), under="/findings", load_once=True)
def layout(data: Data, query: Query, scheme: str) -> Component:
    """The rule, the back-test form and its results."""
    found = rule_trial.results(data.answer, query) if data.answer is not None else []
    if data.failure is not None:
        found = [refused(data.failure, query)]
    form = rule_trial.form(data.rule, query)
    top = [html.Div([form, html.Div(found, className="found", id="found")], className="trial")] if found else []
    return html.Div(
        [
            parts.link("← Rules", query.link("/detectors"), "back"),
            threshold_form.form(data.rule, data.card, query) if data.card is not None else None,
            *top,
            html.Div(
                [
                    html.Div([about(data.rule, query), *([] if found else [form])], className="column"),
                    html.Div([now(data, query), limits(data.rule, data.edits, query)], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def about(rule: Row, query: Query) -> Component:
    """Title, purpose, ledger bucket and precision."""
    facts = [
        ("Ledger bucket", rules_list.claims(rule)),
        ("Preset", html.Span(formats.clip(rule.get("preset") or formats.MISSING, 30))),
        ("Precision", rules_list.precision(rule.get("feedback"))),
        ("Documentation", html.Span(formats.clip(rule.get("doc") or formats.MISSING, 80), className="mono")),
    ]
    tags: list[Component] = [html.Span(formats.clip(rule.get("id"), 60), className="soft mono")]
    tags += [parts.tag("Disabled", "warn")] if rule.get("off") else []
    tags += [parts.tag("Custom rule")] if rule.get("origin") == "site" else []
    return html.Section(
        [
            html.Div(tags, className="facts"),
            html.H1(formats.clip(rule.get("title"), 120)),
            html.P(formats.clip(rule.get("why"), 600), className="lead"),
            html.Div(
                [html.Div([html.Div(name, className="label"), shown]) for name, shown in facts], className="keyfacts"
            ),
        ],
        className="card",
    )


def now(data: Data, query: Query) -> Component:
    """The most expensive open findings."""
    items: list[Row] = (data.findings or {}).get("items") or []
    way = parts.link("All findings of this rule", query.link("/findings", detector=str(data.rule.get("id"))), "more")
    if data.findings is None:
        return parts.card("Open findings could not be loaded")
    if not items:
        return parts.card("No open findings", note=way)
    count = f"{len(items)}{'+' if data.findings.get('next') else ''}"
    title = f"{count} open finding{'s' if count != '1' else ''}"
    return parts.card(title, html.Div([card(item, query) for item in items], className="stack"), note=way)


@acts_on("/detectors/*")
async def act(api: Api, query: Query, action: str, values: Values) -> Outcome:
    """Back-tests or sets the thresholds of the form."""
    return await threshold_form.act(api, query, action, values)


def limits(rule: Row, edits: bool, query: Query) -> Component:
    """The thresholds in effect, with the source of each number."""
    sources: Row = rule.get("sources") or {}
    rows = [
        [
            html.Div(
                [
                    html.Div(quantities.label(name), title=name),
                    html.Div(formats.clip(sources.get(name) or "no source given", 240), className="soft small"),
                ]
            ),
            quantities.value(name, entry),
        ]
        for name, entry in (rule.get("thresholds") or {}).items()
    ]
    columns = [parts.Column("Threshold and source"), parts.Column("Value", "r")]
    change = parts.link("Set thresholds", fields.opened(query, "set"), "button small") if edits else None
    return parts.card("Thresholds in effect", parts.table(columns, rows, label="Thresholds"), note=change, name="late")


def refused(error: ApiFailure, query: Query) -> Component:
    """An error from the back-test: with a reset link if a threshold or the window is invalid."""
    if error.status == 400:
        way = parts.link("Reset", query.link(query.path), "button")
        return states.notice(
            "failing",
            "Invalid back-test",
            error.message,
            html.P(error.hint, className="hint") if error.hint else None,
            way,
        )
    return states.failed(error, query, whole=False)
