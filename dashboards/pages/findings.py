"""Findings inbox, one state per tab, most expensive first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.components.findings_list import (
    STATE_WORDS,
    amount,
    per_day,
    subject,
    taken_back,
    wasted_seconds,
)
from gpuwatch.dashboards.shell import filters, states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query, finding_link
from gpuwatch.dashboards.shell.theme import SEVERITIES

PAGE_SIZE = 100
PASSED = ("detector", "severity", "q", "cursor")
FILTERS = ("cluster", "pool", "team")


@dataclass(frozen=True)
class Data:
    """A page of findings, and the rules."""

    findings: Row
    detectors: Row | None


async def load(api: Api, query: Query) -> Data:
    """One page of findings in one state."""
    filters = {name: query.get(name) for name in PASSED if query.get(name)}
    state = query.get("state", "open")
    findings, detectors = await asyncio.gather(
        api.findings(
            limit=PAGE_SIZE,
            sort=query.get("sort", "cost"),
            **({} if state == "all" else {"state": state}),
            **filters,
            pool=query.get("pool"),
            **query.scope,
        ),
        ledger_math.optional(api.detectors()),
    )
    return Data(findings, detectors)


@page("/findings", "Findings", load, icon="findings", order=4, filters=(*FILTERS, "q"))
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Tabs by state, filters and the list."""
    state = query.get("state", "open")
    items: list[Row] = data.findings.get("items") or []
    choices = [
        (word, query.link(state=name, cursor=None), state == name)
        for name, word in (*STATE_WORDS.items(), ("all", "All"))
    ]
    note = f"{len(items)}{'+' if data.findings.get('next') else ''} shown" if items else None
    if note and (sums := wasted_sums(items)):
        note += f", {' and '.join(formats.money(cost, currency) for currency, cost in sums.items())} so far"
    return html.Div(
        [
            parts.heading("Findings", note),
            parts.picks(choices, "State"),
            narrowing(data, query),
            inbox(items, query) if items else nothing(state, query),
            parts.pager(data.findings, query),
        ]
    )


def wasted_sums(items: list[Row]) -> dict[str, Decimal]:
    """The cost of the findings so far, by currency."""
    sums: dict[str, Decimal] = {}
    for item in items:
        if cost := formats.number(item.get("wasted_cost")):
            currency = str(item.get("currency") or "")
            sums[currency] = sums.get(currency, Decimal(0)) + cost
    return sums


def narrowing(data: Data, query: Query) -> Component:
    """The rule and severity filters."""
    rules = [(str(row.get("id")), str(row.get("title"))) for row in (data.detectors or {}).get("items") or []]
    severity = query.get("severity")
    chips = [
        parts.link(
            name,
            query.link(severity=None if name == severity else name, cursor=None),
            "chip current" if name == severity else "chip",
        )
        for name in SEVERITIES
    ]
    rule = filters.select("detector", sorted(rules, key=lambda pair: pair[1]), query)
    return html.Div(
        [rule, html.Div(chips, className="chips", role="group", **parts.aria("Severity"))], className="narrowing"
    )


def inbox(items: list[Row], query: Query) -> Component:
    """One row per finding; the title links to its page."""
    columns = [
        parts.Column("Finding", "wide"),
        parts.Column("Severity", "narrow-hide", "severity"),
        parts.Column("Subject", "narrow-hide"),
        parts.Column("Team", "narrow-hide"),
        parts.Column("Cost so far", "r", "cost"),
        parts.Column("Per day", "r narrow-hide"),
        parts.Column("GPU-h", "r narrow-hide"),
        parts.Column("Since (UTC)", "r narrow-hide", "started"),
    ]
    rows = []
    for item in items:
        currency, daily, taken = str(item.get("currency") or ""), per_day(item), taken_back(item)
        rows.append(
            [
                html.Div(
                    [
                        parts.link(
                            formats.clip(item.get("title"), 90),
                            finding_link(query, str(item.get("key"))),
                            "title two-lines",
                        ),
                        html.Div(formats.clip(item.get("summary"), 200), className="two-lines soft"),
                        parts.tag(taken) if taken else None,
                        html.Div(
                            [
                                parts.severity(item.get("severity")),
                                formats.clip(formats.owner(item.get("team")), 24),
                            ],
                            className="facts narrow-only",
                        ),
                    ]
                ),
                parts.severity(item.get("severity")),
                html.Div(subject(item, query, 36), className="two-lines"),
                parts.team_link(query, item.get("team")),
                amount(item),
                parts.money(daily.quantize(Decimal("0.01")) if daily is not None else None, currency),
                parts.hours(wasted_seconds(item)),
                html.Span(formats.when(item.get("started_at")).removesuffix(" UTC"), className="num nowrap"),
            ]
        )
    return parts.plain(parts.table(columns, rows, query, "Findings", "cost"))


def nothing(state: str, query: Query) -> Component:
    """No findings in this state."""
    narrowed = any(query.get(name) for name in ("detector", "severity", "q", "team", "cluster"))
    if narrowed:
        return states.empty(
            "No findings match these filters",
            "Other findings may exist.",
            parts.link("Show all", query.link("/findings", team=None, cluster=None), "button"),
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
