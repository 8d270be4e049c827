"""The overview: what was avoidable, by whom, and what to do first."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, errors, minute_of, seen, split, window_of
from gpuwatch.api.schema.findings.overview import Overview
from gpuwatch.findings.repository import Actions

router = APIRouter(prefix=PREFIX, tags=["findings"])
MONTHS = re.compile(r"month|lastmonth|\d{4}-\d{2}", re.ASCII)


@router.get(
    "/overview", response_model=Overview, responses=errors(), summary="What was avoidable, and what to do first"
)
def overview(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
) -> Response:
    """`now` and `before` are the ledgers of the window and of the period before it, up to the same point; divide by
    `covered_seconds` to compare them. `teams` have the most avoidable time first. `actions` are open findings, those of
    one rule together, ranked by cost a day and certainty, and always the largest loss of the window. Team-scoped tokens
    see what their teams held.
    """
    from gpuwatch.report.overview import Scope
    from gpuwatch.report.overview import overview as look

    now_us = minute_of(service.now_us())
    span, teams = window_of(window, now_us), seen(access.teams, split(team))
    scope = Scope(cluster, pool, None if teams is None else tuple(teams))
    actions, month = Actions(service.state).current(service.now_us()), MONTHS.fullmatch(window) is not None
    return kept(
        request,
        access,
        service,
        lambda store: look(store, service.state, span, scope, now_us, actions, month),
        span,
        now_us,
        *actions.values(),
    )
