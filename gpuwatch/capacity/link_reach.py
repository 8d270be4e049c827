"""What a failed link touches: the jobs whose GPUs lie on both sides of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gpuwatch.capacity.fleet_map import fleet_map
from gpuwatch.core.clock import rfc3339
from gpuwatch.store.database import Store
from gpuwatch.topology.node_view import gpus_inside

JOBS_MAX = 1000

Row = dict[str, Any]


def link_reach(store: Store, at_us: int, cluster: str, kind: str, name: str, *, exact: bool = False) -> Row | None:
    """The answer of GET /topology/touches; None for an element without a GPU.

    The link is that between the element (`gpu`, `nvlink`, `pcie`, `node`, `leaf`, ...) and everything outside. A job with GPUs
    on both sides communicates over it (`crosses`); one with all its GPUs inside does not need it, but stops with the element.
    """
    inside = gpus_inside(store, cluster, kind, name, at_us)
    if not inside:
        return None
    found = fleet_map(store, at_us, cluster=cluster, exact=exact)
    within: dict[int, int] = defaultdict(int)
    whole: dict[int, int] = defaultdict(int)
    nodes = set()
    for node in found["nodes"]:
        for gpu, job in zip(node["gpus"], node["job"], strict=True):
            if gpu in inside:
                nodes.add(node["node"])
            if job is not None:
                whole[job] += 1
                within[job] += gpu in inside
    jobs = [
        {
            "job": row["job"],
            "name": row["name"],
            "team": None if row["team"] is None else found["teams"][row["team"]],
            "gpus": whole[n],
            "gpus_inside": within[n],
            "crosses": within[n] < whole[n],
        }
        for n, row in enumerate(found["jobs"])
        if within[n]
    ]
    jobs.sort(key=lambda job: (not job["crosses"], -job["gpus"], job["job"]))
    return {
        "cluster": cluster,
        "kind": kind,
        "name": name,
        "at": found["clusters"][0]["as_of"] if found["clusters"] else rfc3339(at_us),
        "gpus": len(inside),
        "nodes": len(nodes),
        "jobs": jobs[:JOBS_MAX],
        "more_jobs": max(0, len(jobs) - JOBS_MAX),
    }
