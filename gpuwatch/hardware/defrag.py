"""The cheapest moves that defragment nodes for a job shape: which jobs leave which nodes, fewest GPUs first. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

EXACT_PIECES_MAX = 20
"""The most pieces for an exhaustive search; with more, only the pieces of one node at a time are searched."""
CHOICES_MAX = 20_000
"""The most choices that a search examines."""
PACKINGS_MAX = 20_000
"""The most arrangements that are examined for the moved GPUs of a choice."""
SEARCHED_MAX = 100
"""The most pieces of different sizes whose arrangements are searched; with more, only best-fit decreasing is tried."""
NODE_PIECES_MAX = 12
"""The most pieces of a node whose choices are all examined; the smallest are used."""
TARGETS_MAX = 200
"""The most nodes that are tried, one after another."""


@dataclass(frozen=True)
class Piece:
    """The GPUs that a run holds on a node; they move together, to one other node."""

    node: str
    run: str
    gpus: int
    preemptible: bool = False
    stays: bool = False
    """Whether it must not be moved."""


@dataclass(frozen=True)
class Host:
    """A node with identical GPUs: how many are free, and which runs hold the others."""

    name: str
    free: int
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The pieces to move, and whether this is certainly the cheapest plan."""

    moves: tuple[Piece, ...]
    exact: bool

    @property
    def gpus(self) -> int:
        """The number of moved GPUs."""
        return sum(piece.gpus for piece in self.moves)

    @property
    def price(self) -> tuple[int, int, int]:
        """The cost that is minimized: moved GPUs, those that cannot be preempted, number of pieces."""
        return _price(self.moves)


def plan(hosts: Sequence[Host], gpus: int, members: int = 1) -> Plan | None:
    """The moves after which `members` places of `gpus` GPUs each are free, and all moved pieces are placed again.

    None if no examined moves suffice; an empty plan if the shape already fits. Exact for up to EXACT_PIECES_MAX pieces
    within CHOICES_MAX choices; beyond that nodes are cleared one at a time, the cheapest first. Raises ValueError for
    an empty shape.
    """
    if gpus < 1 or members < 1:
        raise ValueError(f"a shape of {members} places with {gpus} GPUs: expected 1 or more of each")
    if fits([host.free for host in hosts], [gpus] * members):
        return Plan((), True)
    if sum(host.free for host in hosts) < gpus * members:
        return None
    pieces = [piece for host in hosts for piece in host.pieces if not piece.stays]
    if len(pieces) <= EXACT_PIECES_MAX:
        found, final = _searched(hosts, pieces, gpus, members)
        if found or final:
            return found
    return _cleared(hosts, gpus, members)


def _searched(hosts: Sequence[Host], pieces: Sequence[Piece], gpus: int, members: int) -> tuple[Plan | None, bool]:
    """The cheapest plan among all choices of pieces, and whether the search was complete if there is none."""
    exact = True
    for examined, moves in enumerate(_cheapest_first(pieces)):
        if examined >= CHOICES_MAX:
            return None, False
        suffices = _suffices(hosts, moves, gpus, members)
        if suffices:
            return Plan(moves, exact), True
        exact = exact and suffices is not None
    return None, exact


