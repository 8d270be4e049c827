"""Quotas tried on the past: whose runs would have waited."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import NAME_MAX, PREFIX, Name, Svc, WindowText, errors
from gpuwatch.api.errors import TeamScope
from gpuwatch.api.schema.findings.quotas import Quotas
from gpuwatch.api.trials import Requests, past_window, replays_queue

router = APIRouter(prefix=PREFIX, tags=["findings"])
Team = Annotated[str, Query(min_length=1, max_length=NAME_MAX, description="The team that gets the quota.")]
Gpus = Annotated[
    Decimal | None, Query(gt=0, le=1_000_000, max_digits=12, decimal_places=3, description="A quota to try as well.")
]


@router.get("/what-if/quotas", response_model=Quotas, responses=errors(), summary="What if a team had a quota?")
def quotas(
    request: Request,
    access: Reader,
    service: Svc,
    team: Team,
    gpus: Gpus = None,
    window: WindowText = "30d",
    cluster: Name = None,
    requests: Requests = None,
) -> Response:
    """Eight quotas up to the most that the team held at once, each applied to a past window of at most 31 days; nothing is changed.
    An item is a quota: the team's runs that wait for their own quota, for how long, whose they are (`users`, `queues`), what of the
    quota stays unused, and the requests of other teams that the GPUs would have served (`sooner`). Tokens bound to teams: only their
    own teams, without `sooner`; otherwise 403 `team_scope`.
    """
    from gpuwatch.reclaim.quotas import try_quotas

    if access.teams is not None and team not in access.teams:
        raise TeamScope(f"team {team}: the token is not for this team", "team")
    replayed = replays_queue(access, requests)
    span, past = past_window(window, service.now_us())
    return kept(
        request,
        access,
        service,
        lambda store: try_quotas(store, service.state, past, team, gpus=gpus, cluster=cluster, with_requests=replayed),
        span,
    )
