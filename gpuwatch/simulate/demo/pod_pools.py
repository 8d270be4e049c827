"""Pods of the demo's one cluster: each selects its pool of nodes, and a scheduler that finds no room names every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from gpuwatch.simulate.fleet import Fleet, Node
from gpuwatch.simulate.kubernetes import no_room, resource_of
from gpuwatch.simulate.runs import Run

LACKING = " Insufficient "
"""In the message of a scene whose pod finds no free device on a node."""


def in_pools(runs: Sequence[Run], nodes: Sequence[Node]) -> list[Run]:
    """The runs of a scene with the pool of its nodes as theirs, where these are in one pool."""
    pools = {node.pool for node in nodes if node.scheduler == "kubernetes"}
    return [replace(run, pool=min(pools)) if _waits(run) and len(pools) == 1 else run for run in runs]


def selecting(run: Run, pools: Collection[str]) -> Run:
    """A pod of one of these pools, with a selector of its nodes; anything else as it is."""
    if run.scheduler != "kubernetes" or run.placement or run.pool not in pools:
        return run
    return replace(run, placement={"nodeSelector": {"nodepool": run.pool}})


def explained(run: Run, pools: Counter[str]) -> Run:
    """A pod that waits for devices of a pool, with the message of a scheduler that saw all nodes; anything else as it is.

    `pools`: nodes of each pool that Kubernetes has.
    """
    if not _waits(run) or run.pool not in pools:
        return run
    mine = pools[run.pool]
    return replace(run, reason=no_room(resource_of(run), mine, pools.total() - mine))


def pools_of(fleet: Fleet) -> Counter[str]:
    """How many nodes of each pool Kubernetes has."""
    return Counter(node.pool for node in fleet.nodes if node.scheduler == "kubernetes" or node.also_kubernetes)


def _waits(run: Run) -> bool:
    """Whether it is a pod that no node has room for."""
    lacks = not run.reason or LACKING in run.reason
    return run.scheduler == "kubernetes" and run.start_s is None and not run.creating and lacks
