"""The rules: thresholds in effect, open findings, precision and errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import ledger_math, parts, rules_list
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query


@dataclass(frozen=True)
class Data:
    """The rules, their settings, open findings, and the checks."""

    rules: Row
    card: Row | None
    findings: Row | None
    quality: Row | None


async def load(api: Api, query: Query) -> Data:
    """Loads the rules; the rest is optional."""
    rules, card, findings, quality = await asyncio.gather(
        api.detectors(),
        ledger_math.optional(api.detectors_card()),
        ledger_math.optional(api.findings(limit=MAX_LIMIT, state="open")),
        ledger_math.optional(api.quality()),
    )
    return Data(rules, card, findings, quality)


@page("/detectors", "Rules", load, icon="detectors", order=11, filters=(), under="/findings")
def layout(data: Data, query: Query, scheme: str) -> Component:
    """Problems first, then the rules, then presets and thresholds by scope."""
    items: list[Row] = data.rules.get("items") or []
    refused: list[Row] = data.rules.get("refused") or []
    opened = rules_list.open_of((data.findings or {}).get("items") or [])
    off = sum(1 for item in items if item.get("off"))
    note = (
        f"{len(items)} rules"
        + (f", {off} disabled" if off else "")
        + f"; {sum(one.count for one in opened.values()):,} open findings"
    )
    trouble = rules_list.troubles(refused, (data.quality or {}).get("checks") or [])
    ordered = sorted(
        items,
        key=lambda item: (
            -(opened.get(str(item.get("id")), rules_list.Open()).cost or 0),
            -opened.get(str(item.get("id")), rules_list.Open()).count,
            str(item.get("id")),
        ),
    )
    body = rules_list.rules(ordered, opened, query) if items else nothing(query)
    return html.Div(
        [
            parts.heading("Rules", note if items else None),
            trouble,
            html.Div([body, rules_list.layers(data.card)], className="stack"),
            html.P(
                "Severity follows the cost per day unless the rule's page says otherwise: info below 10, low below 100, medium below 1,000, else high; low without a price.",
                className="soft small",
            ),
        ]
    )


def nothing(query: Query) -> Component:
    """No rules."""
    return states.empty(
        "No rules", "This server has no rules.", parts.link("Data quality", query.link("/quality"), "button")
    )
