"""Exchange rates and the reporting currency: read, and replaced whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Admin, FleetReader, Reader
from gpuwatch.api.bodies import expect, json_body, request_body
from gpuwatch.api.card_bodies import KINDS, SOURCE, from_csv, from_json, listed, refused, replaced
from gpuwatch.api.common import PREFIX, Svc, WindowText, errors, window_of
from gpuwatch.api.etags import Expected
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.proposed_cards import compared
from gpuwatch.api.schema.billing.fx import ExchangeRates, FxBody
from gpuwatch.api.schema.billing.policies import WhatIf
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing.proposed import Proposed
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.quality.rate_checks import fx_warnings
from gpuwatch.rates import fx
from gpuwatch.rates.fx import Fx

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])
Currency = Annotated[str | None, Query(pattern="^([A-Z]{3})?$", description="With a CSV body: the reporting currency.")]
Days = Annotated[
    int | None, Query(ge=1, le=fx.MAX_AGE_DAYS_MAX, description="With a CSV body: the maximum age of a rate.")
]


@router.get("/fx", response_model=ExchangeRates, responses=errors(), summary="The exchange rates in force")
def exchange_rates(access: Reader, service: Svc, limit: Limit = 1000, cursor: CursorText = None) -> Response:
    """One unit of `from` is `rate` units of `to` from `valid_from` on. `currency` null: prices stay in their own
    currency.
    """
    version = service.state.card_version(fx.CARD)  # first: who replaces this version must have seen at least its rows
    found = Fx.read(service.state)
    more = {"currency": found.currency, "max_age_days": found.max_age_days}
    return listed(fx.shown(found.rates), version, limit, cursor, **more)


@router.put(
    "/fx",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(FxBody, "text/csv"),
    summary="Replaces the exchange rates",
)
async def put_fx(
    request: Request,
    access: Admin,
    service: Svc,
    expected: Expected,
    currency: Currency = None,
    max_age_days: Days = None,
) -> Response:
    """JSON, or CSV with the columns from,to,rate,valid_from; with CSV, parameters set the other fields (`currency`
    empty: prices stay in their own currency), or they keep their value. All or nothing. Charges are priced again.
    """
    found = await _fx_of(request, service, currency, max_age_days)
    return await to_thread.run_sync(_replace, service, found, access.name, expected)


@router.post(
    "/fx/what-if",
    response_model=WhatIf,
    responses=errors(415),
    openapi_extra=request_body(FxBody, "text/csv"),
    summary="What teams would pay with other exchange rates",
)
async def ask_fx(
    request: Request,
    access: FleetReader,
    service: Svc,
    window: WindowText = "lastmonth",
    currency: Currency = None,
    max_age_days: Days = None,
) -> Response:
    """The body is a list as for PUT; nothing is changed. Returns each team's cost now and then, as for rates. With another reporting
    currency a team has a row of each.
    """
    found, span = await _fx_of(request, service, currency, max_age_days), window_of(window, service.now_us())
    return await to_thread.run_sync(_ask, service, found, span)


async def _fx_of(request: Request, service: Svc, currency: str | None, max_age_days: int | None) -> Fx:
    """The exchange rates of a body; with CSV, the other fields are those of the parameters, or stay."""
    if expect(request, KINDS) != "text/csv":
        body = cast(FxBody, await json_body(request, FxBody))
        rows = [row.model_dump(by_alias=True) for row in body.items]
        return Fx(tuple(from_json(rows, fx.exchange_of)), body.currency, body.max_age_days)
    rates = tuple(await from_csv(request, fx.parse_fx))
    found = replace(await to_thread.run_sync(Fx.read, service.state), rates=rates)
    if currency is not None:
        found = replace(found, currency=currency or None)
    return found if max_age_days is None else replace(found, max_age_days=max_age_days)


def _ask(service: Any, found: Fx, span: Window) -> Response:
    try:
        fx.check_fx(found.rates)
    except UsageError as error:
        raise refused(error) from error
    return compared(service, Proposed(fx=found), span)


def _replace(service: Any, found: Fx, actor: str, expected: frozenset[str] | None) -> Response:
    try:
        changed = fx.replace(service.state, found, actor, SOURCE, service.now_us(), expected)
    except UsageError as error:
        raise refused(error) from error
    if changed:
        service.reprice()
    warnings = fx_warnings(service.state, found, service.now_us())
    return replaced(changed, service.state.card_version(fx.CARD), len(found.rates), warnings)
