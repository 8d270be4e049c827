"""Where the pieces of a defragmentation plan go, and in which order: each onto GPUs that are free when its turn comes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuwatch.hardware.defrag import PACKINGS_MAX, SEARCHED_MAX, Host, Piece, Plan


@dataclass(frozen=True)
class Destinations:
    """Each move with its target, in an order that works, and the nodes that the request then gets, one a member."""

    moves: tuple[tuple[Piece, str], ...]
    places: tuple[str, ...]
    at_once: bool = False
    """Whether some pieces take each other's places, so that they have to stop at the same time."""


_Item = tuple[int, str | None, Piece | None]
"""(GPUs, the node that it leaves, the piece): without a piece a member of the request."""


def destinations(hosts: Sequence[Host], plan: Plan, gpus: int, members: int) -> Destinations | None:
    """Targets for the moves of `plan` and places for the request; None if no assignment was found within the bounds.

    No node gets more than its free GPUs and those that leave it, and no piece goes back to its own node.
    """
    free = {host.name: host.free for host in hosts}
    room = dict(free)
    for piece in plan.moves:
        room[piece.node] += piece.gpus
    items: list[_Item] = [(gpus, None, None)] * members + [(piece.gpus, piece.node, piece) for piece in plan.moves]
    items.sort(key=lambda item: (-item[0], item[2] is not None, item[1] or "", "" if item[2] is None else item[2].run))
    targets = _best_fit(room, items)
    if targets is None and len(items) <= SEARCHED_MAX:
        targets = _searched(room, items)
    if targets is None:
        return None
    places = tuple(sorted(target for item, target in zip(items, targets, strict=True) if item[2] is None))
    moves = [(item[2], target) for item, target in zip(items, targets, strict=True) if item[2] is not None]
    return _ordered(free, moves, places)


def _best_fit(room: Mapping[str, int], items: Sequence[_Item]) -> list[str] | None:
    """The fullest node that takes each item, the largest item first."""
    left, targets = dict(room), []
    for size, home, _ in items:
        ready = [(left[name], name) for name in left if left[name] >= size and name != home]
        if not ready:
            return None
        name = min(ready)[1]
        left[name] -= size
        targets.append(name)
    return targets


def _searched(room: Mapping[str, int], items: Sequence[_Item]) -> list[str] | None:
    """An assignment by trying the nodes of each item in turn, within PACKINGS_MAX steps."""
    left, targets = dict(room), list[str]()
    budget = [PACKINGS_MAX]

    def place(at: int) -> bool:
        if at == len(items):
            return True
        size, home, _ = items[at]
        tried: set[int] = set()
        for name in sorted(left, key=lambda one: (left[one], one)):
            # Nodes with equally many free GPUs are equivalent, unless one is the home of a piece that still has to leave.
            known = left[name] in tried and all(later[1] != name for later in items[at:])
            if left[name] < size or name == home or known:
                continue
            tried.add(left[name])
            budget[0] -= 1
            if budget[0] < 0:
                return False
            left[name] -= size
            targets.append(name)
            if place(at + 1):
                return True
            targets.pop()
            left[name] += size
        return False

    return targets if place(0) else None


def _ordered(free: Mapping[str, int], moves: Sequence[tuple[Piece, str]], places: tuple[str, ...]) -> Destinations:
    """The moves so that each finds its target free. Those that wait for one another come last, at once."""
    left, waiting, done = dict(free), list(moves), list[tuple[Piece, str]]()
    while waiting:
        ready = next((one for one in waiting if left[one[1]] >= one[0].gpus), None)
        if ready is None:
            return Destinations((*done, *waiting), places, True)
        waiting.remove(ready)
        left[ready[1]] -= ready[0].gpus
        left[ready[0].node] += ready[0].gpus
        done.append(ready)
    return Destinations(tuple(done), places)
