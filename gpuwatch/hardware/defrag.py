"""The cheapest moves that defragment nodes for a job shape: which jobs leave which nodes, fewest GPUs first. Pure."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuwatch.hardware.rooms import (
    NO_LIMITS,
    PACKINGS_MAX,
    SEARCHED_MAX,
    Host,
    Limits,
    Piece,
    Rooms,
    assigned,
    limited,
    wanted,
)

EXACT_PIECES_MAX = 20
"""The most pieces for an exhaustive search; with more, only the pieces of one node at a time are searched."""
CHOICES_MAX = 20_000
"""The most choices that a search examines."""
NODE_PIECES_MAX = 12
"""The most pieces of a node whose choices are all examined; the smallest are used."""
TARGETS_MAX = 200
"""The most nodes that are tried, one after another."""
LIMITED_MAX = 500
"""The most choices whose pieces are placed by CPUs, memory and rules too."""


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


def plan(hosts: Sequence[Host], gpus: int, members: int = 1, limits: Limits = NO_LIMITS) -> Plan | None:
    """The moves after which `members` places of `gpus` GPUs each are free, and all moved pieces are placed again.

    `limits`: of each member. None if no examined moves suffice; an empty plan if the shape already fits. Exact for up to
    EXACT_PIECES_MAX pieces within CHOICES_MAX choices; beyond that nodes are cleared one at a time, the cheapest first. Raises
    ValueError for an empty shape.
    """
    if gpus < 1 or members < 1:
        raise ValueError(f"a shape of {members} places with {gpus} GPUs: expected 1 or more of each")
    check = _Check(hosts, gpus, members, limits)
    if check.suffices(()):
        return Plan((), True)
    if sum(host.free for host in hosts) < gpus * members:
        return None
    pieces = [piece for host in hosts for piece in host.pieces if not piece.stays]
    if len(pieces) <= EXACT_PIECES_MAX:
        found, final = _searched(check, pieces)
        if found or final:
            return found
    return _cleared(hosts, gpus, members, limits)


class _Check:
    """Whether a request fits once some pieces have moved."""

    def __init__(self, hosts: Sequence[Host], gpus: int, members: int, limits: Limits) -> None:
        self._hosts, self._gpus, self._members, self._limits = hosts, gpus, members, limits
        self._limited = limited(hosts, limits)
        self._budget, self._tries = [PACKINGS_MAX], LIMITED_MAX

    def suffices(self, moves: Sequence[Piece]) -> bool | None:
        """None: the search was cut off."""
        left = {host.name: host.free for host in self._hosts}
        for piece in moves:
            left[piece.node] += piece.gpus
        found = fits(left.values(), [self._gpus] * self._members + [piece.gpus for piece in moves])
        if not (found and self._limited):
            return found
        self._tries -= 1
        if self._tries < 0:
            return None
        items = wanted(moves, self._gpus, self._members, self._limits)
        if assigned(self._hosts, items, self._budget) is not None:
            return True
        return None if self._budget[0] < 0 or len(items) > SEARCHED_MAX else False


def _searched(check: _Check, pieces: Sequence[Piece]) -> tuple[Plan | None, bool]:
    """The cheapest plan among all choices of pieces, and whether the search was complete if there is none."""
    exact = True
    for examined, moves in enumerate(_cheapest_first(pieces)):
        if examined >= CHOICES_MAX:
            return None, False
        suffices = check.suffices(moves)
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


def _cleared(hosts: Sequence[Host], gpus: int, members: int, limits: Limits) -> Plan | None:
    """Clears one place at a time, on the node with the cheapest moves; not exact."""
    rooms = Rooms(hosts)
    staying = {host.name: [piece for piece in host.pieces if not piece.stays] for host in hosts}
    moved: list[Piece] = []
    for _ in range(members):
        name = rooms.tightest(gpus, limits)
        if name is None:
            found = _next_place(rooms, staying, gpus, limits)
            if found is None:
                return None
            name, moves, places = found
            for piece, target in zip(moves, places, strict=True):
                rooms.take(target, piece.gpus, piece.limits)
                staying[name].remove(piece)
                rooms.add(name, piece.gpus, piece.limits)
                moved.append(piece)
        rooms.take(name, gpus, limits)
    return Plan(tuple(sorted(moved, key=lambda p: (p.node, p.run))), False)


def _next_place(
    rooms: Rooms, staying: dict[str, list[Piece]], gpus: int, limits: Limits
) -> tuple[str, tuple[Piece, ...], list[str]] | None:
    """The node that is cheapest to clear, the pieces that leave it, and their targets."""
    options: list[tuple[tuple[int, int, int], str, tuple[Piece, ...]]] = []
    for name, pieces in staying.items():
        if name in limits.barred:
            continue
        small = sorted(pieces, key=_order)[:NODE_PIECES_MAX]
        lacking = gpus - rooms.gpus[name], *_lacking(rooms, name, limits)
        sizes = tuple((piece.gpus, piece.preemptible, *(need or 0 for need in piece.limits.needs)) for piece in small)
        chosen = _fewest(sizes, lacking)
        if chosen is not None:
            moves = tuple(small[n] for n in chosen)
            options.append((_price(moves), name, moves))
    for _, name, moves in sorted(options, key=lambda option: option[:2])[:TARGETS_MAX]:
        targets = _targets(rooms.without(name), moves)
        if targets is not None:
            return name, moves, targets
    return None


def _lacking(rooms: Rooms, name: str, limits: Limits) -> list[int]:
    """How many CPUs and how much memory a node lacks for a member, 0 where that is not known."""
    pairs = zip(rooms.room[name], limits.needs, strict=True)
    return [0 if has is None else max((need or 0) - has, 0) for has, need in pairs]


@lru_cache(CHOICES_MAX)
def _fewest(sizes: tuple[tuple[int, bool, int, int], ...], lacking: tuple[int, ...]) -> tuple[int, ...] | None:
    """The cheapest pieces (GPUs, preemptible, CPUs, memory) of a node that free what is lacking; None if all are not enough."""
    amounts = [(size[0], size[2], size[3]) for size in sizes]
    if any(sum(amount[n] for amount in amounts) < least for n, least in enumerate(lacking)):
        return None
    pieces = [Piece("", str(n), gpus, preemptible) for n, (gpus, preemptible, _, _) in enumerate(sizes)]
    enough = (
        moves
        for moves in _cheapest_first(pieces)
        if all(sum(amounts[int(piece.run)][n] for piece in moves) >= least for n, least in enumerate(lacking))
    )
    return tuple(int(piece.run) for piece in next(enough))


def _targets(rooms: Rooms, moves: Sequence[Piece]) -> list[str] | None:
    """A target for each piece: the largest first, each to the fullest node with place for it."""
    found = {}
    for piece in sorted(moves, key=_order, reverse=True):
        name = rooms.tightest(piece.gpus, piece.limits)
        if name is None:
            return None
        rooms.take(name, piece.gpus, piece.limits)
        found[piece] = name
    return [found[piece] for piece in moves]


def _order(piece: Piece) -> tuple[int, bool, str]:
    """Sorts the smallest first, and preemptible ones first among equals."""
    return piece.gpus, not piece.preemptible, piece.run
