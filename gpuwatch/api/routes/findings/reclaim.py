"""Reclaims: jobs that should give back idle devices, and the steps taken so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, errors, minute_of, seen, split
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.findings.reclaim import Reclaims
from gpuwatch.core.clock import rfc3339

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["findings"])
Step = Annotated[
    Literal["idle", "notice", "warning", "second_warning", "recommendation"] | None,
    Query(description="Only reclaims at this step."),
]


@router.get("/reclaim", response_model=Reclaims, responses=errors(), summary="Idle devices that should be given back")
def reclaim(
    request: Request,
    access: Reader,
    service: Svc,
    team: Names = None,
    cluster: Name = None,
    step: Step = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """Reclaims that other teams wait for come first; for team-scoped tokens `contention` is null, and the most expensive
    come first. Steps are notice, warning, second_warning, recommendation;
    `held_by` is the owner's answer. Where no GPU is measured, `jobs` is null and `not_measured` says why. gpuwatch never ends a job: `command` is for people who follow a recommendation.
    """
    from gpuwatch.reclaim.measured import not_measured
    from gpuwatch.reclaim.state import as_dict, proposals

    now_us = minute_of(service.now_us())
    wanted = seen(access.teams, split(team))
    asked = question({"route": "reclaim", "team": team, "cluster": cluster, "step": step})
    place = decode(cursor, asked)

    def shown(store: Store) -> dict[str, Any]:
        found = proposals(store, service.state, now_us, teams=wanted, cluster=cluster, contended=access.teams is None)
        items = [as_dict(one) for one in found if step is None or one.at.step == step]
        chosen, following = page(items, limit, place, asked, lambda item: str(item["key"]))
        reason = not_measured(store, cluster)
        jobs = None if reason else len(items)
        return {"items": chosen, "at": rfc3339(now_us), "jobs": jobs, "not_measured": reason, "next": following}

    return kept(request, access, service, shown, now_us)
