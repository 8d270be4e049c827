"""The findings inbox: counts and causes, and one action on many findings."""

from __future__ import annotations

import re
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Access, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import PREFIX, Name, Names, Svc, answer, errors, minute_of, seen, split
from gpuwatch.api.errors import ApiError
from gpuwatch.api.routes.findings.findings import KEY, Word, action_of, action_row
from gpuwatch.api.schema.findings.inbox import BulkActions, BulkBody, Inbox
from gpuwatch.findings.repository import Action, Actions

router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.get("/inbox", response_model=Inbox, responses=errors(), summary="Findings by state and cause")
def inbox(
    request: Request,
    access: Reader,
    service: Svc,
    state: Annotated[Word, Query(description="States of the causes and the total; the counts are of all.")] = None,
    detector: Word = None,
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    severity: Annotated[Word, Query(description="info, low, medium, high, critical.")] = None,
    q: Annotated[str | None, Query(max_length=200, description="As for GET /api/v1/findings.")] = None,
) -> Response:
    """A cause is the findings of one rule, cluster and team; the cause that is worth most is first: by cost a day and
    certainty together, as in `actions` of GET /api/v1/overview. Without `state`: open findings.
    """
    from gpuwatch.findings.inbox import summary
    from gpuwatch.findings.selection import Filters

    now_us, actions = minute_of(service.now_us()), Actions(service.state).current(service.now_us())
    filters = Filters(
        detectors=split(detector),
        severities=split(severity),
        teams=seen(access.teams, split(team)),
        cluster=cluster,
        pool=pool,
        q=q,
        actions=actions,
    )
    return kept(
        request,
        access,
        service,
        lambda store: summary(store, filters, split(state) or ["open"], now_us),
        now_us,
        *actions.values(),
    )


@router.post(
    "/inbox/actions",
    response_model=BulkActions,
    responses=errors(404, 415),
    openapi_extra=request_body(BulkBody),
    summary="Acts on many findings",
)
async def act(request: Request, access: Reader, service: Svc) -> Response:
    """The same action on up to 500 findings: on all of them, or on none. Each is audited. See POST
    /api/v1/findings/{key}/{action}.
    """
    body = await json_body(request, BulkBody)
    taken = [action_of(service, access, key, body.action, body) for key in dict.fromkeys(body.keys)]
    return await to_thread.run_sync(_act, service, access, taken)


def _act(service: Any, access: Access, taken: list[Action]) -> Response:
    from gpuwatch.findings.selection import Filters, ranked

    wanted = [one.key for one in taken]
    with service.reader() as store:
        rows, _ = ranked(store, Filters(keys=wanted, teams=access.teams), sort="started")
    known = {row["key"] for row in rows}
    missing = [key for key in wanted if key not in known]
    if missing:
        # Anything may stand in a body: only what could be a key is repeated.
        named = missing[0] if re.fullmatch(KEY, missing[0]) else "the first unknown one"
        raise ApiError(404, f"finding {named}: there is none with this key", "GET /api/v1/findings lists them", "keys")
    Actions(service.state).act_all(taken)
    return answer({"items": [{"key": one.key, **action_row(one)} for one in taken]})
