"""The fleet as a drawing: GPUs in their places, a job beside its best place, a node's links, what a link touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from gpuwatch.api.answers import kept
from gpuwatch.api.auth import FleetReader, Reader
from gpuwatch.api.common import NAME_MAX, PREFIX, Name, Svc, answer, errors, instant_of, minute_of
from gpuwatch.api.errors import ApiError
from gpuwatch.api.routes.capacity.topology import At
from gpuwatch.api.schema.capacity.topology import FleetMap, JobOverlay, LinkReach, NodeView
from gpuwatch.findings.repository import Action, Actions

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

router = APIRouter(prefix=PREFIX, tags=["fleet"])

Text = Annotated[str, Query(min_length=1, max_length=NAME_MAX)]


def open_findings(
    store: Store,
    actions: Mapping[str, Action],
    cluster: str | None,
    teams: tuple[str, ...] | None,
    detectors: Sequence[str] = (),
    states: Sequence[str] = ("open",),
) -> list[dict[str, Any]]:
    """Findings that have not ended, as GET /findings has them; `states` says whether also those that were reviewed."""
    from gpuwatch.findings.read import read

    asked: dict[str, Any] = {"states": states, "cluster": cluster, "teams": teams, "detectors": detectors}
    return [found.as_dict() for found in read(store, actions=actions, **asked)]


@router.get(
    "/topology/map", response_model=FleetMap, responses=errors(), summary="Every GPU in its place, with its state"
)
def topology_map(
    request: Request, access: Reader, service: Svc, cluster: Name = None, pool: Name = None, at: At = None
) -> Response:
    """Nodes by cluster, leaf and name; each lists its GPUs column by column. `state`: held, free, stranded (free, but no use to
    the usual requests), partitioned (MIG, no slice held), out_of_service, other. `team`, `job` and `finding` are places in
    the lists of these names; `avoidable` is the avoidable share of the last hours. Team-scoped tokens see the nodes on which
    their teams hold a GPU now; what the other GPUs of these nodes do is not shown (`other`).
    """
    from gpuwatch.capacity.fleet_map import fleet_map

    at_us = minute_of(service.now_us()) if at is None else instant_of(at)
    actions = Actions(service.state).current(service.now_us())

    def look(store: Store) -> dict[str, Any]:
        findings = open_findings(store, actions, cluster, access.teams) if at is None else []
        return fleet_map(
            store, at_us, cluster=cluster, pool=pool, teams=access.teams, exact=at is not None, findings=findings
        )

    return kept(request, access, service, look, at_us, *actions.values())


@router.get(
    "/topology/job", response_model=JobOverlay, responses=errors(404), summary="A job's GPUs and the best free ones"
)
def topology_job(
    access: Reader,
    service: Svc,
    job: Annotated[str, Query(min_length=1, max_length=NAME_MAX, description="Slurm job id, or namespace/name.")],
    cluster: Name = None,
) -> Response:
    """The GPUs that the job held at its start, and the nearest set of the same size that was free at that moment (`best`); null
    if nothing nearer was free, or the placement is not graded (`why`). Team-scoped tokens see their own jobs, without `best`.
    """
    from gpuwatch.topology.overlay import job_overlay

    with service.reader() as store:
        found = job_overlay(store, job, cluster, access.teams)
    if found is None:
        raise ApiError(404, f"job {job}: there is none of this id with GPUs", "GET /api/v1/jobs lists them", "job")
    return answer(found)


@router.get("/topology/node", response_model=NodeView, responses=errors(404), summary="The links inside one node")
def topology_node(access: Reader, service: Svc, cluster: Text, node: Text, at: At = None) -> Response:
    """The GPUs of a node with their NVLink island, PCIe switch and NUMA node, and the level and bandwidth of each pair (GB/s per
    direction). `missing` has the fix for what no source reports. Team-scoped tokens see the nodes on which they hold a GPU now.
    """
    from gpuwatch.capacity.fleet_map import fleet_map
    from gpuwatch.topology.node_view import node_view

    at_us = service.now_us() if at is None else instant_of(at)
    with service.reader() as store:
        found = None
        if access.teams is None or node in {
            one["node"] for one in fleet_map(store, service.now_us(), cluster=cluster, teams=access.teams)["nodes"]
        }:
            found = node_view(store, cluster, node, at_us)
    if found is None:
        raise ApiError(404, f"node {node}: not in the topology", "GET /api/v1/topology/map lists the nodes", "node")
    return answer(found)


@router.get("/topology/touches", response_model=LinkReach, responses=errors(404), summary="What a failed link touches")
def topology_touches(
    access: FleetReader,
    service: Svc,
    cluster: Text,
    kind: Annotated[
        Literal["gpu", "nvlink", "pcie", "numa", "node", "nvlink_domain", "block", "leaf", "spine", "core", "zone"],
        Query(description="The element that the link leaves."),
    ],
    name: Annotated[str, Query(min_length=1, max_length=NAME_MAX, description="Its name, as GET /topology has it.")],
    at: At = None,
) -> Response:
    """Jobs with GPUs in an element at that moment. `crosses`: the job also has GPUs outside, so it communicates over the link
    between the element and the rest. A GPU that several jobs share counts for the one that holds most of it.
    """
    from gpuwatch.capacity.link_reach import link_reach

    at_us = service.now_us() if at is None else instant_of(at)
    with service.reader() as store:
        found = link_reach(store, at_us, cluster, kind, name, exact=at is not None)
    if found is None:
        raise ApiError(404, f"{kind} {name}: no GPU lies in it", "GET /api/v1/topology lists the elements", "name")
    return answer(found)
