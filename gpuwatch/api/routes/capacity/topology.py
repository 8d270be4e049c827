"""The graph of where GPUs are and what links them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Name, Svc, errors, instant_of, minute_of
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.common import Shape, Time
from gpuwatch.core.clock import Window

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])

At = Annotated[
    str | None,
    Query(max_length=WINDOW_MAX, description="The instant (RFC 3339) to look at; default: now."),
]


class TopologyItem(Shape):
    cluster: str
    id: str
    kind: str
    name: str
    parent: str | None
    parent_kind: str | None
    level: str | None
    bandwidth_gb_per_s: float | None
    nearest: bool
    source: str
    observed_at: Time | None
    valid_from: Time | None
    valid_until: Time | None


class TopologyLevel(Shape):
    kind: str
    inside_node: bool


class MissingTopology(Shape):
    cluster: str
    node: str
    gpus: int
    what: str
    fix: str


class TopologyConflict(Shape):
    cluster: str
    node: str
    kind: str
    parent: str
    source: str
    told: str
    told_source: str


class Topology(Shape):
    items: list[TopologyItem]
    at: Time
    levels: list[TopologyLevel]
    missing: list[MissingTopology]
    more_missing: int
    conflicts: list[TopologyConflict]
    more_conflicts: int
    next: str | None


@router.get(
    "/topology", response_model=Topology, responses=errors(), summary="Location of GPUs and the links between them"
)
def topology(
    request: Request,
    access: FleetReader,
    service: Svc,
    cluster: Name = None,
    at: At = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """An item is an element and its container (`parent`, null for the outermost): GPU, NVLink island, PCIe switch, NUMA
    node, node, NVLink domain across nodes, block, leaf, spine, ..., zone. `bandwidth_gb_per_s` is per direction and GPU
    between two GPUs that meet there. `missing` lists nodes without a source, with the fix; nothing is assumed.
    """
    from gpuwatch.topology.listing import items

    asked = question({"cluster": cluster, "at": at})
    place = decode(cursor, asked)
    at_us = minute_of(service.now_us()) if at is None else instant_of(at)
    if place is not None and place.window is not None:
        at_us = place.window.start_us
    offset = 0 if place is None else place.position
    window = Window(at_us, at_us + 1)

    def look(store: Store) -> dict[str, Any]:
        found = items(store, cluster, at_us, limit, offset)
        following = found.pop("next_offset")
        return found | {"next": None if following is None else encode(Cursor("", following, window), asked)}

    return kept(request, access, service, look, at_us)
