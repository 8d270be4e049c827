"""Findings with their evidence, and what their owners say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Access, Reader
from gpuwatch.api.bodies import json_body, request_body
from gpuwatch.api.common import (
    PREFIX,
    WINDOW_MAX,
    Name,
    Names,
    Svc,
    answer,
    errors,
    minute_of,
    seen,
    split,
    window_of,
)
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import CursorText, Limit
from gpuwatch.api.schema.findings.findings import ActionBody, ActionRow, FindingDetail, Findings
from gpuwatch.core.clock import WINDOW_HELP, parse_rfc3339, rfc3339
from gpuwatch.findings.repository import Action, Actions, Mark
from gpuwatch.output.listing import Listing
from gpuwatch.output.render import render

if TYPE_CHECKING:
    from gpuwatch.findings.read import Finding
    from gpuwatch.store.database import Store

KEY = r"^[a-z0-9-]{1,200}$"
Key = Annotated[
    str, Path(pattern=KEY, description="The finding's stable key.", examples=["idle-hoarding-0123456789abcdef"])
]
NOTED = ("assignee", "verdict", "cost_a_day", "currency_a_day", "gpu_hours_a_day", "day_rate", "saves")
"""Fields of a listed finding in addition to those of every finding."""
EXPORT_MAX = 100_000
"""Findings in one file."""
Word = Annotated[list[str] | None, Query(max_length=50)]

router = APIRouter(prefix=PREFIX, tags=["findings"])


@router.get(
    "/findings",
    response_model=Findings,
    responses={**errors(), 200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
    summary="Findings",
)
def findings(
    request: Request,
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
        Literal["cost", "started", "severity", "priority"],
        Query(description="Most expensive, newest or most severe first; priority: severity, cost a day and certainty."),
    ] = "cost",
    format: Annotated[Literal["json", "csv"], Query(description="csv: everything as one file, not paged.")] = "json",
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """The findings that the caller may see. Without `window`: from any time. `assignee` and `verdict` are what owners
    noted.
    """
    from gpuwatch.findings.read import FIELDS, page

    owners, now_us = Actions(service.state), minute_of(service.now_us())
    span = None if window is None else window_of(window, now_us)
    actions = owners.current(service.now_us())

    def look(store: Store) -> dict[str, Any]:
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
            limit=limit if format == "json" else EXPORT_MAX,
            cursor=cursor or None,
            actions=actions,
            now_us=now_us,
        )
        marks = owners.marks()
        return {"items": [_marked(finding, marks, now_us) for finding in found.items], "next": found.next}

    if format == "json":
        return kept(request, access, service, look, span, now_us, *actions.values())
    with service.reader() as store:
        items = look(store)["items"]
    content, media_type = render(Listing([*FIELDS, *NOTED], items), "csv")
    return Response(
        content, media_type=media_type, headers={"Content-Disposition": 'attachment; filename="findings.csv"'}
    )


@router.get("/findings/{key}", response_model=FindingDetail, responses=errors(404), summary="One finding")
def finding(access: Reader, service: Svc, key: Key) -> Response:
    """The finding with its time series, its owners' actions and earlier ones like it; for idle GPUs also the requests of other teams that
    waited meanwhile, except for team-scoped tokens.
    """
    from gpuwatch.findings import contention
    from gpuwatch.findings.earlier import earlier
    from gpuwatch.jobs.series import of_finding

    with service.reader() as store:
        one = _one(service, store, access, key)
        series = of_finding(store, key, access.teams)
        before = earlier(store, one, access.teams)
        waited = contention.of(store, service.state, [key], service.now_us()) if access.teams is None else {}
    owners = Actions(service.state)
    found = _marked(one, owners.marks(), service.now_us())
    if key in waited:
        found["evidence"] = found["evidence"] | {"contention": waited[key].as_dict()}
    actions = [action_row(action) for action in owners.history(key)]
    return answer({**found, "earlier": before, "series": series, "actions": actions})


@router.post(
    "/findings/{key}/{action}",
    response_model=ActionRow,
    responses=errors(404, 415),
    openapi_extra=request_body(ActionBody),
    summary="Acknowledges, snoozes, exempts, reopens, assigns or judges a finding",
)
async def act(
    request: Request,
    access: Reader,
    service: Svc,
    key: Key,
    action: Literal["ack", "snooze", "exempt", "reopen", "assign", "judge"],
) -> Response:
    """Audited. `snooze` needs `until`; ack and exempt may have one. Readers may act on the findings that they can see, but
    exempt is for admins. `assign` sets the `assignee`; null takes it back. `verdict`, with judge or ack, records whether
    the finding was true, and counts towards the precision of its rule (GET /api/v1/detectors). `reason` may be empty for
    assign and judge.
    """
    body = await json_body(request, ActionBody)
    taken = action_of(service, access, key, action, body)
    return await to_thread.run_sync(_act, service, access, taken)


def action_of(service: Any, access: Access, key: str, action: str, body: ActionBody) -> Action:
    """The action of a request. ApiError 403 for an action that the caller may not take, 400 for an `until` that is no time."""
    if action == "exempt" and access.scope != "admin":
        raise ApiError(403, f"scope {access.scope} may not exempt a finding")
    until_us = None
    if body.until is not None:
        try:
            until_us = parse_rfc3339(body.until)
        except (ValueError, OverflowError):
            raise ApiError(400, "until: not an RFC 3339 time such as 2026-11-28T00:00:00Z", field="until") from None
    assignee = (body.assignee or "").strip() or None
    reason, at_us = body.reason.strip(), service.now_us()
    return Action(key, action, until_us, reason, access.name, at_us, body.verdict, assignee)


def _act(service: Any, access: Access, action: Action) -> Response:
    with service.reader() as store:
        _one(service, store, access, action.key)
    return answer(action_row(Actions(service.state).act(action)))


def _marked(found: Finding, marks: Mapping[str, Mark], now_us: int) -> dict[str, Any]:
    """A finding with what its owners noted on it, and what it costs a day."""
    from gpuwatch.findings.read import daily

    mark = marks.get(found.key, Mark())
    return {**found.as_dict(), "assignee": mark.assignee, "verdict": mark.verdict, **daily(found, now_us)}


def _one(service: Any, store: Any, access: Access, key: str) -> Finding:
    """The finding, or 404; also 404 for another team's finding, so that its key reveals nothing."""
    from gpuwatch.findings.read import read_one

    found = read_one(store, key, teams=access.teams, actions=Actions(service.state).current(service.now_us()))
    if found is None:
        raise ApiError(404, f"finding {key}: there is none with this key", "GET /api/v1/findings lists them", "key")
    return found


def action_row(action: Action) -> dict[str, Any]:
    """An action as JSON has it."""
    return {
        "action": action.action,
        "until": None if action.until_us is None else rfc3339(action.until_us),
        "reason": action.reason,
        "actor": action.actor,
        "at": rfc3339(action.at_us),
        "verdict": action.verdict,
        "assignee": action.assignee,
    }
