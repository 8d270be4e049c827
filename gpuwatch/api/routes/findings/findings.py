"""Findings with their evidence, and what their owners say of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from gpuwatch.api.auth import Access, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import (
    PREFIX,
    WINDOW_HELP,
    WINDOW_MAX,
    Name,
    Names,
    Svc,
    answer,
    errors,
    seen,
    split,
    window_of,
)
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.schema.findings.findings import ActionBody, ActionRow, FindingDetail, Findings
from gpuwatch.core.clock import parse_rfc3339, rfc3339
from gpuwatch.findings.repository import Action, Actions

KEY = r"^[a-z0-9-]{1,200}$"
Key = Annotated[
    str, Path(pattern=KEY, description="The finding's stable key.", examples=["idle-hoarding-0123456789abcdef"])
]
Word = Annotated[list[str] | None, Query(max_length=50)]

router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.get("/findings", response_model=Findings, responses=errors(), summary="Findings")
def findings(
    access: Reader,
    service: Svc,
    state: Annotated[Word, Query(description="open, resolved, acked, snoozed, exempt; comma-separated.")] = None,
    detector: Word = None,
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    severity: Annotated[Word, Query(description="info, low, medium, high, critical.")] = None,
    window: Annotated[str | None, Query(max_length=WINDOW_MAX, description=WINDOW_HELP)] = None,
    q: Annotated[
        str | None, Query(max_length=200, description="Words in title, summary, subject, user or node.")
    ] = None,
    job: Name = None,
    sort: Annotated[
        Literal["cost", "started", "severity"], Query(description="Most expensive, newest or most severe first.")
    ] = "cost",
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """The findings that the caller may see. Without `window`: from any time."""
    from gpuwatch.findings.read import page

    span = None if window is None else window_of(window, service.now_us())
    with service.reader() as store:
        found = page(
            store,
            states=split(state),
            detectors=split(detector),
            severities=split(severity),
            teams=seen(access.teams, split(team)),
            cluster=cluster,
            pool=pool,
            job=job,
            window=span,
            q=q,
            sort=sort,
            limit=limit,
            cursor=cursor or None,
            actions=Actions(service.state).current(service.now_us()),
        )
    return answer({"items": [finding.as_dict() for finding in found.items], "next": found.next})


@router.get("/findings/{key}", response_model=FindingDetail, responses=errors(404), summary="One finding")
def finding(access: Reader, service: Svc, key: Key) -> Response:
    """The finding with its time series and its owners' actions; for idle GPUs also the requests of other teams that
    waited meanwhile, except for team-scoped tokens.
    """
    from gpuwatch.findings import contention
    from gpuwatch.jobs.series import of_finding

    with service.reader() as store:
        found = _one(service, store, access, key)
        series = of_finding(store, key, access.teams)
        waited = contention.of(store, service.state, [key], service.now_us()) if access.teams is None else {}
    if key in waited:
        found["evidence"] = found["evidence"] | {"contention": waited[key].as_dict()}
    actions = [_row(action) for action in Actions(service.state).history(key)]
    return answer({**found, "series": series, "actions": actions})


@router.post(
    "/findings/{key}/{action}",
    response_model=ActionRow,
    responses=errors(404, 415),
    openapi_extra=request_body(ActionBody),
    summary="Acknowledges, snoozes, exempts or reopens a finding",
)
async def act(
    request: Request,
    access: Reader,
    service: Svc,
    key: Key,
    action: Literal["ack", "snooze", "exempt", "reopen"],
) -> Response:
    """Audited. `snooze` needs `until`. Readers may ack, snooze and reopen the findings that they can see; exempt is for
    admins. `verdict`, with ack, records whether the finding was true, and counts towards the precision of its rule (GET
    /api/v1/detectors).
    """
    if action == "exempt" and access.scope != "admin":
        raise ApiError(403, f"scope {access.scope} may not exempt a finding")
    body = await json_body(request, ActionBody)
    until_us = None
    if body.until is not None:
        try:
            until_us = parse_rfc3339(body.until)
        except (ValueError, OverflowError):
            raise ApiError(400, "until: not an RFC 3339 time such as 2026-11-28T00:00:00Z", field="until") from None
    taken = Action(key, action, until_us, body.reason.strip(), access.name, service.now_us(), body.verdict)
    return await to_thread.run_sync(_act, service, access, taken)


def _act(service: Any, access: Access, action: Action) -> Response:
    with service.reader() as store:
        _one(service, store, access, action.key)
    return answer(_row(Actions(service.state).act(action)))


def _one(service: Any, store: Any, access: Access, key: str) -> dict[str, Any]:
    """The finding, or 404; also 404 for another team's finding, so that its key reveals nothing."""
    from gpuwatch.findings.read import read_one

    found = read_one(store, key, teams=access.teams, actions=Actions(service.state).current(service.now_us()))
    if found is None:
        raise ApiError(404, f"finding {key}: there is none with this key", "GET /api/v1/findings lists them", "key")
    return found.as_dict()


def _row(action: Action) -> dict[str, Any]:
    return {
        "action": action.action,
        "until": None if action.until_us is None else rfc3339(action.until_us),
        "reason": action.reason,
        "actor": action.actor,
        "at": rfc3339(action.at_us),
        "verdict": action.verdict,
    }
