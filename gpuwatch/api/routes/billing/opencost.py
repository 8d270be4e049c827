"""OpenCost's allocation API, so that what reads OpenCost reads gpuwatch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from gpuwatch.api.auth import Reader
from gpuwatch.api.common import Svc, answer, errors
from gpuwatch.api.errors import TeamScope
from gpuwatch.api.schema.common import Error
from gpuwatch.billing.opencost.allocation import Allocations, allocations
from gpuwatch.billing.opencost.query import IGNORED, READ, parse_query, weighs_others
from gpuwatch.billing.opencost.response import allocation_answer, listing, refusal, summary_answer, topline_answer
from gpuwatch.core.errors import UsageError
from gpuwatch.output.render import render

VALUE_MAX = 8000
"""Characters of a parameter."""


class ErrorOpenCost(BaseModel):
    """An error in OpenCost's shape."""

    code: int
    message: str


class AllocationAnswer(BaseModel):
    """A map by name for each set of the window."""

    code: int
    status: str
    data: list[dict[str, Any]]
    warning: str | None = None


class SummaryAnswer(BaseModel):
    """Sets and their windows, or the one row that adds them up."""

    code: int
    status: str
    data: dict[str, Any]
    warning: str | None = None


router = APIRouter(tags=["opencost"])
PREFIXES = ("", "/model")
FAULTS: dict[int | str, dict[str, Any]] = {
    status: response | {"model": Error | ErrorOpenCost} for status, response in errors().items()
}
CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}


def _parameters() -> Callable[..., dict[str, str]]:
    """A dependency whose parameters are those of OpenCost: it gives those that were sent."""

    def sent(request: Request, **_: Any) -> dict[str, str]:
        return dict(request.query_params)

    request = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    named = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, Query(max_length=VALUE_MAX, description=text)],
        )
        for name, text in {**READ, **dict.fromkeys(IGNORED, "accepted, without effect")}.items()
    ]
    sent.__signature__ = inspect.Signature([request, *named])  # type: ignore[attr-defined]
    return sent


Sent = Annotated[dict[str, str], Depends(_parameters())]


def _answered(service: Any, teams: tuple[str, ...] | None, given: dict[str, str]) -> Allocations | Response:
    """The allocations of a question, or what is wrong with it in OpenCost's words."""
    try:
        query = parse_query(given, service.now_us())
        if teams is not None and (name := weighs_others(query)) is not None:
            raise TeamScope(f"{name}: divides costs among all teams, and the token is bound to teams", name)
        with service.reader() as store:
            return allocations(store, query, teams, service.now_us())
    except UsageError as error:
        return answer(refusal(str(error)), 400)


def _json_response(found: Allocations | Response, words: Callable[[Allocations], dict[str, Any]]) -> Response:
    if isinstance(found, Response):
        return found
    if found.query.format == "csv":
        content, media_type = render(listing(found), "csv")
        return Response(content, media_type=media_type)
    return answer(words(found))


def allocation(access: Reader, service: Svc, given: Sent) -> Response:
    """GPU allocations in OpenCost's format: one map by name for each step. CPU, memory and disks are zero; `x_gpuwatch`
    has fields that OpenCost does not define. Team-scoped tokens see the rows of their teams, without idle; parameters
    that share costs among all are 403 `team_scope`.
    """
    return _json_response(_answered(service, access.teams, given), allocation_answer)


def summary(access: Reader, service: Svc, given: Sent) -> Response:
    """The same rows with fewer fields."""
    return _json_response(_answered(service, access.teams, given), summary_answer)


def topline(access: Reader, service: Svc, given: Sent) -> Response:
    """One row that adds all of them up."""
    return _json_response(_answered(service, access.teams, given), topline_answer)


ROUTES: tuple[tuple[str, Callable[..., Response], type[BaseModel], str], ...] = (
    ("/allocation", allocation, AllocationAnswer, "OpenCost: allocations"),
    ("/allocation/compute", allocation, AllocationAnswer, "OpenCost: allocations"),
    ("/allocation/summary", summary, SummaryAnswer, "OpenCost: allocations, fewer fields"),
    ("/allocation/compute/summary", summary, SummaryAnswer, "OpenCost: allocations, fewer fields"),
    ("/allocation/summary/topline", topline, SummaryAnswer, "OpenCost: the sum of allocations"),
)
for prefix in PREFIXES:
    for path, function, model, title in ROUTES:
        router.add_api_route(
            f"{prefix}{path}",
            function,
            methods=["GET"],
            response_model=model,
            responses={**FAULTS, **CSV},
            summary=title,
        )
