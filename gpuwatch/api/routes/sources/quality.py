"""The quality of the inputs: what is missing or wrong, and the fix."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, Svc, answer, errors
from gpuwatch.api.schema.sources.quality import Quality

router = APIRouter(prefix=PREFIX, tags=["service"])


@router.get("/quality", response_model=Quality, responses=errors(), summary="Sources and input problems")
def quality(access: FleetReader, service: Svc) -> Response:
    """For each source: last seen, lag, refused records, missing fields and the fix; and the checks of `gpuwatch
    doctor`.
    """
    from gpuwatch.output.fix_hints import LOCAL
    from gpuwatch.quality.sources import quality as examine

    with service.reader() as store:
        found = examine(
            store,
            service.state,
            service.sources(),
            service.now_us(),
            service.base_url or LOCAL,
            service.wrong_clocks(),
            service.settings,
            service.times.clock.doubt(),
        )
    return answer(found)
