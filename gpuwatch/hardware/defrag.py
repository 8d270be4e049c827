"""The cheapest moves that make room for a shape: which jobs leave which nodes, fewest GPUs first. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

EXACT_PIECES_MAX = 20
"""Pieces of jobs among which every choice is looked at; of more, only the pieces of one node at a time."""
CHOICES_MAX = 20_000
"""Choices that one search looks at."""
PACKINGS_MAX = 20_000
"""Arrangements of the GPUs that one choice moves which are looked at."""
SEARCHED_MAX = 100
"""Pieces of several sizes whose arrangements are searched; of more, one is tried: the largest first, each where least is left."""
NODE_PIECES_MAX = 12
"""Pieces of one node among which every choice is looked at: the smallest."""
TARGETS_MAX = 200
"""Nodes for whose pieces other places are looked for, one after another."""


@dataclass(frozen=True)
class Piece:
    """The GPUs that one run holds on one node: it moves as a whole, to one node."""

    node: str
    run: str
    gpus: int
    preemptible: bool = False
    stays: bool = False
    """Whether nothing may move it."""


@dataclass(frozen=True)
class Host:
    """A node whose GPUs are alike: how many are free, and who holds the others."""

    name: str
    free: int
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Pieces that move, and whether nothing cheaper exists."""

    moves: tuple[Piece, ...]
    exact: bool

    @property
    def gpus(self) -> int:
        """GPUs that are moved."""
        return sum(piece.gpus for piece in self.moves)

    @property
    def price(self) -> tuple[int, int, int]:
        """What is least: GPUs moved, those of them that cannot be preempted, pieces."""
        return _price(self.moves)


def plan(hosts: Sequence[Host], gpus: int, members: int = 1) -> Plan | None:
    """The moves after which `members` places of `gpus` GPUs each are free, and every moved piece has a place again.

    None: no moves that were looked at make room. Nothing to move where the shape fits already. Exact for up to
    EXACT_PIECES_MAX pieces within CHOICES_MAX; beyond that pieces of few nodes are cleared, nearest to room first. Raises
    ValueError for a shape of nothing.
    """
    if gpus < 1 or members < 1:
        raise ValueError(f"a shape of {members} places with {gpus} GPUs: expected 1 or more of each")
    if fits([host.free for host in hosts], [gpus] * members):
        return Plan((), True)
    if sum(host.free for host in hosts) < gpus * members:
        return None
    pieces = [piece for host in hosts for piece in host.pieces if not piece.stays]
    if len(pieces) <= EXACT_PIECES_MAX:
        exact = True
        for looked, moves in enumerate(_cheapest_first(pieces)):
            if looked >= CHOICES_MAX:
                break
            made = _makes_room(hosts, moves, gpus, members)
            if made:
                return Plan(moves, exact)
            exact = exact and made is not None
        else:
            if exact:
                return None
    return _cleared(hosts, gpus, members)


def fits(free: Iterable[int], wanted: Sequence[int]) -> bool | None:
    """Whether pieces of these sizes fit into nodes with so many free GPUs, each on one node. None: not found within bounds.

    Pieces of one size are counted, whatever their number.
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
        # The fullest node that takes it comes first; nodes with as much free are alike.
        for n, room in enumerate(bins):
            new = room >= sizes[at] and (n == 0 or bins[n - 1] != room)
            if new and place(tuple(sorted((*bins[:n], room - sizes[at], *bins[n + 1 :]))), at + 1):
                return True
        return False

    return place(bins, 0) or (None if budget[0] < 0 else False)


def _packs(bins: list[int], sizes: Iterable[int]) -> bool:
    """Whether sizes, the largest first, fit into sorted nodes, each put where least is left."""
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
    """Every choice of pieces once, cheapest first: a choice is extended by a later piece, or its last one is replaced."""
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


def _makes_room(hosts: Sequence[Host], moves: Sequence[Piece], gpus: int, members: int) -> bool | None:
    left = {host.name: host.free for host in hosts}
    for piece in moves:
        left[piece.node] += piece.gpus
    return fits(left.values(), [gpus] * members + [piece.gpus for piece in moves])


def _cleared(hosts: Sequence[Host], gpus: int, members: int) -> Plan | None:
    """One place more at a time, each on the node where it moves least; not exact."""
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
    """The node that is cleared most cheaply, what leaves it, and where to."""
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
    """Which pieces of (GPUs, preemptible) of one node make up what is lacking most cheaply; None: all do not."""
    if sum(gpus for gpus, _ in sizes) < lacking:
        return None
    pieces = [Piece("", str(n), gpus, preemptible) for n, (gpus, preemptible) in enumerate(sizes)]
    enough = (moves for moves in _cheapest_first(pieces) if sum(piece.gpus for piece in moves) >= lacking)
    return tuple(int(piece.run) for piece in next(enough))


def _targets(free: dict[str, int], moves: Sequence[Piece]) -> list[str] | None:
    """Where each piece goes: the largest first, each to the fullest node that takes it."""
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
    """Smallest first, of equals those that can be preempted."""
    return piece.gpus, not piece.preemptible, piece.run
