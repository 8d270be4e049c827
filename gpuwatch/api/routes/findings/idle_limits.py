"""Idle limits tried on the past: what they would have returned, and whom they would have hit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, errors, seen, split
from gpuwatch.api.errors import ApiError
from gpuwatch.api.schema.findings.idle_limits import IdleLimits
from gpuwatch.api.trials import Requests, past_window, replays_queue

router = APIRouter(prefix=PREFIX, tags=["findings"])


JobsAt = Annotated[
    int | None, Query(description="One of the limits, in minutes: the answer lists the jobs that it hits.")
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
    jobs_at: JobsAt = None,
) -> Response:
    """Limits from 5 minutes to 4 hours, each applied to a past window of at most 31 days; nothing is changed. An item is a limit:
    idle GPU-hours beyond it, the jobs it hits, how many of these used the GPU again (`wrong`), and the waiting requests that the
    released GPUs would have served (`sooner`). `team`: only GPUs that these teams held. Tokens bound to teams: only their own GPUs,
    without `sooner`; 403 `team_scope` if they ask for it, because the queue belongs to everybody. Rolling windows
    (`30d`) end at the last full hour.
    """
    from gpuwatch.reclaim.limits import LIMITS_MIN, try_limits

    if jobs_at is not None and jobs_at not in LIMITS_MIN:
        known = ", ".join(map(str, LIMITS_MIN))
        raise ApiError(400, f"jobs_at {jobs_at}: no such limit", f"choose one of {known}", "jobs_at")
    replayed = replays_queue(access, requests)
    span, past = past_window(window, service.now_us())
    teams = seen(access.teams, split(team))
    return kept(
        request,
        access,
        service,
        lambda store: try_limits(
            store, service.state, past, teams=teams, cluster=cluster, with_requests=replayed, jobs_at=jobs_at
        ),
        span,
    )
