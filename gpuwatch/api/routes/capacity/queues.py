"""Queues with their quota, and the workloads that wait and run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import Reader
from gpuwatch.api.common import PREFIX, Name, Names, Svc, errors, minute_of, seen, split
from gpuwatch.api.paging import CursorText, Limit, decode, page, question
from gpuwatch.api.schema.common import Shape, Time

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["queues"])

Devices = dict[str, int]
STATES = ("pending", "inadmissible", "evicted", "reserved", "admitted", "running", "finished", "failed")


class Waiting(Shape):
    workloads: int
    unknown: int = Field(description="Workloads with an unknown number of devices.")
    devices: Devices
    longest_seconds: float | None
    reasons: dict[str, int]
    why: str | None = Field(description="The most frequent reason, in words.")


class Queue(Shape):
    cluster: str
    scheduler: str
    kind: str
    name: str
    namespace: str | None
    parent: str | None
    state: str | None
    quota: Devices | None
    quota_max: Devices | None
    lend_max: Devices | None
    used: Devices | None
    borrowed: Devices | None
    pending: int | None
    running: int | None
    waiting: Waiting
    observed_at: Time | None


class Queues(Shape):
    items: list[Queue]
    next: str | None


class Unscheduled(Shape):
    pods: int
    at: Time


class Workload(Shape):
    cluster: str
    scheduler: str
    kind: str
    uid: str
    name: str | None
    namespace: str | None
    job: str | None
    team: str
    queue: str | None
    state: str | None
    reason: str | None
    why: str | None
    unscheduled: Unscheduled | None
    pods: int | None
    pods_min: int | None
    gpus: int | None
    profile: str | None
    submitted_at: Time | None
    admitted_at: Time | None
    wait_seconds: float | None
    observed_at: Time | None


class Workloads(Shape):
    items: list[Workload]
    next: str | None


@router.get(
    "/queues", response_model=Queues, responses=errors(), summary="Queues now: quota, use and waiting workloads"
)
def queues(
    request: Request,
    access: Reader,
    service: Svc,
    team: Names = None,
    cluster: Name = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """As last reported by their schedulers. Devices are counted by MIG profile, "" for whole GPUs; null: not reported.
    Team-scoped tokens see the queues that their workloads use, with their own waits; use and
    numbers of workloads are null, because others count in them.
    """
    from gpuwatch.capacity.queues import queues as look

    teams = seen(access.teams, split(team))
    asked = question({"teams": teams, "cluster": cluster})
    place = decode(cursor, asked)
    now_us = minute_of(service.now_us())

    def shown(store: Store) -> dict[str, Any]:
        found = look(store, service.state, now_us, teams, cluster=cluster, bound=access.teams is not None)
        items, following = page(found, limit, place, asked, _queue_name)
        return {"items": items, "next": following}

    return kept(request, access, service, shown, now_us)


@router.get("/workloads", response_model=Workloads, responses=errors(), summary="Waiting and running workloads")
def workloads(
    request: Request,
    access: Reader,
    service: Svc,
    team: Names = None,
    cluster: Name = None,
    queue: Name = None,
    state: Annotated[list[str] | None, Query(max_length=20, description=f"Any of {', '.join(STATES)}.")] = None,
    limit: Limit = 100,
    cursor: CursorText = None,
) -> Response:
    """As last reported by their schedulers, longest-waiting gangs first. Without `state`: workloads that have not
    ended. `why` is the reason for waiting; `unscheduled` counts its unschedulable pods, as last reported.
    For team-scoped tokens `position` is null and `detail` empty, because others count in them.
    """
    from gpuwatch.capacity.workloads import workloads as look

    teams, states = seen(access.teams, split(team)), split(state)
    asked = question({"teams": teams, "cluster": cluster, "queue": queue, "states": states})
    place = decode(cursor, asked)
    now_us = minute_of(service.now_us())

    def shown(store: Store) -> dict[str, Any]:
        found = look(
            store,
            service.state,
            now_us,
            teams,
            cluster=cluster,
            queue=queue,
            states=states or None,
            bound=access.teams is not None,
        )
        items, following = page(found, limit, place, asked, _workload_name)
        return {"items": items, "next": following}

    return kept(request, access, service, shown, now_us)


def _queue_name(item: dict[str, Any]) -> str:
    keys = ("cluster", "scheduler", "kind", "namespace", "name", "parent")
    return "\x1f".join(str(item[key] or "") for key in keys)


def _workload_name(item: dict[str, Any]) -> str:
    return "\x1f".join(str(item[key] or "") for key in ("cluster", "scheduler", "kind", "uid"))
