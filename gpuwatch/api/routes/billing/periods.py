"""Billing periods: closed, signed, opened again, and what was corrected since."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import PlainTextResponse, Response

from gpuwatch.api.auth import Admin, FleetReader, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.billing.periods import Period, PeriodBody, PeriodRows, Periods, ReopenBody, SignBody
from gpuwatch.billing.periods import close as periods_close
from gpuwatch.billing.periods.repository import Closing, PeriodConflict, finished
from gpuwatch.billing.periods.repository import Periods as Stored
from gpuwatch.billing.periods.view import Teams, lines, period_dict, rows
from gpuwatch.core.errors import UsageError
from gpuwatch.service import closing
from gpuwatch.state import State

PAGE = 10
PAGE_MAX = 53
NAME_MAX = 16

Name = Annotated[str, Path(max_length=NAME_MAX, description="2026-W47 or 2026-11.")]

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/periods", response_model=Periods, responses=errors(), summary="Closed periods")
def listed(access: Reader, service: Svc, limit: Limit = PAGE, cursor: CursorText = None) -> Response:
    """Newest first. `rows` as frozen and `corrections` as posted since, by team, cluster, model and profile.
    Team-scoped tokens see the rows of their teams, and their sums.
    """
    asked = question({"route": "periods"})
    names = Stored(service.state).names()
    chosen, following = page(names, min(limit, PAGE_MAX), decode(cursor, asked), asked, lambda name: name)
    items = [_shown(service.state, name, access.teams) for name in chosen]
    return answer({"items": items, "next": following})


@router.post(
    "/periods",
    status_code=201,
    response_model=Period,
    responses=errors(409, 415),
    openapi_extra=request_body(PeriodBody),
    summary="Closes a week or a month",
)
async def close(request: Request, access: Admin, service: Svc) -> Response:
    """Freezes the charges of a finished period. 409: it is not over, its ledger is missing or does not balance, or it
    overlaps a closed period; without `force` also if days have no data or time has no price.
    """
    body = await json_body(request, PeriodBody)
    return await to_thread.run_sync(_close, service, body.period, body.force, access.name)


@router.get(
    "/periods/{name}", response_model=PeriodRows, responses=errors(404), summary="One period and its frozen rows"
)
def one(
    access: Reader,
    service: Svc,
    name: Name,
    of: Annotated[Literal["rows", "corrections"], Query(description="What `items` lists.")] = "rows",
    limit: Limit = 1000,
    cursor: CursorText = None,
) -> Response:
    """`items` are its frozen rows by all dimensions, exact, or the lines of its corrections in the order of posting."""
    shown = _shown(service.state, name, access.teams)
    asked = question({"period": name, "number": shown["number"], "of": of, "teams": access.teams})
    items = (rows if of == "rows" else lines)(service.state, name, access.teams)
    places = list(enumerate(items))
    chosen, following = page(places, limit, decode(cursor, asked), asked, lambda item: str(item[0]))
    return answer({"period": shown, "items": [item for _, item in chosen], "next": following})


@router.get(
    "/periods/{name}/content",
    response_class=Response,
    responses={**errors(404), 200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="The text whose SHA-256 is the digest",
)
def content(
    access: FleetReader,
    service: Svc,
    name: Name,
    number: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="Which closing; default: the newest.")] = None,
) -> Response:
    """`curl … | sha256sum` recomputes the digest."""
    found = _history(service.state, name)
    chosen = next((one for one in found if number in (None, one.number)), None)
    if chosen is None:
        raise ApiError(404, f"period {name}: has no closing {number}", field="number")
    return PlainTextResponse(Stored(service.state).content(name, chosen.number))


@router.post(
    "/periods/{name}/reopen",
    response_model=Period,
    responses=errors(404, 409, 415),
    openapi_extra=request_body(ReopenBody),
    summary="Reopens a closed period",
)
async def reopen(request: Request, access: Admin, service: Svc, name: Name) -> Response:
    """Charges come from current data again, and its posted corrections are reversed. The closing stays listed with its
    digest and the reason.
    """
    body = await json_body(request, ReopenBody)

    def work() -> dict[str, Any]:
        _history(service.state, name)
        Stored(service.state).reopen(name, access.name, body.reason, service.now_us())
        return _shown(service.state, name, None)

    return answer(await to_thread.run_sync(work))


@router.post(
    "/periods/{name}/sign",
    response_model=Period,
    responses=errors(404, 409, 415),
    openapi_extra=request_body(SignBody),
    summary="Signs a closed period",
)
async def sign(request: Request, access: Admin, service: Svc, name: Name) -> Response:
    """Records a signature for the current closing and its digest. Several people may sign."""
    body = await json_body(request, SignBody)

    def work() -> dict[str, Any]:
        _history(service.state, name)
        signer = access.name if body.name is None else body.name
        Stored(service.state).sign(name, signer, body.note, access.name, service.now_us())
        return _shown(service.state, name, None)

    return answer(await to_thread.run_sync(work))


def _close(service: Any, name: str, force: bool, actor: str) -> Response:
    try:
        finished(name, service.now_us())
    except PeriodConflict:
        pass
    except UsageError as error:
        raise ApiError(400, str(error), field="period") from error
    try:
        with service.reader() as store:
            price, state = closing.needs(service, store)
            periods_close.close(store, state, name, actor, service.now_us(), force=force, price=price)
    except PeriodConflict as error:
        raise ApiError(409, error.message, error.hint) from error
    return answer(_shown(service.state, name, None), 201)


def _history(state: State, name: str) -> list[Closing]:
    found = Stored(state).history(name)
    if not found:
        raise ApiError(404, f"period {name} was never closed", "GET /api/v1/periods lists those that were")
    return found


def _shown(state: State, name: str, teams: Teams) -> dict[str, Any]:
    _history(state, name)
    return period_dict(state, name, teams)
