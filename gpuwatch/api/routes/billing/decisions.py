"""Decisions from measured use: own or rent, spot, slices instead of GPUs, two pools as one."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader, Reader
from gpuwatch.api.common import PREFIX, Names, Svc, WindowText, answer, errors, seen, split, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.common import Shape
from gpuwatch.core.errors import UsageError

router = APIRouter(prefix=PREFIX, tags=["decisions"])

Amount = Annotated[str | None, Query(max_length=40, description="A decimal number.")]


class Decisions(Shape):
    items: list[dict[str, Any]]
    assumptions: dict[str, str | None]
    notes: list[str]
    window: dict[str, str]


class Proposals(Decisions):
    jobs: int
    jobs_without_price: int | None = None
    jobs_unjudged: int | None = None
    saving: dict[str, str]


@router.get("/decisions/own-vs-cloud", response_model=Decisions, responses=errors(), summary="Own or rent")
def own_vs_cloud(access: FleetReader, service: Svc, window: WindowText = "7d", cloud_price: Amount = None) -> Response:
    """By cluster, pool and model: the utilisation at which owning breaks even, payback in months, and their sensitivity
    to price and use. `missing` lists inputs that are still needed.
    """
    from gpuwatch.advisor.fleet import own_vs_cloud as look

    assumed, span = assumptions(cloud_price=cloud_price), window_of(window, service.now_us())
    with service.reader() as store:
        return answer(look(store, service.state, span, assumed))


@router.get("/decisions/spot", response_model=Proposals, responses=errors(), summary="Jobs for spot capacity")
def spot(
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    spot_discount: Amount = None,
    interruptions_an_hour: Amount = None,
) -> Response:
    """The saving of each job on spot capacity, after the cost of interruptions."""
    from gpuwatch.advisor.jobs import spot_suitability as look

    assumed = assumptions(spot_discount=spot_discount, interruptions_an_hour=interruptions_an_hour)
    span, teams = window_of(window, service.now_us()), seen(access.teams, split(team))
    with service.reader() as store:
        return answer(look(store, service.state, span, teams, assumed))


@router.get("/decisions/right-sizing", response_model=Proposals, responses=errors(), summary="Jobs that fit in a slice")
def right_sizing(
    access: Reader, service: Svc, window: WindowText = "7d", team: Names = None, headroom: Amount = None
) -> Response:
    """Jobs that held a whole GPU but needed only a MIG slice."""
    from gpuwatch.advisor.jobs import right_sizing as look

    assumed, span = assumptions(headroom=headroom), window_of(window, service.now_us())
    with service.reader() as store:
        return answer(look(store, service.state, span, seen(access.teams, split(team)), assumed))


@router.get("/decisions/consolidation", response_model=Decisions, responses=errors(), summary="Pools as one")
def consolidation(
    access: FleetReader,
    service: Svc,
    cluster: Annotated[str, Query(min_length=1, max_length=256)],
    pool: Annotated[list[str], Query(max_length=50, description="Pools to merge.")],
    window: WindowText = "7d",
    headroom: Amount = None,
) -> Response:
    """Nodes that are not needed if these pools are merged, and their monthly cost."""
    from gpuwatch.advisor.merging import consolidation as look

    assumed, span = assumptions(headroom=headroom), window_of(window, service.now_us())
    try:
        with service.reader() as store:
            return answer(look(store, service.state, span, cluster, split(pool), assumed))
    except UsageError as error:
        raise ApiError(400, str(error), field="pool") from error


def assumptions(**given: str | None) -> Any:
    """The assumptions of a question; ApiError 400 naming the one that is no number or out of range."""
    from gpuwatch.advisor.inputs import Assumptions

    known: dict[str, Decimal] = {}
    for name, text in given.items():
        if text is None:
            continue
        try:
            known[name] = Decimal(text)
            if not known[name].is_finite():
                raise ValueError(text)
        except (ArithmeticError, ValueError) as error:
            raise ApiError(400, f"{name} {text!r}: not a decimal number such as 0.10", field=name) from error
    try:
        return Assumptions(**known)
    except UsageError as error:
        raise ApiError(400, str(error), field=next(iter(known), "window")) from error
