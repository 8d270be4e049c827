"""What could be placed now, and what of the free GPUs is stranded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Name, Svc, errors, instant_of, minute_of
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.common import Money, Ratio, Shape, Time
from gpuwatch.capacity.demand import DAYS, DAYS_MAX, DAYS_MIN
from gpuwatch.core.clock import Window

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])

At = Annotated[
    str | None,
    Query(max_length=WINDOW_MAX, description="The instant (RFC 3339) to look at; default: now."),
]
Days = Annotated[int, Query(ge=DAYS_MIN, le=DAYS_MAX, description="Days of submitted requests that count.")]


class Slots(Shape):
    cluster: str
    pool: str | None
    gpu_model: str | None
    shape: str
    profile: str | None
    gpus: float | None
    requested_ratio: Ratio | None
    node_local: int | None
    nvlink_local: int | None
    leaf_local: int | None
    across: int | None
    ready: int | None
    creatable: int | None
    placeable: int | None
    after_repartition: int | None
    exact: bool | None


class DemandShape(Shape):
    shape: str
    gpu_models: list[str] | None
    requests: int | None
    ratio: Ratio
    level: str
    placeable: int
    starved: bool


class DemandSummary(Shape):
    since: Time
    requests: int
    requests_judged: int
    requests_unsized: int
    usual: bool
    shapes: list[DemandShape]


class Cause(Shape):
    case: str
    gpus: float
    means: str
    remedy: str


class Amounts(Shape):
    free_gpus: float
    stranded_gpus: float
    rate: Ratio | None
    causes: list[Cause]


class LargestGang(Shape):
    gpu_model: str | None
    level: str
    gpus: int | None
    domain: str | None
    free_gpus: int
    availability_gap: int | None


class CapacityNote(Shape):
    what: str
    gpus: int | None
    fix: str


class ClusterCapacity(Shape):
    cluster: str
    as_of: Time | None
    demand: DemandSummary | None
    gpus: Amounts | None
    slices: Amounts | None
    gangs: list[LargestGang]
    notes: list[CapacityNote]


class Stranded(Shape):
    cluster: str
    pool: str | None
    gpu_model: str | None
    free_gpus: float
    stranded_gpus: float
    rate: Ratio | None
    cost_per_hour: Money | None
    currency: str | None


class HourlyCost(Shape):
    amount: Money
    currency: str


class StrandedTotal(Shape):
    free_gpus: float | None
    stranded_gpus: float | None
    rate: Ratio | None
    cost_per_hour: list[HourlyCost] | None
    unpriced_gpus: float | None


class Capacity(Shape):
    items: list[Slots]
    at: Time
    days: int
    clusters: list[ClusterCapacity]
    stranded: list[Stranded]
    total: StrandedTotal
    next: str | None


@router.get("/capacity/shapes", response_model=Capacity, responses=errors(), summary="Job shapes that fit now")
def capacity_shapes(
    request: Request,
    access: FleetReader,
    service: Svc,
    cluster: Name = None,
    at: At = None,
    days: Days = DAYS,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """An item is a job shape on the GPUs of one cluster, pool and model. For whole GPUs: the free slots on single
    nodes, within NVLink, below one leaf, and anywhere. For a MIG profile: instances that are idle (`ready`), that could
    be created next to the others, and that would fit after idle ones are removed. null: unknown; `notes` has the fix.
    `stranded` is the free GPUs that the requests of the last `days` could not use on average (FGD's expected
    fragmentation), with its price an hour; `clusters` has the causes, and the largest gang at each level. Outside the
    time that a cluster's ledger covers, everything is null, `total` too, with the note `books`.
    """
    from gpuwatch.capacity.now import shapes

    asked = question({"cluster": cluster, "at": at, "days": days})
    place = decode(cursor, asked)
    at_us = minute_of(service.now_us()) if at is None else instant_of(at)
    if place is not None and place.window is not None:
        at_us = place.window.start_us
    offset = 0 if place is None else place.position
    window = Window(at_us, at_us + 1)

    def look(store: Store) -> dict[str, Any]:
        found = shapes(store, at_us, cluster=cluster, days=days, exact=at is not None, limit=limit, offset=offset)
        following = found.pop("next_offset")
        return found | {"next": None if following is None else encode(Cursor("", following, window), asked)}

    return kept(request, access, service, look, at_us)
