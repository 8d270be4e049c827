"""Where the pieces of a defragmentation plan go, and in which order: each onto GPUs that are free when its turn comes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuwatch.hardware.defrag import Plan
from gpuwatch.hardware.rooms import NO_LIMITS, Host, Limits, Piece, Rooms, assigned, wanted


@dataclass(frozen=True)
class Destinations:
    """Each move with its target, in an order that works, and the nodes that the request then gets, one a member."""

    moves: tuple[tuple[Piece, str], ...]
    places: tuple[str, ...]
    at_once: bool = False
    """Whether some pieces take each other's places, so that they have to stop at the same time."""


def destinations(
    hosts: Sequence[Host], plan: Plan, gpus: int, members: int, limits: Limits = NO_LIMITS
) -> Destinations | None:
    """Targets for the moves of `plan` and places for the request; None if no assignment was found within the bounds.

    No node gets more than is free there and what leaves it, and no piece goes back to its own node.
    """
    items = wanted(plan.moves, gpus, members, limits)
    targets = assigned(hosts, items)
    if targets is None:
        return None
    places = tuple(sorted(target for item, target in zip(items, targets, strict=True) if not item.node))
    moves = [(item, target) for item, target in zip(items, targets, strict=True) if item.node]
    return _ordered(Rooms(hosts), moves, places)


def _ordered(rooms: Rooms, moves: Sequence[tuple[Piece, str]], places: tuple[str, ...]) -> Destinations:
    """The moves so that each finds its target free. Those that wait for one another come last, at once."""
    waiting, done = list(moves), list[tuple[Piece, str]]()
    while waiting:
        ready = next((one for one in waiting if rooms.takes(one[1], one[0].gpus, one[0].limits)), None)
        if ready is None:
            return Destinations((*done, *waiting), places, True)
        waiting.remove(ready)
        piece, target = ready
        rooms.take(target, piece.gpus, piece.limits)
        rooms.add(piece.node, piece.gpus, piece.limits)
        done.append(ready)
    return Destinations(tuple(done), places)
