"""One node as the topology knows it: its GPUs, the containers around them, and the link of each pair."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.hardware.links import KINDS
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import missing

INNER = ("nvlink", "pcie", "numa")

Row = dict[str, Any]


def node_view(store: Store, cluster: str, node: str, at_us: int) -> Row | None:
    """The answer of GET /topology/node: GPUs with their containers in the node, the containers of the node, the level and
    GB/s of each pair of GPUs, and what no source reports, with the fix. None for an unknown node.
    """
    rows = store.rows("topology/node_edge", cluster=cluster, node=node, at_us=at_us)
    gpus: dict[str, Row] = {}
    cards: dict[str, Row] = defaultdict(lambda: dict.fromkeys(INNER))
    outer = []
    for row in rows:
        if row["child_kind"] == "gpu":
            gpu = gpus.setdefault(row["child"], {"gpu": row["child"], **dict.fromkeys(INNER)})
            if row["parent_kind"] in INNER:
                gpu[row["parent_kind"]] = row["parent"]
        elif row["child_kind"] == "nic" and row["parent_kind"] in (*INNER, "node"):
            cards[row["child"]][row["parent_kind"]] = row["parent"]
        elif row["child_kind"] == "node":
            speed = row["bandwidth_gb_per_s"]
            outer.append(
                {
                    "kind": row["parent_kind"],
                    "name": row["parent"],
                    "gb_per_s": None if speed is None else round(speed, 1),
                }
            )
    if not gpus and not outer:
        return None
    order = {kind: n for n, kind in enumerate(KINDS)}
    lacking = [row for row in missing(store, cluster) if row["node"] == node]
    return {
        "cluster": cluster,
        "node": node,
        "at": rfc3339(at_us),
        "gpus": [gpus[name] for name in sorted(gpus)],
        "network_cards": [
            {"name": name, "pcie": found["pcie"], "numa": found["numa"]} for name, found in sorted(cards.items())
        ],
        "inside": sorted(outer, key=lambda one: (order.get(one["kind"], len(order)), one["name"])),
        "pairs": [
            {
                "a": row["a"],
                "b": row["b"],
                "level": row["level"],
                "gb_per_s": None if row["bandwidth_gb_per_s"] is None else round(row["bandwidth_gb_per_s"], 1),
            }
            for row in store.rows("topology/node_pair", cluster=cluster, node=node, at_us=at_us)
        ],
        "missing": [{"what": row["what"], "fix": row["fix"]} for row in lacking],
    }


def gpus_inside(store: Store, cluster: str, kind: str, name: str, at_us: int) -> set[str]:
    """The GPUs in a container at an instant; a GPU is inside itself."""
    rows = store.rows("topology/inside", cluster=cluster, kind=kind, name=name, at_us=at_us)
    return {row["gpu"] for row in rows}
