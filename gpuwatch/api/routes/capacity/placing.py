"""Where a request would be placed now, and what would let waiting requests start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader, Reader
from gpuwatch.api.common import PREFIX, Name, Svc, errors, instant_of, minute_of
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.routes.capacity.capacity import At
from gpuwatch.api.routes.capacity.plan import SHAPE_MAX
from gpuwatch.api.routes.capacity.topology_map import open_findings
from gpuwatch.api.schema.capacity.placing import PendingRequests, Placing
from gpuwatch.findings.repository import Action, Actions

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])


@router.get(
    "/capacity/place", response_model=Placing, responses=errors(), summary="Where a request would be placed now"
)
def capacity_place(
    request: Request,
    access: FleetReader,
    service: Svc,
    shape: Annotated[
        str, Query(min_length=1, max_length=SHAPE_MAX, description="8, or 2x8: nodes x GPUs on each.")
    ] = "8",
    within: Annotated[
        Literal["any", "leaf", "nvlink"],
        Query(description="What all nodes of a gang must share: a leaf switch, or an NVLink domain."),
    ] = "any",
    cluster: Name = None,
    pool: Name = None,
    gpu_model: Annotated[
        str | None, Query(min_length=1, max_length=256, description="A model, or a word in it: h100.")
    ] = None,
    cpus: Annotated[float | None, Query(ge=0, le=1e6, description="CPUs that it needs on each node.")] = None,
    memory_gib: Annotated[
        float | None, Query(ge=0, le=1e9, description="GiB of memory that it needs on each node.")
    ] = None,
    at: At = None,
) -> Response:
    """An item is a pool and model: the GPUs that the shape would get, or `why` it does not fit and what would change that: the
    cheapest moves with their targets (`plan`), and idle GPUs that could be reclaimed (`reclaim`). GPUs with a fault are chosen last;
    those that the shape would get are `faults`. `fits` null: not known, `missing` has the fix. `not_known`: what no source has of CPUs, memory and rules, of the nodes or of the jobs that would move. Nodes with a
    taint that others of the pool lack are left out. Nothing is moved or reserved.
    """
    from gpuwatch.capacity.simulator import place

    at_us = minute_of(service.now_us()) if at is None else instant_of(at)
    actions = Actions(service.state).current(service.now_us())

    def look(store: Store) -> dict[str, Any]:
        findings = _of_gpus(store, actions, cluster) if at is None else []
        words: dict[str, Any] = {"within": within, "cluster": cluster, "pool": pool, "gpu_model": gpu_model}
        words |= {"cpus": cpus, "memory_gib": memory_gib}
        return place(store, at_us, shape, **words, exact=at is not None, findings=findings)

    return kept(request, access, service, look, at_us, *actions.values())


@router.get(
    "/capacity/pending",
    response_model=PendingRequests,
    responses=errors(),
    summary="Waiting requests and what would let them start",
)
def capacity_pending(
    request: Request,
    access: Reader,
    service: Svc,
    cluster: Name = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """As last reported by their schedulers, longest-waiting first. `why`: the reason in words; `waits_for`: gpus, other (quota, a
    turn, what no node offers) or unknown; `start`: for requests that wait for GPUs, where they fit or what would have to move or be
    reclaimed. Team-scoped tokens see their own requests, without `waits_for` and `start`.
    """
    from gpuwatch.capacity.pending import pending

    asked = question({"teams": access.teams, "cluster": cluster})
    place = decode(cursor, asked)
    now_us, actions = minute_of(service.now_us()), Actions(service.state).current(service.now_us())

    def look(store: Store) -> dict[str, Any]:
        findings = _of_gpus(store, actions, cluster) if access.teams is None else []
        found = pending(store, service.state, now_us, access.teams, cluster=cluster, findings=findings)
        items, following = page(found["items"], limit, place, asked, _name)
        return found | {"items": items, "next": following}

    return kept(request, access, service, look, now_us, *actions.values())


def _of_gpus(store: Store, actions: Mapping[str, Action], cluster: str | None) -> list[dict[str, Any]]:
    """What a placement needs of the findings: idle GPUs that nobody has reviewed, and every GPU with a fault."""
    from gpuwatch.capacity.simulator import FAULTS, IDLE

    idle = open_findings(store, actions, cluster, None, [IDLE])
    return idle + open_findings(store, actions, cluster, None, FAULTS, ("open", "acked", "snoozed"))


def _name(item: dict[str, Any]) -> str:
    return "\x1f".join(str(item[key] or "") for key in ("cluster", "scheduler", "kind", "namespace", "name", "job"))
