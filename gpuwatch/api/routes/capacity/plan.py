"""What would make room, how fragmentation went, and which jobs stranded free GPUs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Name, Svc, WindowText, errors, instant_of, minute_of, window_of
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.routes.capacity.capacity import At, Days
from gpuwatch.api.schema.common import Money, Ratio, Shape, Time
from gpuwatch.capacity.demand import DAYS
from gpuwatch.core.clock import DAY_US, HOUR_US, Window

router = APIRouter(prefix=PREFIX, tags=["fleet"])
STEPS = {"1h": HOUR_US, "1d": DAY_US}
SHAPE_MAX = 12


class Move(Shape):
    job: str | None
    node: str
    gpus: int
    preemptible: bool
    to: str | None


class Blocker(Shape):
    job: str
    gpus: int
    free_gpus: int


class ShapePlan(Shape):
    cluster: str
    as_of: Time
    pool: str | None
    gpu_model: str | None
    shape: str
    free_gpus: int
    placeable: bool
    possible: bool
    exact: bool | None
    moved_gpus: int | None
    moves: list[Move]
    at_once: bool | None
    places: list[str]
    drained: list[str]
    not_known: str | None
    blockers: list[Blocker]


class LayoutChange(Shape):
    gpu: str
    layout: list[str]
    better: list[str]


class Repartition(Shape):
    cluster: str
    pool: str | None
    gpu_model: str
    since: Time
    until: Time
    changes: list[LayoutChange]
    served_ratio: Ratio | None
    served_ratio_after: Ratio | None


class Plans(Shape):
    at: Time
    items: list[ShapePlan]
    repartition: list[Repartition]
    unknown: dict[str, str]


class FreeThen(Shape):
    start: Time
    cluster: str
    pool: str | None
    gpu_model: str | None
    free_gpus: float
    stranded_gpus: float
    rate: Ratio
    largest_gang: int
    slots: dict[str, float]
    gangs: dict[str, float]
    requests: int | None


class History(Shape):
    items: list[FreeThen]
    next: str | None


class StrandedBy(Shape):
    cluster: str
    pool: str | None
    gpu_model: str | None
    job: str | None
    team: str | None
    user: str | None
    stranded_gpu_hours: float
    cost: Money | None
    currency: str | None


class StrandedByJob(Shape):
    items: list[StrandedBy]
    next: str | None


@router.get(
    "/capacity/plan", response_model=Plans, responses=errors(), summary="Moves that free capacity for a job shape"
)
def capacity_plan(
    request: Request,
    access: FleetReader,
    service: Svc,
    cluster: Name = None,
    shape: Annotated[
        str | None, Query(min_length=1, max_length=SHAPE_MAX, description="8, or 2x8: nodes x GPUs on each.")
    ] = None,
    at: At = None,
    days: Days = DAYS,
) -> Response:
    """The cheapest moves that make a shape fit single nodes of a pool: fewest GPUs first, then preemptible jobs.
    Without `shape`: requested shapes of the last `days` that do not fit. `exact` false: the search stopped early, so a
    cheaper plan may exist. Nothing is moved. `repartition` proposes MIG layouts for unallocated GPUs that serve the
    demand of the last week (held and waiting) better, with the share served before and after. Moves are in an order that works:
    each job goes whole onto GPUs, CPUs and memory that are free by then (`to`), on a node that it may use; `places` are the nodes that
    the shape gets, and `not_known` is what no source has of these. Jobs on several nodes and nodes with taints of their own are left alone.
    """
    from gpuwatch.capacity.plan import plans

    at_us = minute_of(service.now_us()) if at is None else instant_of(at)
    return kept(
        request,
        access,
        service,
        lambda store: plans(store, at_us, cluster=cluster, shape=shape, days=days, exact=at is not None),
        at_us,
    )


@router.get("/capacity/history", response_model=History, responses=errors(), summary="Fragmentation over time")
def capacity_history(
    request: Request,
    access: FleetReader,
    service: Svc,
    window: WindowText = "7d",
    cluster: Name = None,
    step: Annotated[Literal["1h", "1d"], Query(description="An item is an hour or a UTC day.")] = "1h",
    limit: Limit = 1000,
    cursor: CursorText = None,
) -> Response:
    """By step, cluster, pool and model with free capacity: average free and stranded GPUs, the largest gang that fitted
    one node, average slots of 1, 2, 4 and 8 GPUs on single nodes, and average gangs of 2x8 and 4x8 GPUs that fitted at the start
    of an hour. `requests` null: without known requests, nothing
    counts as stranded.
    """
    from gpuwatch.capacity.history import history

    asked = question({"window": window, "cluster": cluster, "step": step})
    place = decode(cursor, asked)
    span = window_of(window, service.now_us()) if place is None or place.window is None else place.window
    offset = 0 if place is None else place.position
    return kept(
        request,
        access,
        service,
        lambda store: _paged(
            history(store, span, STEPS[step], cluster=cluster, limit=limit, offset=offset), span, asked
        ),
        span,
    )


@router.get(
    "/capacity/stranded", response_model=StrandedByJob, responses=errors(), summary="Which jobs stranded free GPUs"
)
def capacity_stranded(
    request: Request,
    access: FleetReader,
    service: Svc,
    window: WindowText = "7d",
    cluster: Name = None,
    limit: Limit = 1000,
    cursor: CursorText = None,
) -> Response:
    """Free GPU-hours that typical requests could not use because the rest of the node was held, by the jobs that held
    it, with their price; largest first. job null: the node was not held at all.
    """
    from gpuwatch.capacity.history import by_job

    asked = question({"route": "stranded", "window": window, "cluster": cluster})
    place = decode(cursor, asked)
    span = window_of(window, service.now_us()) if place is None or place.window is None else place.window
    offset = 0 if place is None else place.position
    return kept(
        request,
        access,
        service,
        lambda store: _paged(by_job(store, span, cluster=cluster, limit=limit, offset=offset), span, asked),
        span,
    )


def _paged(found: dict[str, Any], span: Window, asked: str) -> dict[str, Any]:
    following = found.pop("next_offset")
    return found | {"next": None if following is None else encode(Cursor("", following, span), asked)}
