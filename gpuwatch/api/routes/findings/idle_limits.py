"""Idle limits tried on the past: what they would have returned, and whom they would have hit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, errors, seen, split, window_of
from gpuwatch.api.errors import ApiError, TeamScope
from gpuwatch.api.schema.findings.idle_limits import IdleLimits
from gpuwatch.core.clock import HOUR_US, Window

router = APIRouter(prefix=PREFIX, tags=["findings"])
Requests = Annotated[
    bool | None, Query(description="Whether the queue is replayed; by default, unless the token is bound to teams.")
]


@router.get(
    "/what-if/idle-limits",
    response_model=IdleLimits,
    responses=errors(),
    summary="What if idle GPUs were taken back after a limit?",
)
def idle_limits(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "30d",
    team: Names = None,
    cluster: Name = None,
    requests: Requests = None,
) -> Response:
    """Limits from 5 minutes to 4 hours, each applied to a past window of at most 31 days; nothing is changed. An item is a limit:
    idle GPU-hours beyond it, the jobs it hits, how many of these used the GPU again (`wrong`), and the waiting requests that the
    released GPUs would have served (`sooner`). `team`: only GPUs that these teams held. Tokens bound to teams: only their own GPUs,
    without `sooner`; 403 `team_scope` if they ask for it, because the queue belongs to everybody. Rolling windows
    (`30d`) end at the last full hour.
    """
    from gpuwatch.reclaim.limits import WINDOW_US_MAX, try_limits

    if requests and access.teams is not None:
        raise TeamScope("requests: the queue has requests of other teams, and the token is bound to teams", "requests")
    span = window_of(window, service.now_us() // HOUR_US * HOUR_US)
    if span.end_us - span.start_us > WINDOW_US_MAX:
        raise ApiError(400, f"window {window!r}: at most 31 days", "choose a shorter window, such as 30d", "window")
    teams = seen(access.teams, split(team))
    replayed = access.teams is None and requests is not False
    reached = Window(span.start_us, max(span.start_us + 1, min(span.end_us, service.now_us())))
    return kept(
        request,
        access,
        service,
        lambda store: try_limits(store, service.state, reached, teams=teams, cluster=cluster, with_requests=replayed),
        span,
    )
