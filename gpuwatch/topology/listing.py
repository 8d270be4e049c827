"""The topology as the API lists it: items and their containers, missing facts, and conflicts between sources."""

from __future__ import annotations

from typing import Any

from gpuwatch.core.clock import rfc3339
from gpuwatch.hardware.links import KINDS, NODE_KINDS
from gpuwatch.store.database import Store
from gpuwatch.topology.gaps import conflicts, missing

MISSING_MAX = 200
"""Nodes without topology, and nodes that sources place differently, that one answer names; the rest are counted."""
LEVELS = [{"kind": kind, "inside_node": kind in NODE_KINDS} for kind in KINDS]


def items(store: Store, cluster: str | None, at_us: int, limit: int, offset: int) -> dict[str, Any]:
    """The answer of GET /topology with `next_offset` (None at the end): things by cluster, kind and name.

    `missing` and `conflicts` are always the current ones, whatever instant is requested.
    """
    rows = store.rows(
        "topology/items", cluster=cluster, at_us=at_us, kinds=list(KINDS), limit_rows=limit + 1, offset_rows=offset
    )
    lacking, differing = missing(store, cluster), conflicts(store, cluster)
    return {
        "items": [_item(row) for row in rows[:limit]],
        "at": rfc3339(at_us),
        "levels": LEVELS,
        "missing": lacking[:MISSING_MAX],
        "more_missing": max(len(lacking) - MISSING_MAX, 0),
        "conflicts": [_conflict(row) for row in differing[:MISSING_MAX]],
        "more_conflicts": max(len(differing) - MISSING_MAX, 0),
        "next_offset": offset + limit if len(rows) > limit else None,
    }


def _item(row: dict[str, Any]) -> dict[str, Any]:
    parent = None if row["parent"] is None else f"{row['parent_kind']}:{row['parent']}"
    return {
        "cluster": row["cluster"],
        "id": f"{row['child_kind']}:{row['child']}",
        "kind": row["child_kind"],
        "name": row["child"],
        "parent": parent,
        "parent_kind": row["parent_kind"],
        "level": row["level"],
        "bandwidth_gb_per_s": None if row["bandwidth_gb_per_s"] is None else round(row["bandwidth_gb_per_s"], 1),
        "nearest": row["nearest"],
        "source": row["source"],
        "observed_at": _time(row["observed_us"]),
        "valid_from": _time(row["valid_from_us"]),
        "valid_until": _time(row["valid_until_us"]),
    }


def _conflict(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster": row["cluster"],
        "node": row["child"],
        "kind": row["parent_kind"],
        "parent": row["parent"],
        "source": row["source"],
        "told": row["told"],
        "told_source": row["told_source"],
    }


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else rfc3339(at_us)
