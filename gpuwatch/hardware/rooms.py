"""What is left on nodes while jobs leave them and others come: GPUs, CPUs and memory, each where it is known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PACKINGS_MAX = 20_000
"""The most arrangements that are examined for the moved GPUs of a choice."""
SEARCHED_MAX = 100
"""The most pieces of different sizes whose arrangements are searched; with more, only best-fit decreasing is tried."""

Amounts = tuple[int | None, int | None]
"""Thousandths of CPUs and bytes of memory; None: not known."""
NOT_KNOWN: Amounts = (None, None)


@dataclass(frozen=True)
class Limits:
    """What a job needs on a node beside GPUs, and the nodes that it may not use."""

    needs: Amounts = NOT_KNOWN
    barred: frozenset[str] = frozenset()


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Piece:
    """The GPUs that a run holds on a node; they move together, to one other node."""

    node: str
    run: str
    gpus: int
    preemptible: bool = False
    stays: bool = False
    """Whether it must not be moved."""
    limits: Limits = NO_LIMITS


@dataclass(frozen=True)
class Host:
    """A node with identical GPUs: how many are free, and which runs hold the others."""

    name: str
    free: int
    pieces: tuple[Piece, ...] = ()
    room: Amounts = NOT_KNOWN
    """What is free of its CPUs and memory."""


def limited(hosts: Iterable[Host], limits: Limits) -> bool:
    """Whether anything but GPUs could keep a piece, or a member with these limits, away from a node."""
    some = list(hosts)
    asked = [limits, *(piece.limits for host in some for piece in host.pieces)]
    return any(one.barred for one in asked) or any(
        any(host.room[n] is not None for host in some) and any(one.needs[n] for one in asked) for n in (0, 1)
    )


class Rooms:
    """What is left on each node."""

    def __init__(self, hosts: Iterable[Host] = ()) -> None:
        some = list(hosts)
        self.gpus = {host.name: host.free for host in some}
        self.room: dict[str, Amounts] = {host.name: host.room for host in some}

    def copy(self) -> Rooms:
        """The same, to try something on."""
        found = Rooms()
        found.gpus, found.room = dict(self.gpus), dict(self.room)
        return found

    def without(self, name: str) -> Rooms:
        """A copy that lacks a node."""
        found = self.copy()
        del found.gpus[name], found.room[name]
        return found

    def takes(self, name: str, gpus: int, limits: Limits) -> bool:
        """Whether a node has place for so many GPUs of a job. What is not known keeps nobody away."""
        if self.gpus[name] < gpus or name in limits.barred:
            return False
        (cpu, memory), (cpu_need, memory_need) = self.room[name], limits.needs
        return (cpu is None or cpu >= (cpu_need or 0)) and (memory is None or memory >= (memory_need or 0))

    def add(self, name: str, gpus: int, limits: Limits) -> None:
        """What a job leaves free; with -1 times its GPUs and needs, what it takes."""
        self.gpus[name] += gpus
        (cpu, memory), (cpu_need, memory_need) = self.room[name], limits.needs
        self.room[name] = (
            None if cpu is None else cpu + (cpu_need or 0),
            None if memory is None else memory + (memory_need or 0),
        )

    def take(self, name: str, gpus: int, limits: Limits) -> None:
        """What a job takes."""
        cpu, memory = limits.needs
        self.add(name, -gpus, Limits((-(cpu or 0), -(memory or 0))))

    def tightest(self, gpus: int, limits: Limits, home: str | None = None) -> str | None:
        """The node with the fewest free GPUs that has place, other than `home`; None: no node has."""
        ready = [(left, name) for name, left in self.gpus.items() if name != home and self.takes(name, gpus, limits)]
        return min(ready)[1] if ready else None


def wanted(moves: Iterable[Piece], gpus: int, members: int, limits: Limits) -> list[Piece]:
    """The members of a request, pieces of no node, and the pieces that make room for them, the largest first."""
    items = [Piece("", "", gpus, limits=limits)] * members + list(moves)
    return sorted(items, key=lambda item: (-item.gpus, item.node != "", item.node, item.run))


def assigned(hosts: Iterable[Host], items: Sequence[Piece], budget: list[int] | None = None) -> list[str] | None:
    """A node for each item, where all of them have place once those that are on a node have left it; None if none was found within the
    bounds. `budget`: steps that are left for this and further searches. No piece goes back to its own node.
    """
    rooms = Rooms(hosts)
    for item in items:
        if item.node:
            rooms.add(item.node, item.gpus, item.limits)
    found = _best_fit(rooms.copy(), items)
    if found is None and len(items) <= SEARCHED_MAX:
        found = _searched(rooms, items, [PACKINGS_MAX] if budget is None else budget)
    return found


def _best_fit(rooms: Rooms, items: Iterable[Piece]) -> list[str] | None:
    """The fullest node that takes each item, the largest item first."""
    targets = []
    for item in items:
        name = rooms.tightest(item.gpus, item.limits, item.node)
        if name is None:
            return None
        rooms.take(name, item.gpus, item.limits)
        targets.append(name)
    return targets


def _searched(rooms: Rooms, items: Sequence[Piece], budget: list[int]) -> list[str] | None:
    """An assignment by trying the nodes of each item in turn, within the steps of the budget."""
    targets = list[str]()
    barred = frozenset[str]().union(*(item.limits.barred for item in items))

    def place(at: int) -> bool:
        if at == len(items):
            return True
        item = items[at]
        tried: set[tuple[int, Amounts]] = set()
        for name in sorted(rooms.gpus, key=lambda one: (rooms.gpus[one], one)):
            # Nodes with as much left are equivalent, unless one is the home of a piece that still has to leave, or not for all.
            state = rooms.gpus[name], rooms.room[name]
            known = state in tried and name not in barred and all(later.node != name for later in items[at:])
            if name == item.node or known or not rooms.takes(name, item.gpus, item.limits):
                continue
            if name not in barred:
                tried.add(state)
            budget[0] -= 1
            if budget[0] < 0:
                return False
            rooms.take(name, item.gpus, item.limits)
            targets.append(name)
            if place(at + 1):
                return True
            targets.pop()
            rooms.add(name, item.gpus, item.limits)
        return False

    return targets if place(0) else None
