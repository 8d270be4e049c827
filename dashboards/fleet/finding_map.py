"""The nodes of a finding as a small drawing, with its GPUs outlined."""

from __future__ import annotations

from dash.development.base_component import Component

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import parts
from gpuwatch.dashboards.fleet.drawing import Mark, Style, places_of, small
from gpuwatch.dashboards.shell.query import Query
from gpuwatch.dashboards.shell.theme import Scheme

COLOURS = {
    "topology-blind-placement": "owner",
    "fragmentation": "free",
    "partial-island": "free",
    "straggler": "waste",
    "fabric-congestion": "waste",
}
"""The findings that are about where GPUs are, and what their drawing shows."""
MAX_NODES = 64


def is_about_places(finding: Row) -> bool:
    """Whether a drawing of the fleet as it is now belongs to a finding: its rule is about places, and it has not ended."""
    return finding.get("detector") in COLOURS and not finding.get("ended_at")


def finding_map(fleet: Row | None, finding: Row, query: Query, scheme: Scheme) -> Component | None:
    """A card with the nodes of a finding; None where its rule is not about places, or the map has none of its nodes.

    `fleet` is the answer of GET /topology/map for the finding's cluster: the present, so an ended finding has no drawing.
    """
    if fleet is None or not is_about_places(finding):
        return None
    colour = COLOURS[str(finding["detector"])]
    gpus = [str(device).partition("/")[0] for device in finding.get("devices") or []]
    marked = places_of(fleet, gpus)
    cluster = str(finding.get("cluster"))
    nodes = list(dict.fromkeys([*(str(one) for one in finding.get("nodes") or []), *(node for _, node in marked)]))
    marks = [Mark("GPUs of this finding", marked)] if marked else []
    link = query.link("/topology", node="__NODE__", colour=colour, **{"in": "__CLUSTER__"})
    style = Style(colour, scheme, marks, None, link, None, "short" if len(nodes) > 4 else "tiny")
    drawn = small(
        fleet, f"finding {finding.get('key')}", "The nodes of this finding", nodes[:MAX_NODES], cluster, style
    )
    if drawn is None:
        return None
    note = f"The first {MAX_NODES} of {len(nodes)}" if len(nodes) > MAX_NODES else "Now. Click a node for its links"
    return parts.card("Where it is", drawn, note=note)
