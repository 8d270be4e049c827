"""Nodes that taints keep a gang away from."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuwatch.store.database import Store

Taints = frozenset[tuple[str, str, str]]


@dataclass(frozen=True)
class Span:
    """A node's taints for a time; `end_us` None: until now."""

    node: str
    taints: Taints
    start_us: int
    end_us: int | None


class TaintedNodes:
    """The tainted nodes of a cluster over time.

    A pod tolerates the taints of the nodes that it runs on. What else it tolerates is not recorded, so a node with another
    taint is no free place for it.
    """

    def __init__(self, store: Store, cluster: str) -> None:
        rows = store.rows("topology/placement/tainted", cluster=cluster)
        self._spans = [Span(row["node"], _read(row["taints"]), row["start_us"], row["end_us"]) for row in rows]

    def at(self, at_us: int) -> dict[str, Taints]:
        """The taints of each tainted node at an instant."""
        there = [s for s in self._spans if s.start_us <= at_us and (s.end_us is None or at_us < s.end_us)]
        return {span.node: span.taints for span in there if span.taints}

    def barred(self, own: Collection[str], at_us: int) -> frozenset[str]:
        """Nodes with a taint at this instant that none of a gang's `own` nodes has."""
        there = [s for s in self._spans if s.start_us <= at_us and (s.end_us is None or at_us < s.end_us)]
        tolerated = frozenset[tuple[str, str, str]]().union(*(s.taints for s in there if s.node in own))
        return frozenset(s.node for s in there if s.node not in own and not s.taints <= tolerated)


def untainted(names: Sequence[str], taints: Mapping[str, Taints]) -> set[str]:
    """The nodes whose taints all of these nodes have."""
    common = frozenset.intersection(*(taints.get(name, frozenset()) for name in names)) if names else frozenset()
    return {name for name in names if taints.get(name, frozenset()) <= common}


@lru_cache(maxsize=1024)
def _read(taints: str) -> Taints:
    return frozenset((str(key), str(value), str(effect)) for key, value, effect in json.loads(taints))
