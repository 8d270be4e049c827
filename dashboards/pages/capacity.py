"""Capacity: what fits now, which free GPUs are stranded and why, and which moves would help."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import capacity_moves, capacity_now, capacity_slots, formats, ledger_math, parts
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

WEEK = timedelta(days=7)
HOURLY = ("24h", "today", "yesterday", "7d", "week", "lastweek")


@dataclass(frozen=True)
class Data:
    """Shapes that fit now, move plans, history and stranding jobs; the last three are None if they failed to load."""

    shapes: Row
    plans: Row | None
    history: Row | None
    stranded: Row | None


async def load(api: Api, query: Query) -> Data:
    """Loads what fits now; the rest is optional."""
    cluster = query.get("cluster")
    step = step_of(query.window)
    shapes, plans, history, stranded = await asyncio.gather(
        api.capacity("shapes", cluster=cluster, limit=MAX_LIMIT),
        ledger_math.optional(api.capacity("plan", cluster=cluster)),
        ledger_math.optional(api.capacity("history", cluster=cluster, window=query.window, step=step, limit=MAX_LIMIT)),
        ledger_math.optional(api.capacity("stranded", cluster=cluster, window=query.window)),
    )
    if step == "1h" and (history or {}).get("next"):
        # Too many pools for hourly steps: daily steps cover the whole window.
        history = await ledger_math.optional(
            api.capacity("history", cluster=cluster, window=query.window, step="1d", limit=MAX_LIMIT)
        )
    return Data(shapes, plans, history, stranded)


def step_of(window: str) -> str:
    """Hourly steps for windows of up to a week, daily steps otherwise."""
    start, _, end = window.partition(",")
    low, high = formats.moment(start), formats.moment(end)
    return "1h" if window in HOURLY or (low and high and high - low <= WEEK) else "1d"


@page("/capacity", "Capacity", load, icon="capacity", order=3, filters=("window", "cluster"))
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """What fits now and which moves would help on the left; what is stranded and the history on the right."""
    clusters: list[Row] = data.shapes.get("clusters") or []
    if not clusters:
        return html.Div([parts.heading("Capacity"), nothing(query)])
    ends = sorted({str(one["as_of"]) for one in clusters if one.get("as_of")})
    note = f"As of {formats.when(ends[0])}" if ends else "No data yet"
    left = [
        capacity_slots.slots(data.shapes, query),
        capacity_moves.plans(data.plans, query),
        capacity_moves.repartition(data.plans),
        capacity_now.gang_table(data.shapes),
    ]
    right = [
        capacity_now.stranded(data.shapes, query),
        capacity_moves.history(data.history, scheme, query),
        capacity_moves.strands(data.stranded, query),
        capacity_now.notes(data.shapes),
    ]
    return html.Div(
        [
            parts.heading("Capacity", note),
            capacity_now.headlines(data.shapes),
            html.Div(
                [
                    html.Div([one for one in left if one], className="column"),
                    html.Div([one for one in right if one], className="column"),
                ],
                className="halves",
            ),
        ]
    )


def nothing(query: Query) -> Component:
    """No GPUs."""
    return states.empty(
        "No GPUs here",
        "There are no measurements and no nodes from a scheduler yet, or the filters exclude them.",
        parts.link("Data quality", query.link("/quality"), "button"),
    )
