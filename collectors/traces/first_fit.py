"""Assigns the first free GPUs to jobs of traces without placements. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

STAND_IN_GPUS = 8


@dataclass
class FirstFit:
    """Nodes in order with their free GPUs; stand-ins with STAND_IN_GPUS GPUs are added when all are in use.

    The total in use is right, but the placement is not: rows made from it are labelled as estimates.
    """

    stand_in: Callable[[int], str]
    """Returns the name of the n-th stand-in node."""
    nodes: Sequence[tuple[str, int]] = ()
    """The nodes in the trace, with their GPUs."""
    _names: list[str] = field(init=False)
    _free: list[int] = field(init=False)
    _busy: list[tuple[int, int, int]] = field(default_factory=list, init=False)
    """(end, node, GPUs) of running jobs, the earliest end first."""
    _added: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._names = [name for name, _ in self.nodes]
        self._free = [gpus for _, gpus in self.nodes]

    def place(self, start_us: int, end_us: int, gpus: int, one_node: bool = False) -> list[tuple[str, int]]:
        """Places a job of [start_us, end_us) as (node, GPUs); calls must be in order of start.

        A job for one node gets the first one with enough free GPUs, if necessary a stand-in of its own size.
        """
        while self._busy and self._busy[0][0] <= start_us:
            _, node, held = heapq.heappop(self._busy)
            self._free[node] += held
        taken = self._whole(gpus) if one_node else self._spread(gpus)
        for node, count in taken:
            self._free[node] -= count
            heapq.heappush(self._busy, (end_us, node, count))
        return [(self._names[node], count) for node, count in taken]

    def _whole(self, gpus: int) -> list[tuple[int, int]]:
        node = next((at for at, free in enumerate(self._free) if free >= gpus), None)
        return [(self._add(max(gpus, STAND_IN_GPUS)) if node is None else node, gpus)]

    def _spread(self, gpus: int) -> list[tuple[int, int]]:
        taken, left, node = [], gpus, 0
        while left:
            if node == len(self._free):
                self._add(STAND_IN_GPUS)
            if count := min(left, self._free[node]):
                taken.append((node, count))
                left -= count
            node += 1
        return taken

    def _add(self, gpus: int) -> int:
        self._names.append(self.stand_in(self._added))
        self._free.append(gpus)
        self._added += 1
        return len(self._free) - 1
