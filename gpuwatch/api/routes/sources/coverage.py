"""The time that there is data of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Svc, errors, words
from gpuwatch.api.schema.sources.coverage import Coverage
from gpuwatch.core.clock import ENDED_US, HOUR_US

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["sources"])


@router.get("/coverage", response_model=Coverage, responses=errors(), summary="From when to when there is data")
def coverage(request: Request, access: Reader, service: Svc, cluster: Name = None) -> Response:
    """From the first to the last instant of the ledger. `ended`: it stops more than a day ago, as that of imported files does. Windows
    such as `7d` end now; ask for START,END to see the last days of data that has ended.
    """
    from gpuwatch.report.overview import Scope, span_of_data

    hour_us = service.now_us() // HOUR_US * HOUR_US

    def look(store: Store) -> dict[str, Any]:
        known = span_of_data(store, Scope(cluster))
        if known is None:
            return {"start": None, "end": None, "ended": False}
        return {**words(known), "ended": known.end_us < hour_us - ENDED_US}

    return kept(request, access, service, look, hour_us)
