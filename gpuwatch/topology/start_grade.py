"""The grade of one gang on the topology of its start, among the GPUs that it could have had."""

from __future__ import annotations

from typing import Any

from gpuwatch.hardware.link_graph import Graph
from gpuwatch.store.database import Store
from gpuwatch.topology.fit import Fit, Start
from gpuwatch.topology.grade import Placement, grade_placement
from gpuwatch.topology.taints import TaintedNodes


def graded(
    store: Store, cluster: str, around: Graph, rows: list[dict[str, Any]], gpus: list[str], model: str
) -> Placement:
    """The placement of a gang, all of whose GPUs are in `around`, among the GPUs that were free at its start."""
    at_us, pools = rows[0]["at_us"], sorted({row["pool"] or "" for row in rows})
    alike = store.rows("topology/placement/alike", cluster=cluster, at_us=at_us, model=model, pools=pools)
    nodes = {gpu: node.name for gpu, place in around.places.items() if (node := place.container("node")) is not None}
    barred = TaintedNodes(store, cluster).barred({nodes[gpu] for gpu in gpus if gpu in nodes}, at_us)
    start = Start(0, frozenset(row["run_id"] for row in rows), at_us, len(gpus))
    limits = Fit(store, cluster).limits([start])[0]
    barred |= limits.barred
    free = {row["gpu"]: row["free"] for row in alike if row["gpu"] in gpus or nodes.get(row["gpu"]) not in barred}
    usable = limits.usable([gpu for gpu, is_free in free.items() if is_free], set(gpus), nodes.get)
    return grade_placement(around, gpus, usable, free.keys(), model)
