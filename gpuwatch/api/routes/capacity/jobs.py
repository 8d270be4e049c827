"""Jobs: what each held, did, cost and wasted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import NAME_MAX, PREFIX, Name, Names, Svc, WindowText, answer, errors, seen, split, window_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.paging import Cursor, CursorText, Limit, decode, encode, question
from gpuwatch.api.schema.capacity.jobs import JobDetail, Jobs
from gpuwatch.findings.repository import Actions

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get("/jobs", response_model=Jobs, responses=errors(), summary="Jobs of a window")
def jobs(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    user: Name = None,
    queue: Names = None,
    cluster: Name = None,
    pool: Name = None,
    state: Annotated[str | None, Query(max_length=50, description="Prefix of the scheduler's state: running.")] = None,
    q: Annotated[
        str | None, Query(max_length=200, description="Words in id, name, user, account, queue or team.")
    ] = None,
    sort: Literal[
        "cost", "gpu_seconds", "started", "effective_ratio", "avoidable", "hoarded", "gap", "communication", "stalled"
    ] = "cost",
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """Amounts are for the window. A bucket as `sort` lists the jobs with the most time in it first; `avoidable` those of which the most money was avoidable, or time without prices. All pages of a list use the window of the first page."""
    from gpuwatch.jobs.listing import jobs as look

    teams = seen(access.teams, split(team))
    asked = question(
        {
            "window": window,
            "teams": teams,
            "user": user,
            "queue": split(queue),
            "cluster": cluster,
            "pool": pool,
            "state": state,
            "q": q,
            "sort": sort,
        }
    )
    place = decode(cursor, asked)
    span = place.window if place is not None and place.window is not None else window_of(window, service.now_us())

    def found(store: Store) -> dict[str, Any]:
        rows = look(
            store,
            service.state,
            span,
            teams,
            user=user,
            queues=split(queue) or None,
            cluster=cluster,
            pool=pool,
            state_filter=state,
            q=q,
            sort=sort,
            limit=limit,
            cursor=None if place is None else place.key,
        )
        following = rows["next"]
        return rows | {"next": None if following is None else encode(Cursor(following, 0, span), asked)}

    return kept(request, access, service, found, span)


@router.get("/jobs/{job_id:path}", response_model=JobDetail, responses=errors(404), summary="One job")
def job(
    access: Reader,
    service: Svc,
    job_id: Annotated[
        str, Path(min_length=1, max_length=NAME_MAX, description="Slurm job id, or namespace/name.", examples=["4711"])
    ],
    cluster: Annotated[
        str | None, Query(min_length=1, max_length=NAME_MAX, description="Required if several clusters have the id.")
    ] = None,
) -> Response:
    """Over its whole life: runs, devices, placement, waterfall, findings and time series, without the runs of other
    teams. `placement.grade` compares how close its GPUs are with what was free when it started; if null, `why` has the
    reason.
    """
    from gpuwatch.jobs.listing import job as look

    actions = Actions(service.state).current(service.now_us())
    with service.reader() as store:
        found = look(store, service.state, cluster, job_id, access.teams, actions)
    if found is None:
        raise ApiError(404, f"job {job_id}: there is none of this id", "GET /api/v1/jobs lists them", "job_id")
    return answer(found)
