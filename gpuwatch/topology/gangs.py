"""Gangs placed farther apart than necessary: temporary tables for the SQL of the placement rule."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import rfc3339
from gpuwatch.core.gpu_specs import facts
from gpuwatch.hardware.link_graph import Graph, farthest
from gpuwatch.hardware.links import NODE_KINDS
from gpuwatch.rules.rule import EvaluationScope
from gpuwatch.store.database import Store
from gpuwatch.topology.batch import Gang, farther
from gpuwatch.topology.fit import Fit
from gpuwatch.topology.grade import Placement
from gpuwatch.topology.jobs import DEVICES_MAX, GANG_US, place_words, spans

GANGS_MAX = 100_000
"""Gangs evaluated in one pass, the first to start."""
LISTED_GPUS_MAX = 64
"""Listed GPUs of the better placement."""
POOR_GRADES = ("C", "D", "F")
"""Grades that count as poor inside a node if a bandwidth is not known. Over nodes, any nearer container does."""

_GANG = pa.schema(
    [
        ("run_id", pa.int64()),
        *((name, pa.float64()) for name in (
            "gb_per_s", "mean_gb_per_s", "best_gb_per_s", "bandwidth_ratio", "link_gb_per_s", "free_gpus",
            "nvlink_domains", "pcie_switches", "sockets", "nodes", "leaves",
        )),
        *((name, pa.string()) for name in (
            "grade", "at", "spans", "best", "kind", "best_kind", "worst_level", "best_level", "levels", "best_gpus",
            "best_nodes", "not_known",
        )),
    ]
)  # fmt: skip


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes gang and gang_link (sql/topology/placement/gangs.sql) and gang_placement: a row is a gang that had a nearer choice."""
    bounds = {"gang_us": GANG_US, "devices_max": DEVICES_MAX, "gangs_max": GANGS_MAX}
    store.run("topology/placement/gangs", **scope.sql_parameters(), **bounds)
    gangs = [
        Gang(run_id, at_us, model, tuple(pools), tuple(gpus))
        for run_id, at_us, model, pools, gpus in store.sql("select run_id, at_us, model, pools, gpus from asked_gang")
    ]
    starts = {gang.run_id: gang for gang in gangs}
    ratio_min = float(scope.parameters["bandwidth_ratio_min"])
    fit = Fit(store, scope.cluster)
    rows = [
        _row(starts[run_id], placement, around) | {"not_known": fit.unknown.get(run_id)}
        for run_id, (placement, around) in farther(store, scope.cluster, gangs, fit).items()
        if _poor(placement, ratio_min)
    ]
    with store.view("placed_gang", pa.Table.from_pylist(rows, schema=_GANG)):
        store.run("topology/placement/gang_placement")


def _poor(found: Placement, ratio_min: float) -> bool:
    if found.grade in (None, "A") or found.best is None:
        return False
    if found.slowdown is None:
        if found.gb_per_s is not None and found.best.gb_per_s is not None:
            return False
        return found.grade in POOR_GRADES or found.where.kind not in NODE_KINDS
    return found.slowdown.bandwidth_ratio >= ratio_min


def _row(gang: Gang, found: Placement, around: Graph) -> dict[str, Any]:
    best, crossed = found.best, found.spread
    assert best is not None
    nodes = {node.name for gpu in best.gpus if (node := around.places[gpu].container("node")) is not None}
    link = facts(gang.model).link_bytes_per_s
    name = f" ({best.where.name})" if best.where.name else ""
    return {
        "run_id": gang.run_id,
        "gb_per_s": found.gb_per_s,
        "mean_gb_per_s": found.mean_gb_per_s,
        "best_gb_per_s": best.gb_per_s,
        "bandwidth_ratio": None if found.slowdown is None else found.slowdown.bandwidth_ratio,
        "link_gb_per_s": None if link is None else link / 1e9,
        "free_gpus": best.free,
        "nvlink_domains": crossed.nvlink_domains,
        "pcie_switches": crossed.pcie_switches,
        "sockets": crossed.sockets,
        "nodes": crossed.nodes,
        "leaves": crossed.leaves,
        "grade": found.grade,
        "at": rfc3339(gang.at_us),
        "spans": spans(found),
        "best": f"{place_words(best.where, crossed.nvlink_domains is not None)}{name}",
        "kind": found.where.kind,
        "best_kind": best.where.kind,
        "worst_level": found.worst,
        "best_level": farthest(around, best.gpus),
        "levels": ", ".join(f"{level} {share:.0%}" for level, share in found.levels.items()),
        "best_gpus": " ".join(best.gpus[:LISTED_GPUS_MAX]),
        "best_nodes": " ".join(sorted(nodes)[:LISTED_GPUS_MAX]),
    }
