"""The fleet now."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Names, Svc, answer, errors, seen, split
from gpuwatch.api.schema.capacity.fleet import Fleet

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get("/fleet", response_model=Fleet, responses=errors(), summary="GPUs and MIG slices now")
def fleet(access: Reader, service: Svc, team: Names = None) -> Response:
    """Total, reporting, allocated, active and effective GPUs by cluster, pool and model, over the last recorded
    minutes. Team-scoped tokens see the devices that their teams hold.
    """
    from gpuwatch.capacity.fleet import fleet as look

    with service.reader() as store:
        found = look(store, service.now_us(), seen(access.teams, split(team)))
    return answer(found)
