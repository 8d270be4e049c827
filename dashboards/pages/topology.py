"""Topology: every GPU in its place, a job beside the best place that was free, the links of a node."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.client import Api, Row
from gpuwatch.dashboards.components import formats, ledger_math, parts
from gpuwatch.dashboards.fleet import faulty_gpus
from gpuwatch.dashboards.fleet.colours import COLOURS
from gpuwatch.dashboards.fleet.drawing import Mark, Style, drawing, places_of
from gpuwatch.dashboards.fleet.topology_cards import free_with_fault, job_card, leaves, node_cards, spread_jobs
from gpuwatch.dashboards.shell import states
from gpuwatch.dashboards.shell.page import page
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

OUTER = ("leaf", "block", "nvlink_domain")


@dataclass(frozen=True)
class Data:
    """The map, the chosen job beside its best place, the links of the chosen node, and what its links touch."""

    fleet: Row
    job: Row | None
    node: Row | None
    touched: Sequence[Row]
    faults: faulty_gpus.Faults = field(default_factory=dict)


async def load(api: Api, query: Query) -> Data:
    """Loads the map, and what is chosen on it."""
    cluster, node, job = query.get("in") or query.get("cluster"), query.get("node"), query.get("job")
    fleet, overlay, view, faults = await asyncio.gather(
        api.get("topology/map", cluster=query.get("cluster"), pool=query.get("pool")),
        ledger_math.optional(api.get("topology/job", job=job, cluster=cluster)) if job else nothing(),
        ledger_math.optional(api.get("topology/node", cluster=cluster, node=node)) if node else nothing(),
        faulty_gpus.load(api, cluster) if node else no_faults(),
    )
    inside = [one for one in (view or {}).get("inside") or [] if one["kind"] in OUTER]
    asked = [("node", node), *((str(one["kind"]), str(one["name"])) for one in inside)] if view else []
    touched = await asyncio.gather(
        *(
            ledger_math.optional(api.get("topology/touches", cluster=cluster, kind=kind, name=name))
            for kind, name in asked
        )
    )
    return Data(fleet, overlay, view, [one for one in touched if one], faults)


async def no_faults() -> faulty_gpus.Faults:
    """No node was chosen."""
    return {}


async def nothing() -> Row | None:
    """Nothing was asked."""
    return None


@page("/topology", "Topology", load, icon="topology", order=3, filters=("cluster", "pool", "team"))
def layout(data: Data, query: Query, scheme: Scheme) -> Component:
    """The drawing on the left; what is chosen on it, or jobs on several nodes, on the right; the same as a table below."""
    nodes: list[Row] = data.fleet.get("nodes") or []
    if not nodes:
        return html.Div([parts.heading("Topology"), empty(data.fleet, query)])
    ends = sorted({str(one["as_of"]) for one in data.fleet.get("clusters") or []})
    colour = query.get("colour") if query.get("colour") in COLOURS else "owner"
    chosen = selected(query, nodes)
    right: list[Component | None] = [job_card(data.job, query)] if query.get("job") else []
    right += node_cards(data.fleet, chosen, data.node, data.touched, query, data.faults) if chosen else []
    if not right:
        right = [spread_jobs(data.fleet, query)]
    return html.Div(
        [
            parts.heading("Topology", f"As of {formats.when(ends[0])}" if ends else None),
            parts.picks([(word, query.link(colour=name), name == colour) for name, word in COLOURS.items()], "Colour"),
            html.Div(
                [
                    html.Div([map_card(data, query, scheme, colour), leaves(data.fleet, query)], className="column"),
                    html.Div([one for one in right if one], className="column"),
                ],
                className="two-one",
            ),
        ]
    )


def empty(fleet: Row, query: Query) -> Component:
    """No GPU is known."""
    reasons = [str(why) for why in (fleet.get("unknown") or {}).values()]
    return states.empty(
        "No GPUs here",
        reasons[0] if reasons else "No GPU was measured or reported by a scheduler yet, or the filters exclude them.",
        parts.link("Data quality", query.link("/quality"), "button"),
    )


def selected(query: Query, nodes: Sequence[Row]) -> Row | None:
    """The node of the URL."""
    name, cluster = query.get("node"), query.get("in")
    return (
        next((one for one in nodes if one["node"] == name and cluster in ("", one["cluster"])), None) if name else None
    )


def map_card(data: Data, query: Query, scheme: Scheme, colour: str) -> Component:
    """The drawing, with its answer as the title."""
    team, fleet = query.get("team"), data.fleet
    teams: list[str] = fleet.get("teams") or []
    number = teams.index(team) if team in teams else None
    marks, focus = overlay(data)
    base = query.link(job=None, node="__NODE__", **{"in": "__CLUSTER__"})
    style = Style(
        colour,
        scheme,
        marks,
        (query.get("in"), query.get("node")) if query.get("node") else None,
        base,
        (lambda node: number in node["team"]) if team else None,
        "",
        focus,
    )
    title = faults(fleet) if colour == "health" else headline(fleet)
    more = fleet.get("more_nodes")
    note = "Drag to move, + and − or Ctrl and the wheel to zoom, click a node for its links"
    return parts.card(
        title,
        drawing(
            fleet,
            "topology",
            f"Map of the fleet by {COLOURS[colour].lower()}. {title}. The table below has the same.",
            style,
        ),
        html.P(f"{more:,} more nodes are not drawn: choose a cluster or a pool.", className="soft small")
        if more
        else None,
        note=note,
    )


def headline(fleet: Row) -> str:
    """How many GPUs there are, and how many are free."""
    nodes: list[Row] = fleet.get("nodes") or []
    counts = Counter(state for node in nodes for state in node["state"])
    places = {(node["cluster"], node["leaf"]) for node in nodes if node["leaf"]}
    below = f" below {len(places):,} leaf switch{'es' if len(places) != 1 else ''}" if places else ""
    free = counts["free"] + counts["stranded"]
    if counts["other"]:
        return f"Your teams hold {counts['held']:,} GPUs on {len(nodes):,} nodes{below}"
    part = "all" if counts["stranded"] == free else f"{counts['stranded']:,}"
    stranded = f", {part} of them of no use to most requests" if counts["stranded"] else ""
    broken = free_with_fault(nodes)
    faulty = f", {broken:,} with a fault" if broken else ""
    return f"{counts.total():,} GPUs on {len(nodes):,} nodes{below}: {free:,} free{stranded}{faulty}"


def faults(fleet: Row) -> str:
    """How many GPUs have an open finding about hardware, links or driver."""
    every = [fault for node in fleet.get("nodes") or [] for fault in node["fault"]]
    some = sum(fault is not None for fault in every)
    return f"{some:,} of {len(every):,} GPUs have an open finding about hardware, links or driver"


def overlay(data: Data) -> tuple[list[Mark], str]:
    """The outlines of the chosen job and of its best place, and what the drawing starts at."""
    if data.job is None:
        return [], ""
    held = places_of(data.fleet, [one["gpu"] for one in data.job["gpus"]])
    best = places_of(data.fleet, [one["gpu"] for one in (data.job.get("best") or {}).get("gpus") or []])
    marks = [Mark("GPUs of the job", held), Mark("Best place that was free at its start", best, True)]
    return marks, f"job {data.job['cluster']} {data.job['job']}"
