"""Teams that ran something in a window."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Svc, WindowText, answer, errors, window_of, words
from gpuwatch.api.schema.capacity.holders import Holders

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get("/holders", response_model=Holders, responses=errors(), summary="Teams that ran something")
def holders(access: Reader, service: Svc, window: WindowText = "7d") -> Response:
    """The names of the teams with a run in the window, at most 1000. Team-scoped tokens see their own."""
    from gpuwatch.jobs.holders import holders as look

    span = window_of(window, service.now_us())
    with service.reader() as store:
        found = look(store, span, access.teams)
    return answer({"items": [{"team": team} for team in found], "window": words(span)})
