"""Decisions from measured use: own or rent, spot, slices, merged pools, checkpoints, and where to run a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader, Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, answer, errors, seen, split, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.common import Money, Ratio, Shape
from gpuwatch.core.errors import UsageError

router = APIRouter(prefix=PREFIX, tags=["decisions"])

Amount = Annotated[str | None, Query(max_length=40, description="A decimal number.")]
Word = Annotated[str | None, Query(max_length=40)]


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
def own_vs_cloud(
    request: Request, access: FleetReader, service: Svc, window: WindowText = "7d", cloud_price: Amount = None
) -> Response:
    """By cluster, pool and model: the utilisation at which owning breaks even, payback in months, and their sensitivity
    to price and use. `missing` lists inputs that are still needed.
    """
    from gpuwatch.advisor.fleet import own_vs_cloud as look

    assumed, span = assumptions(cloud_price=cloud_price), window_of(window, service.now_us())
    return kept(request, access, service, lambda store: look(store, service.state, span, assumed), span)


@router.get("/decisions/spot", response_model=Proposals, responses=errors(), summary="Jobs for spot capacity")
def spot(
    request: Request,
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
    return kept(request, access, service, lambda store: look(store, service.state, span, teams, assumed), span)


@router.get("/decisions/right-sizing", response_model=Proposals, responses=errors(), summary="Jobs that fit in a slice")
def right_sizing(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    headroom: Amount = None,
) -> Response:
    """Jobs that held a whole GPU but needed only a MIG slice."""
    from gpuwatch.advisor.jobs import right_sizing as look

    assumed, span = assumptions(headroom=headroom), window_of(window, service.now_us())
    teams = seen(access.teams, split(team))
    return kept(request, access, service, lambda store: look(store, service.state, span, teams, assumed), span)


@router.get("/decisions/consolidation", response_model=Decisions, responses=errors(), summary="Pools as one")
def consolidation(
    request: Request,
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
        return kept(
            request,
            access,
            service,
            lambda store: look(store, service.state, span, cluster, split(pool), assumed),
            span,
        )
    except UsageError as error:
        raise ApiError(400, str(error), field="pool") from error


class Fact(Shape):
    title: str
    name: str
    value: float | str | None
    unit: str
    text: str
    basis: str
    source: str


class CheckpointSize(Shape):
    precision: str
    optimizer: str
    bytes_per_param: float
    bytes: int


class CheckpointCheck(Shape):
    items: list[Fact]
    sizes: list[CheckpointSize]
    stalls: list[dict[str, Any]]
    assumptions: dict[str, str | None]
    notes: list[str]
    window: dict[str, str] | None


class Place(Shape):
    rank: int | None
    kind: str
    site: str
    cluster: str | None
    pool: str | None
    gpu_model: str | None
    score: Ratio | None
    score_most: Ratio | None
    gpus: int | None
    free_gpus: int | None
    fits: str | None
    gb_per_s: float | None
    topology_ratio: Ratio | None
    wait_seconds: float | None
    transfer_seconds: float | None
    done_seconds: float | None
    time_ratio: Ratio | None
    price: Money | None
    egress_cost: Money | None
    cost: Money | None
    cost_ratio: Ratio | None
    currency: str
    reasons: list[str]


class Places(Shape):
    items: list[Place]
    currency: str
    notes: list[str]
    window: dict[str, str]


@router.get(
    "/decisions/checkpoint", response_model=CheckpointCheck, responses=errors(), summary="Storage for checkpoints"
)
def checkpoint(
    access: FleetReader,
    service: Svc,
    params: Annotated[str, Query(max_length=40, description="Parameters of the model: 70e9 or 70B.")],
    gpus: Annotated[str, Query(max_length=40, description="GPUs of the job.")],
    window: WindowText = "30d",
    write_gbps: Amount = None,
    precision: Word = None,
    optimizer: Word = None,
    bytes_per_param: Amount = None,
    stall_share: Amount = None,
    interval_minutes: Amount = None,
    background_seconds: Amount = None,
    restart_minutes: Amount = None,
    interruptions_per_million_gpu_hours: Amount = None,
    gpu_price: Amount = None,
    model: Name = None,
    cluster: Name = None,
) -> Response:
    """Size of a checkpoint, write bandwidth needed to stay below `stall_share`, the best interval by Young and Daly with
    the fleet's own failure rate where it has one, and what the fleet's checkpoint stalls cost a month. `write_gbps` is
    gigabytes per second. Each item names its `basis`: given, formula, measured, guess or unknown.
    """
    from gpuwatch.jobs.checkpoint_inputs import question_of
    from gpuwatch.jobs.checkpoints import check

    given = {
        "params": params, "gpus": gpus, "write_gbps": write_gbps, "precision": precision, "optimizer": optimizer,
        "bytes_per_param": bytes_per_param, "stall_share": stall_share, "interval_minutes": interval_minutes,
        "background_seconds": background_seconds, "restart_minutes": restart_minutes,
        "interruptions_per_million_gpu_hours": interruptions_per_million_gpu_hours, "gpu_price": gpu_price,
        "model": model, "cluster": cluster,
    }  # fmt: skip
    span = window_of(window, service.now_us())
    with _named_field():
        question = question_of(**given)
        with service.reader() as store:
            return answer(check(store, question, span))


@router.get("/decisions/place", response_model=Places, responses=errors(), summary="Where to run a job")
def place(
    access: FleetReader,
    service: Svc,
    gpus: Annotated[str, Query(max_length=40, description="GPUs of the job.")],
    window: WindowText = "30d",
    model: Name = None,
    hours: Amount = None,
    cluster: Name = None,
    data_gb: Annotated[list[str] | None, Query(max_length=100, description="GB@SITE.")] = None,
    site: Annotated[list[str] | None, Query(max_length=100, description="CLUSTER=SITE or CLUSTER/POOL=SITE.")] = None,
    link: Annotated[
        list[str] | None, Query(max_length=100, description="from=A,to=B,gb_per_s=1.25,price_per_gb=0.02")
    ] = None,
    cloud: Annotated[
        list[str] | None, Query(max_length=100, description="name=aws,price=6.88,gpus_a_node=8,wait_hours=0.5")
    ] = None,
) -> Response:
    """Pools of the fleet and the named clouds, best first: by topology, expected wait from the queue history of `window`,
    price, and time and cost of moving the data. `score` null: something is unknown, and `score_most` is the best that it
    could be; both null: the job does not fit.
    """
    from gpuwatch.advisor.place import place as look
    from gpuwatch.advisor.place_question import question_of

    now_us = service.now_us()
    span = window_of(window, now_us)
    with _named_field():
        question = question_of(
            gpus,
            model=model,
            hours=hours,
            cluster=cluster,
            data=data_gb or (),
            site=site or (),
            link=link or (),
            cloud=cloud or (),
        )
        with service.reader() as store:
            return answer(look(store, service.state, now_us, span, question))


@contextmanager
def _named_field() -> Iterator[None]:
    """A UsageError as ApiError 400 with the parameter that its message begins with."""
    try:
        yield
    except UsageError as error:
        raise ApiError(400, str(error), field=str(error).partition(" ")[0].rstrip(":")) from error


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
