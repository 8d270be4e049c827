"""Teams that ran something in a window."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Svc, WindowText, errors, window_of, words
from gpuwatch.api.schema.capacity.holders import Holders

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get("/holders", response_model=Holders, responses=errors(), summary="Teams that ran something")
def holders(request: Request, access: Reader, service: Svc, window: WindowText = "7d") -> Response:
    """The names of the teams with a run in the window, at most 1000. Team-scoped tokens see their own."""
    from gpuwatch.jobs.holders import holders as look

    span = window_of(window, service.now_us())
    return kept(
        request,
        access,
        service,
        lambda store: {"items": [{"team": team} for team in look(store, span, access.teams)], "window": words(span)},
        span,
    )
