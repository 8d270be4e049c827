"""Search by name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Svc, errors, minute_of
from gpuwatch.api.schema.findings.search import Matches
from gpuwatch.findings.repository import Actions

router = APIRouter(prefix=PREFIX, tags=["jobs"])
EACH, EACH_MAX = 5, 20


@router.get("/search", response_model=Matches, responses=errors(), summary="Teams, users, jobs, nodes, GPUs, findings")
def search(
    request: Request,
    access: Reader,
    service: Svc,
    q: Annotated[str, Query(min_length=1, max_length=100, description="A part of a name or id, ignoring case.")],
    each: Annotated[int, Query(ge=1, le=EACH_MAX, description="Most results of one kind.")] = EACH,
) -> Response:
    """By name or id, jobs also by the name of their work, those that wait first; findings also by their texts. Team-scoped tokens find their own
    runs, the devices that these held, and their findings.
    """
    from gpuwatch.jobs.search import search as look

    now_us, actions = minute_of(service.now_us()), Actions(service.state).current(service.now_us())
    return kept(
        request,
        access,
        service,
        lambda store: {"items": look(store, service.state, q, access.teams, actions, now_us, each)},
        now_us,
        *actions.values(),
    )
