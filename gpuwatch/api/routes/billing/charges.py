"""Charges, opened: what a row of the chargeback is made of, and what it would be under another policy."""

from __future__ import annotations

from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Reader
from gpuwatch.api.bodies import POLICY_KINDS, expect, plain, request_body
from gpuwatch.api.common import NAME_MAX, PREFIX, Svc, answer, errors
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.proposed_policies import proposed, within
from gpuwatch.api.schema.billing.charges import Explained, Under
from gpuwatch.api.schema.billing.policies import PoliciesBody
from gpuwatch.billing import charge_id
from gpuwatch.billing.explain import charge as explain_charge
from gpuwatch.billing.explain import counterfactual
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.policy import Policies

OFFSET_MAX = 10**9

ChargeId = Annotated[
    str, Path(max_length=charge_id.MAX_LENGTH, description="`charge` of a row of the chargeback.", examples=["c1.alsx"])
]
router = APIRouter(prefix=PREFIX, tags=["books"])


@router.get(
    "/charges/{charge}/explain",
    response_model=Explained,
    responses=errors(404),
    summary="What a charge is made of",
)
def explained(
    access: Reader,
    service: Svc,
    charge: ChargeId,
    policy: Annotated[
        str | None,
        Query(
            max_length=NAME_MAX,
            description="A preset or the name of a policy: `under` is the charge as if that policy always applied.",
        ),
    ] = None,
    limit: Limit = explain_charge.LINES,
    cursor: CursorText = None,
    offset: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="Lines to skip; not with `cursor`.")] = 0,
) -> Response:
    """`items` are the lines that make up the charge: their `gpu_seconds` and `cost_exact` add up to `gpu_seconds_exact`
    and `cost_exact`. Team-scoped tokens see the charges of their teams; 404 if the row does not exist now, or is not
    visible. 403 `team_scope`: the token is bound to teams, and `policy` weighs the usage of others.
    """
    asked = _asked(charge)
    page = question({"charge": charge})
    if (place := decode(cursor, page)) is not None:
        if offset:
            raise ApiError(400, "offset: not allowed together with cursor", "give one of the two", "offset")
        offset = min(place.position, OFFSET_MAX)
    rules = None if policy is None else within(access.teams, _named(service, policy), "policy")
    with service.reader() as store:
        try:
            found = explain_charge.explain(store, service.state, asked, access.teams, limit=limit, offset=offset)
            then = None
            if rules is not None:
                then = counterfactual.under(store, service.state, asked, rules, access.teams)
        except explain_charge.NoSuchCharge as error:
            raise _missing(error) from error
    following = found.pop("next_offset")
    found["next"] = None if following is None else encode(Cursor("", following, None), page)
    return answer(found | {"under": then})


@router.post(
    "/charges/{charge}/what-if",
    response_model=Under | None,
    responses=errors(404, 415),
    openapi_extra=request_body(PoliciesBody, "application/toml"),
    summary="What a charge would be under other policies",
)
async def what_if(request: Request, access: Reader, service: Svc, charge: ChargeId) -> Response:
    """The body is a policy document as for PUT; nothing is changed. The response is `under` of explain. 403
    `team_scope`: the token is bound to teams, and the document weighs the usage of others.
    """
    asked = _asked(charge)
    expect(request, POLICY_KINDS)
    content = await plain(request)
    return await to_thread.run_sync(_compared, service, content, asked, access.teams)


def _asked(charge: str) -> charge_id.Asked:
    try:
        return charge_id.decode(charge)
    except UsageError as error:
        raise ApiError(400, str(error), field="charge") from error


def _named(service: Any, policy: str) -> Policies:
    try:
        return counterfactual.policies_of(service.state, policy)
    except UsageError as error:
        raise ApiError(400, str(error), field="policy") from error


def _compared(service: Any, content: bytes, asked: charge_id.Asked, teams: tuple[str, ...] | None) -> Response:
    with service.reader() as store:
        rules = proposed(store, service, content, teams)
        try:
            return answer(counterfactual.under(store, service.state, asked, rules, teams))
        except explain_charge.NoSuchCharge as error:
            raise _missing(error) from error


def _missing(error: explain_charge.NoSuchCharge) -> ApiError:
    return ApiError(404, str(error), "gpuwatch chargeback lists the charges and their ids", "charge")