def fits(free: Iterable[int], wanted: Sequence[int]) -> bool | None:
    """Whether pieces of these sizes fit into nodes with `free` GPUs, each on one node; None if the search was cut off.

    Any number of pieces of the same size is decided exactly.
    """
    sizes = sorted(wanted, reverse=True)
    bins = tuple(sorted(room for room in free if room))
    if sum(bins) < sum(sizes):
        return False
    if len(set(sizes)) <= 1:
        return not sizes or sum(room // sizes[0] for room in bins) >= len(sizes)
    if len(sizes) > SEARCHED_MAX:
        return _packs(list(bins), sizes) or None
    budget = [PACKINGS_MAX]

    @lru_cache(PACKINGS_MAX)
    def place(bins: tuple[int, ...], at: int) -> bool:
        if at == len(sizes):
            return True
        budget[0] -= 1
        if budget[0] < 0:
            return False
        # The fullest suitable node comes first; nodes with equally many free GPUs are equivalent.
        for n, room in enumerate(bins):
            new = room >= sizes[at] and (n == 0 or bins[n - 1] != room)
            if new and place(tuple(sorted((*bins[:n], room - sizes[at], *bins[n + 1 :]))), at + 1):
                return True
        return False

    return place(bins, 0) or (None if budget[0] < 0 else False)


def _packs(bins: list[int], sizes: Iterable[int]) -> bool:
    """Whether the sizes, in descending order, fit into sorted nodes by best fit."""
    for size in sizes:
        at = bisect_left(bins, size)
        if at == len(bins):
            return False
        insort(bins, bins.pop(at) - size)
    return True


def _price(moves: Iterable[Piece]) -> tuple[int, int, int]:
    some = list(moves)
    return sum(p.gpus for p in some), sum(p.gpus for p in some if not p.preemptible), len(some)


def _cheapest_first(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Yields every set of pieces once, cheapest first: a set is extended by a later piece, or its last one is replaced."""
    order = sorted(pieces, key=lambda p: (_price([p]), p.node, p.run))
    if not order:
        return
    queue: list[tuple[tuple[int, int, int], tuple[int, ...]]] = [(_price(order[:1]), (0,))]
    while queue:
        _, chosen = heapq.heappop(queue)
        yield tuple(order[n] for n in chosen)
        after = chosen[-1] + 1
        if after < len(order):
            for more in ((*chosen, after), (*chosen[:-1], after)):
                heapq.heappush(queue, (_price(order[n] for n in more), more))


def _suffices(hosts: Sequence[Host], moves: Sequence[Piece], gpus: int, members: int) -> bool | None:
    left = {host.name: host.free for host in hosts}
    for piece in moves:
        left[piece.node] += piece.gpus
    return fits(left.values(), [gpus] * members + [piece.gpus for piece in moves])


def _cleared(hosts: Sequence[Host], gpus: int, members: int) -> Plan | None:
    """Clears one place at a time, on the node with the cheapest moves; not exact."""
    free = {host.name: host.free for host in hosts}
    staying = {host.name: [piece for piece in host.pieces if not piece.stays] for host in hosts}
    moved: list[Piece] = []
    for _ in range(members):
        ready = [name for name in free if free[name] >= gpus]
        if ready:
            name = min(ready, key=lambda one: (free[one], one))
        else:
            found = _next_place(free, staying, gpus)
            if found is None:
                return None
            name, moves, places = found
            for piece, target in zip(moves, places, strict=True):
                free[target] -= piece.gpus
                staying[name].remove(piece)
                free[name] += piece.gpus
                moved.append(piece)
        free[name] -= gpus
    return Plan(tuple(sorted(moved, key=lambda p: (p.node, p.run))), False)


def _next_place(
    free: dict[str, int], staying: dict[str, list[Piece]], gpus: int
) -> tuple[str, tuple[Piece, ...], list[str]] | None:
    """The node that is cheapest to clear, the pieces that leave it, and their targets."""
    options: list[tuple[tuple[int, int, int], str, tuple[Piece, ...]]] = []
    for name, pieces in staying.items():
        small = sorted(pieces, key=_order)[:NODE_PIECES_MAX]
        chosen = _fewest(tuple((piece.gpus, piece.preemptible) for piece in small), gpus - free[name])
        if chosen is not None:
            moves = tuple(small[n] for n in chosen)
            options.append((_price(moves), name, moves))
    for _, name, moves in sorted(options, key=lambda option: option[:2])[:TARGETS_MAX]:
        targets = _targets({other: room for other, room in free.items() if other != name}, moves)
        if targets is not None:
            return name, moves, targets
    return None


@lru_cache(CHOICES_MAX)
def _fewest(sizes: tuple[tuple[int, bool], ...], lacking: int) -> tuple[int, ...] | None:
    """The cheapest pieces (GPUs, preemptible) of a node that free the lacking GPUs; None if all are not enough."""
    if sum(gpus for gpus, _ in sizes) < lacking:
        return None
    pieces = [Piece("", str(n), gpus, preemptible) for n, (gpus, preemptible) in enumerate(sizes)]
    enough = (moves for moves in _cheapest_first(pieces) if sum(piece.gpus for piece in moves) >= lacking)
    return tuple(int(piece.run) for piece in next(enough))


def _targets(free: dict[str, int], moves: Sequence[Piece]) -> list[str] | None:
    """A target for each piece: the largest first, each to the fullest node with enough free GPUs."""
    left, found = dict(free), {}
    for piece in sorted(moves, key=_order, reverse=True):
        ready = [name for name, room in left.items() if room >= piece.gpus]
        if not ready:
            return None
        name = min(ready, key=lambda one: (left[one], one))
        left[name] -= piece.gpus
        found[piece] = name
    return [found[piece] for piece in moves]


def _order(piece: Piece) -> tuple[int, bool, str]:
    """Sorts the smallest first, and preemptible ones first among equals."""
    return piece.gpus, not piece.preemptible, piece.run
