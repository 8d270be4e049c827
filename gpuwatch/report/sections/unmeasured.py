"""The nodes on which most of the held GPU time of a period was not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

from gpuwatch.core.clock import Window
from gpuwatch.store.database import Store

NODES_NAMED = 4
PART_MIN = Decimal("0.05")
"""A node with a smaller part of the unmeasured time is not named."""

Nodes = Mapping[str | None, Sequence[tuple[str, Decimal]]]
"""By team (None: the fleet): its nodes with their unmeasured GPU-seconds, the most first."""


def unmeasured_nodes(store: Store, window: Window) -> Nodes:
    """The nodes of each team and of the fleet. Time on a node that is not known is left out."""
    found: dict[str | None, dict[str, Decimal]] = defaultdict(dict)
    for row in store.rows("report/unmeasured", start_us=window.start_us, end_us=window.end_us):
        seconds = Decimal(str(row["gpu_seconds"]))
        for owner in (row["team"], None):
            found[owner][row["node"]] = found[owner].get(row["node"], Decimal(0)) + seconds
    return {owner: _most(nodes) for owner, nodes in found.items()}


def _most(nodes: Mapping[str, Decimal]) -> list[tuple[str, Decimal]]:
    """Nodes that a few minutes are missing of need no fix."""
    least = sum(nodes.values(), Decimal(0)) * PART_MIN
    kept = [one for one in nodes.items() if one[1] >= least]
    return sorted(kept, key=lambda one: (-one[1], one[0]))
