"""Hardware that is owned: read with the formula of its price, and replaced whole."""

from __future__ import annotations

from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, Reader
from gpuwatch.api.bodies import expect, json_body, request_body
from gpuwatch.api.card_bodies import KINDS, SOURCE, from_csv, from_json, listed, refused, replaced
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Svc, errors, window_of
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.schema.billing.owned import OwnedBody, OwnedCard
from gpuwatch.api.schema.common import Replaced
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
    if expect(request, KINDS) == "text/csv":
        kept = await from_csv(request, owned.parse_owned)
    else:
        body = cast(OwnedBody, await json_body(request, OwnedBody))
        kept = from_json([row.model_dump() for row in body.items], owned.owned_of)
    return await to_thread.run_sync(_replace, service, kept, window, access.name, expected)


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
