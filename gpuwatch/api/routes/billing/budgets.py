"""Budgets of teams: what is spent, what will be, and setting them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Access, Admin, Reader
from gpuwatch.api.bodies import expect, json_body, request_body
from gpuwatch.api.card_bodies import KINDS, SOURCE, from_csv, from_json, refused, replaced
from gpuwatch.api.common import PREFIX, Names, Svc, answer, errors, minute_of, seen, split
from gpuwatch.api.etags import Expected
from gpuwatch.api.schema.billing.budgets import Budgets, BudgetsBody, BudgetsSet
from gpuwatch.api.schema.common import Replaced
from gpuwatch.billing import budgets as card
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.known_names import team_doubts, team_names

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["prices and owners"])


@router.get("/budgets", response_model=Budgets, responses=errors(), summary="Budgets: spent, left, and the forecast")
def budgets(request: Request, access: Reader, service: Svc, team: Names = None) -> Response:
    """Each budget in its current period. `forecast` is null with less than a week of history."""
    now_us, teams = minute_of(service.now_us()), seen(access.teams, split(team))

    def look(store: Store) -> dict[str, Any]:
        found = card.statuses(store, service.state, now_us, teams, among=access.teams)
        return {"items": [one.as_dict() for one in found], "version": _version(service, access)}

    return kept(request, access, service, look, now_us)


@router.get("/budgets/set", response_model=BudgetsSet, responses=errors(), summary="Budgets as they were set")
def budgets_set(access: Reader, service: Svc) -> Response:
    """The budgets in the format of PUT. Team-scoped tokens see the budgets of their teams."""
    version = _version(service, access)  # first: who replaces this version must have seen at least its rows
    items = [
        card.shown(one) for one in card.load_budgets(service.state) if access.teams is None or one.team in access.teams
    ]
    return answer({"items": items, "version": version}, version=version)


@router.put(
    "/budgets",
    response_model=Replaced,
    responses=errors(412, 415),
    openapi_extra=request_body(BudgetsBody, "text/csv"),
    summary="Replaces the budgets",
)
async def put_budgets(request: Request, access: Admin, service: Svc, expected: Expected) -> Response:
    """JSON `items`, or CSV with the columns team,period,amount,currency and optionally
    gpu_hours,valid_from,valid_to,alert_at. All or nothing. `warnings` names unknown teams.
    """
    if expect(request, KINDS) == "text/csv":
        wanted = await from_csv(request, card.parse_budgets)
    else:
        body = cast(BudgetsBody, await json_body(request, BudgetsBody))
        wanted = from_json([row.model_dump() for row in body.items], card.budget_of)
    return await to_thread.run_sync(_replace, service, wanted, access.name, expected)


def _version(service: Any, access: Access) -> int | None:
    """The version of the whole list; budgets of other teams count in it, so a bound token does not see it."""
    return service.state.card_version(card.CARD) if access.teams is None else None


def _replace(service: Any, kept: list[card.Budget], actor: str, expected: frozenset[str] | None) -> Response:
    try:
        changed = card.replace(service.state, kept, actor, SOURCE, service.now_us(), expected)
    except UsageError as error:
        raise refused(error) from error
    with service.reader() as store:
        warnings = team_doubts((one.team for one in kept), team_names(store, service.state))
    return replaced(changed, service.state.card_version(card.CARD), len(kept), warnings)
