"""Findings inbox: one tab per state, the most urgent first, as a list or by cause; actions on many at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from urllib.parse import urlencode

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import finding_actions, findings_inbox, ledger_math, parts
from gpuwatch.dashboards.components.findings_list import STATE_WORDS, spanned
from gpuwatch.dashboards.shell import filters, states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import SEVERITIES

PAGE_SIZE = 100
PASSED = ("detector", "severity", "q")
FILTERS = ("cluster", "pool", "team")
ORDER = "priority"
ORDER_WORDS = "Most urgent first: severity × cost a day × certainty. A high or critical one without a cost counts by the GPUs at risk. Lost work counts by the days since it began; less than a day counts as one."


@dataclass(frozen=True)
class Data:
    """A page of findings, the counts of all states with their causes, the rules, and the signed-in caller."""

    findings: Row
    inbox: Row
    detectors: Row | None
    me: Row | None


async def load(api: Api, query: Query) -> Data:
    """One page of findings in one state."""
    wanted = asked(query)
    state = query.get("state", "open")
    states = ",".join(STATE_WORDS) if state == "all" else state
    findings, inbox, detectors, me = await asyncio.gather(
        api.findings(
            limit=PAGE_SIZE,
            sort=query.get("sort", ORDER),
            cursor=query.get("cursor"),
            **({} if state == "all" else {"state": state}),
            **wanted,
        ),
        api.inbox(state=states, **wanted),
        ledger_math.optional(api.detectors()),
        ledger_math.optional(api.me()),
    )
    return Data(findings, inbox, detectors, me)


def asked(query: Query) -> dict[str, str]:
    """The filters of the URL as API parameters."""
    return {name: query.get(name) for name in (*PASSED, *FILTERS) if query.get(name)}


@page("/findings", "Findings", load, icon="findings", order=4, filters=(*FILTERS, "q"))
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Tabs by state, filters, the list or the causes, and the form for those that are checked."""
    state = query.get("state", "open")
    items: list[Row] = data.findings.get("items") or []
    by_cause = query.get("view") == "cause"
    content = findings_inbox.causes(data.inbox, query) if by_cause else findings_inbox.rows(items, query, ORDER)
    shown = [
        content,
        None if by_cause else parts.pager(data.findings, query),
        finding_actions.bulk(state, data.me),
    ]
    return html.Div(
        [
            parts.heading("Findings", total(data.inbox, state), export(query)),
            parts.picks(tabs(data.inbox, query, state), "State"),
            narrowing(data, query, by_cause),
            html.P(ORDER_WORDS, className="soft small") if items and query.get("sort", ORDER) == ORDER else None,
            *(shown if items else [nothing(state, query)]),
        ],
        className="inbox",
    )


def tabs(inbox: Row, query: Query, state: str) -> list[tuple[str, str, bool]]:
    """A tab for each state with its number of findings."""
    counts: Row = inbox.get("states") or {}
    number = {**counts, "all": sum(int(count) for count in counts.values())}
    return [
        (f"{word} {number[name]:,}" if name in number else word, query.link(state=name, cursor=None), state == name)
        for name, word in (*STATE_WORDS.items(), ("all", "All"))
    ]


def total(inbox: Row, state: str = "open") -> str | None:
    """What the findings of this tab waste a day, or have wasted so far."""
    words = spanned(inbox.get("total") or {}, state in ("resolved", "all"))
    return (
        f"{words}, without lost work. Teams & chargeback shows all that was avoidable, found or not." if words else None
    )


def export(query: Query) -> Component:
    """A link to all findings of this tab as a CSV file."""
    state = query.get("state", "open")
    wanted = {**asked(query), "sort": query.get("sort", ORDER), "format": "csv"}
    wanted |= {} if state == "all" else {"state": state}
    return html.A(
        "Export CSV", href=f"/api/v1/findings?{urlencode(wanted)}", className="button", download="findings.csv"
    )


def narrowing(data: Data, query: Query, by_cause: bool) -> Component:
    """List or causes, and the rule and severity filters."""
    rules = [(str(row.get("id")), str(row.get("title"))) for row in (data.detectors or {}).get("items") or []]
    severity = query.get("severity")
    views = [
        chip("List", query.link(view=None, cursor=None), not by_cause),
        chip("By cause", query.link(view="cause", cursor=None), by_cause),
    ]
    chips = [
        chip(name, query.link(severity=None if name == severity else name, cursor=None), name == severity)
        for name in SEVERITIES
    ]
    rule = filters.select("detector", sorted(rules, key=lambda pair: pair[1]), query)
    return html.Div(
        [
            html.Div(views, className="chips", role="group", **parts.aria("View")),
            rule,
            html.Div(chips, className="chips", role="group", **parts.aria("Severity")),
        ],
        className="narrowing",
    )


def chip(word: str, href: str, current: bool) -> Component:
    """A filter that is on or off."""
    return parts.link([word, parts.HERE] if current else word, href, "chip current" if current else "chip")


def nothing(state: str, query: Query) -> Component:
    """No findings in this state."""
    narrowed = any(query.get(name) for name in ("detector", "severity", "q", "team", "cluster", "pool"))
    if narrowed:
        return states.empty(
            "No findings match these filters",
            "Other findings may exist.",
            parts.link("Show all", query.link("/findings", team=None, cluster=None, pool=None), "button"),
        )
    if state == "open":
        return states.empty(
            "No open findings",
            "No rule found anything to act on. Rules that could not run are listed on the data quality page.",
            html.Div(
                [
                    parts.link("Data quality", query.link("/quality"), "button"),
                    parts.link("Rules", query.link("/detectors"), "button"),
                ],
                className="buttons",
            ),
        )
    return states.empty(f"No {STATE_WORDS.get(state, state).lower()} findings", "Choose another state above.")
