"""MIG slices: owner, share, time, cost and use of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, WindowText, errors, seen, split, words
from gpuwatch.api.paging import CursorText, Limit, following, question, rolling_place
from gpuwatch.api.schema.billing.slices import MigGpus, Slices
from gpuwatch.billing.slice_sums import mig_gpus as add_up
from gpuwatch.billing.slices import slices as look

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get("/slices", response_model=Slices, responses=errors(), summary="MIG slices of a window")
def slices(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    gpu: Name = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """One row for each slice, layout and owner; `gpus` has the newest layout of each of their GPUs. A utilisation of
    null was not measured.
    """
    teams = seen(access.teams, split(team))
    asked = question({"window": window, "teams": teams, "cluster": cluster, "pool": pool, "gpu": gpu})
    span, offset = rolling_place(cursor, asked, window, service.now_us())

    def shown(store: Store) -> dict[str, Any]:
        found = look(store, service.state, span, teams, cluster=cluster, pool=pool, gpu=gpu, limit=limit, offset=offset)
        return {
            "items": found["items"],
            "gpus": found["gpus"],
            "window": words(span),
            "next": following(found["next_offset"], span, asked),
        }

    return kept(request, access, service, shown, span)


@router.get("/mig/gpus", response_model=MigGpus, responses=errors(), summary="MIG GPUs with their slices")
def mig_gpus(
    request: Request,
    access: Reader,
    service: Svc,
    window: WindowText = "7d",
    team: Names = None,
    cluster: Name = None,
    pool: Name = None,
    sort: Annotated[Literal["idle", "node"], Query(description="`idle`: the most idle time first.")] = "node",
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """A page of GPUs; `slices` has each of its slices added up over all who held it, `total` all slices of the window.
    Slices that only a scheduler reports are listed under their node, with `gpu` null. Costs are null where their currencies differ.
    """
    teams = seen(access.teams, split(team))
    asked = question({"window": window, "teams": teams, "cluster": cluster, "pool": pool, "sort": sort})
    span, offset = rolling_place(cursor, asked, window, service.now_us())

    def shown(store: Store) -> dict[str, Any]:
        idle_first = sort == "idle"
        found = add_up(
            store, span, teams, cluster=cluster, pool=pool, idle_first=idle_first, limit=limit, offset=offset
        )
        return {
            **{name: value for name, value in found.items() if name != "next_offset"},
            "window": words(span),
            "next": following(found["next_offset"], span, asked),
        }

    return kept(request, access, service, shown, span)
