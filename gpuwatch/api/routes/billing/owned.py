"""Hardware that is owned: read with the formula of its price, and replaced whole."""

from __future__ import annotations

from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader, Reader
from gpuwatch.api.bodies import expect, json_body, request_body
from gpuwatch.api.card_bodies import KINDS, SOURCE, from_csv, from_json, listed, refused, replaced
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Svc, WindowText, errors, window_of
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.proposed_cards import compared
from gpuwatch.api.schema.billing.owned import OwnedBody, OwnedCard
from gpuwatch.api.schema.billing.policies import WhatIf
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing.proposed import Proposed
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.quality.rate_checks import rate_warnings
from gpuwatch.rates import in_force, owned
from gpuwatch.rates.owned import Owned
from gpuwatch.rates.owned_power import measured

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])
Measure = Annotated[str | None, Query(max_length=WINDOW_MAX, description="The window for `kw` values of `measured`.")]


@router.get("/owned", response_model=OwnedCard, responses=errors(), summary="Owned hardware and its price per hour")
def hardware(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """`formula` has every number of the price."""
    version = service.state.card_version(
        owned.CARD
    )  # first: who replaces this version must have seen at least its rows
    return listed([owned.priced(one) for one in in_force.owned_hardware(service.state)], version, limit, cursor)


@router.put(
    "/owned",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(OwnedBody, "text/csv"),
    summary="Replaces the owned hardware",
)
async def put_owned(
    request: Request, access: Admin, service: Svc, expected: Expected, measure: Measure = None
) -> Response:
    """JSON `items`, or CSV with the same columns. All or nothing. A `kw` of `measured` needs the parameter `measure`:
    the power is computed from the energy counters of that window and stored as a number. Charges are priced again.
    """
    window = None if measure is None else window_of(measure, service.now_us())
    kept = await _owned_of(request)
    return await to_thread.run_sync(_replace, service, kept, window, access.name, expected)


@router.post(
    "/owned/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(OwnedBody, "text/csv"),
    summary="What teams would pay for other owned hardware",
)
async def ask_owned(
    request: Request, access: FleetReader, service: Svc, window: WindowText = "lastmonth", measure: Measure = None
) -> Response:
    """The body is a list as for PUT; nothing is changed. Returns each team's cost now and then, as for rates."""
    kept, now_us = await _owned_of(request), service.now_us()
    power = None if measure is None else window_of(measure, now_us)
    return await to_thread.run_sync(_ask, service, kept, power, window_of(window, now_us))


async def _owned_of(request: Request) -> list[Owned]:
    if expect(request, KINDS) == "text/csv":
        return await from_csv(request, owned.parse_owned)
    body = cast(OwnedBody, await json_body(request, OwnedBody))
    return from_json([row.model_dump() for row in body.items], owned.owned_of)


def _ask(service: Any, kept: list[Owned], power: Window | None, span: Window) -> Response:
    try:
        with service.reader() as store:
            cards = in_force.checked_owned(service.state, kept if power is None else measured(store, kept, power))
    except UsageError as error:
        raise refused(error) from error
    return compared(service, Proposed(cards), span)


def _replace(
    service: Any, kept: list[Owned], window: Window | None, actor: str, expected: frozenset[str] | None
) -> Response:
    try:
        with service.reader() as store:
            known = kept if window is None else measured(store, kept, window)
            changed = in_force.set_owned(service.state, known, actor, SOURCE, service.now_us(), expected)
            warnings = rate_warnings(store, [one.rate() for one in known])
    except UsageError as error:
        raise refused(error) from error
    if changed:
        service.reprice()
    return replaced(changed, service.state.card_version(owned.CARD), len(known), warnings)
