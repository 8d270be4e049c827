"""The authority scorecard: who decides in each layer, what is left to defaults, what it costs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from gpuwatch.api.auth import FleetReader
from gpuwatch.api.common import PREFIX, WINDOW_MAX, Svc, answer, errors, window_of
from gpuwatch.api.schema.findings.scorecard import AuditCard
from gpuwatch.core.clock import WINDOW_HELP

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get("/audit-card", response_model=AuditCard, responses=errors(), summary="The authority scorecard")
def audit_card(
    access: FleetReader,
    service: Svc,
    window: Annotated[
        str | None,
        Query(max_length=WINDOW_MAX, description=f"{WINDOW_HELP} Default: the last 7 days of what is known."),
    ] = None,
) -> Response:
    """Placement, partitioning, scheduling and fabric: the grade of each layer by `rule`, who decides, what is left to
    defaults, findings with their cost in the window, and one action plan for all. `waste` is the sum of wasteful
    buckets; the cost of findings is part of it. `unknown` lists missing data with its fix. Only whole hours count.
    """
    from gpuwatch.audit.facts import read_facts
    from gpuwatch.audit.scorecard import scorecard

    now_us = service.now_us()
    span = None if window is None else window_of(window, now_us)
    with service.reader() as store:
        return answer(scorecard(read_facts(store, service.state, span, now_us)))
