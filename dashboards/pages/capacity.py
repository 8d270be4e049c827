"""Capacity: what fits now, which free GPUs are stranded and why, and which moves would help."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import MAX_LIMIT, Api, Row
from gpuwatch.dashboards.components import capacity_moves, capacity_now, capacity_slots, formats, ledger_math, parts
from gpuwatch.dashboards.fleet import capacity_history, capacity_place, capacity_queue, faulty_gpus
from gpuwatch.dashboards.fleet.drawing import Style, drawing
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

WEEK = timedelta(days=7)
VIEWS = {"": "Now", "shapes": "What fits", "history": "Stranded and history"}
"""The views, by the value of `view` in the address."""
NO_USE = "Of no use to most requests: they ask for another model or MIG mode, or for more GPUs together. A request for this model may fit"
HOURLY = ("24h", "today", "yesterday", "7d", "week", "lastweek")


@dataclass(frozen=True)
class Data:
    """What fits now, move plans, history, stranding jobs, the map, the tried request and the queue. What failed to load is None.

    For tokens of teams only the map and the queue: `shapes` is None.
    """

    shapes: Row | None
    plans: Row | None
    history: Row | None
    stranded: Row | None
    fleet: Row | None = None
    placed: Row | None = None
    pending: Row | None = None
    faults: faulty_gpus.Faults = field(default_factory=dict)


async def load(api: Api, query: Query) -> Data:
    """Loads what the view shows: what fits now; the rest is optional."""
    cluster, view, optional = query.get("cluster"), view_of(query), ledger_math.optional
    if (await api.me()).get("teams"):
        fleet = await optional(api.get("topology/map", cluster=cluster))
        return Data(None, None, None, None, fleet, None, await optional(api.get("capacity/pending", cluster=cluster)))
    shapes = api.capacity("shapes", cluster=cluster, limit=MAX_LIMIT)
    if view == "history":
        stranded = optional(api.capacity("stranded", cluster=cluster, window=query.window))
        fits, past, why = await asyncio.gather(shapes, past_of(api, query), stranded)
        return Data(fits, None, past, why)
    plans = optional(api.capacity("plan", cluster=cluster))
    if view == "shapes":
        fits, moves = await asyncio.gather(shapes, plans)
        return Data(fits, moves, None, None)
    fits, moves, drawn, placed, waiting, faults = await asyncio.gather(
        shapes,
        plans,
        optional(api.get("topology/map", cluster=cluster)),
        optional(api.capacity("place", **capacity_place.asked(query))),
        optional(api.get("capacity/pending", cluster=cluster)),
        faulty_gpus.load(api, cluster),
    )
    return Data(fits, moves, None, None, drawn, placed, waiting, faults)


def view_of(query: Query) -> str:
    """The view in the address."""
    return query.get("view") if query.get("view") in VIEWS else ""


async def past_of(api: Api, query: Query) -> Row | None:
    """What was free and what fitted: by day where there are too many pools for hours."""

    async def by(step: str) -> Row | None:
        words = {"cluster": query.get("cluster"), "window": query.window, "step": step, "limit": MAX_LIMIT}
        return await ledger_math.optional(api.capacity("history", **words))

    step = step_of(query.window)
    found = await by(step)
    return await by("1d") if step == "1h" and (found or {}).get("next") else found


def step_of(window: str) -> str:
    """Hourly steps for windows of up to a week, daily steps otherwise."""
    words = window.partition("@")[0]
    start, _, end = words.partition(",")
    low, high = formats.moment(start), formats.moment(end)
    return "1h" if words in HOURLY or (low and high and high - low <= WEEK) else "1d"


@page("/capacity", "Capacity", load, icon="capacity", order=3, filters=("window", "cluster"))
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """Now: the map with a request to try, the queue and the plans. The other views: what fits, and what is stranded, over time too."""
    if data.shapes is None:
        return own(data, query, scheme)
    clusters: list[Row] = data.shapes.get("clusters") or []
    if not clusters:
        return html.Div([parts.heading("Capacity"), nothing(query)])
    ends = sorted({str(one["as_of"]) for one in clusters if one.get("as_of")})
    note = f"As of {formats.when(ends[0])}" if ends else "No data yet"
    choices = [(word, query.link(view=name or None), name == view_of(query)) for name, word in VIEWS.items()]
    left, right = columns(data, query, scheme)
    return html.Div(
        [
            parts.heading("Capacity", note),
            capacity_now.headlines(data.shapes),
            parts.picks(choices, "View"),
            html.Div(
                [
                    html.Div([one for one in left if one], className="column"),
                    html.Div([one for one in right if one], className="column"),
                ],
                className="halves",
            ),
        ]
    )


def columns(data: Data, query: Query, scheme: Scheme) -> tuple[list[Component | None], list[Component | None]]:
    """The cards of a view, left and right."""
    shapes: Row = data.shapes or {}
    view = view_of(query)
    if view == "shapes":
        return (
            [capacity_slots.whole(shapes), capacity_now.gang_table(shapes)],
            [capacity_slots.sliced(shapes), capacity_moves.repartition(data.plans), capacity_now.notes(shapes)],
        )
    if view == "history":
        return (
            [capacity_now.stranded(shapes, query), capacity_moves.strands(data.stranded, query)],
            [
                capacity_moves.history(data.history, scheme, query),
                capacity_history.slots(data.history, scheme, query),
                capacity_now.notes(shapes),
            ],
        )
    return (
        [free_map(data, query, scheme), capacity_queue.queue(data.pending, query)],
        [
            capacity_place.simulator(data.placed, query, data.fleet, data.faults),
            capacity_moves.plans(data.plans, query, data.pending),
        ],
    )


def free_map(data: Data, query: Query, scheme: Scheme) -> Component | None:
    """Free and stranded GPUs on their nodes, with the tried request."""
    if not (data.fleet or {}).get("nodes"):
        return None
    fleet: Row = data.fleet or {}
    shape = capacity_place.asked(query)["shape"]
    link = query.link("/topology", node="__NODE__", colour="free", **{"in": "__CLUSTER__"})
    marks = capacity_place.marks(fleet, data.placed)
    focus = (
        f"{query.get('of_pool')} {query.get('model')} {shape}"
        if query.get("shape") and any(one.at for one in marks)
        else ""
    )
    style = Style("free", scheme, marks, None, link, None, "middle", focus)
    return parts.card(
        "Free GPUs on their nodes",
        drawing(
            fleet, "capacity", "Map of the fleet: free, stranded and held GPUs. The tables beside have the same.", style
        ),
        note=f"{NO_USE}{'. Outlined: where the request that is tried would go' if any(one.at for one in marks) else ''}",
    )


def own(data: Data, query: Query, scheme: Scheme) -> Component:
    """What tokens of teams see: their own GPUs and their own waiting requests."""
    left = [capacity_queue.queue(data.pending, query, True)]
    about = states.advice(
        "What is free, and what would let a request start, depends on other teams: it is shown to tokens for the whole fleet."
    )
    right = [free_map(data, query, scheme), parts.plain(about)]
    return html.Div(
        [
            parts.heading("Capacity", "Your teams' requests and GPUs"),
            html.Div(
                [html.Div(left, className="column"), html.Div([one for one in right if one], className="column")],
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
