"""The fleet now."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Names, Svc, errors, minute_of, seen, split
from gpuwatch.api.schema.capacity.fleet import Fleet

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get("/fleet", response_model=Fleet, responses=errors(), summary="GPUs and MIG slices now")
def fleet(request: Request, access: Reader, service: Svc, team: Names = None) -> Response:
    """Total, reporting, allocated, active and effective GPUs by cluster, pool and model, over the last recorded
    minutes. Team-scoped tokens see the devices that their teams hold.
    """
    from gpuwatch.capacity.fleet import fleet as look

    now_us, teams = minute_of(service.now_us()), seen(access.teams, split(team))
    return kept(request, access, service, lambda store: look(store, now_us, teams), now_us)
