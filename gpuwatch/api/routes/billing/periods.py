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
from gpuwatch.billing.periods.view import Teams, lines, rows, told
from gpuwatch.core.errors import UsageError
from gpuwatch.state import State

PAGE = 10
PAGE_MAX = 53
NAME_MAX = 16

Name = Annotated[str, Path(max_length=NAME_MAX, description="2026-W47 or 2026-11.")]

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/periods", response_model=Periods, responses=errors(), summary="Periods that were closed")
def listed(access: Reader, service: Svc, limit: Limit = PAGE, cursor: CursorText = None) -> Response:
    """The newest first. `rows` and `corrections` by team, cluster, model and profile: as frozen, and as posted since. A
    token bound to teams sees the rows of its teams, and their sums.
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
    """Freezes the charges of a finished period. 409: it is not over, not booked (yet), its books do not close, or it
    touches a closed one; and, unless `force`, where days have no books or time has no price.
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
    """`items` are its frozen rows by every word, exact, or the lines of its corrections in the order of posting."""
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
    """`curl … | sha256sum` computes the digest anew."""
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
    summary="Opens a closed period again",
)
async def reopen(request: Request, access: Admin, service: Svc, name: Name) -> Response:
    """The live books answer for it again, and what was posted as its corrections is taken back. The closing stays listed
    with its digest and the reason.
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
    """Notes who stands up for the closing in force, and its digest; as often as people do."""
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
            periods_close.close(store, service.state, name, actor, service.now_us(), force=force, price=service.reprice)
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
    return told(state, name, teams)
