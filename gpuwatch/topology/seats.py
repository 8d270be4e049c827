"""Where a set of GPUs lies: the nearest container that holds all of it. Pure.

The location of a set is the nearest kind of container that holds all of it (LADDER), and its number of parts: NVLink domains
inside a node, nodes (or NVLink domains over nodes) beyond. Fewer of both is nearer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gpuwatch.hardware.link_graph import Graph, Place
from gpuwatch.hardware.links import NODE_KINDS, NVLINK_KINDS, OUTER_KINDS, board

LADDER = ("nvlink", *NODE_KINDS[2:], *(kind for kind in OUTER_KINDS if kind not in NVLINK_KINDS))
"""Containers, nearest first; `nvlink` is an island of a node, or a domain over nodes for models that have such."""
BEYOND = "network"
"""The place of a set that no known container holds."""


@dataclass(frozen=True)
class Seat:
    """A GPU and its containers, by kind of LADDER; unknown ones are left out."""

    gpu: str
    around: Mapping[str, str]
    unit: str | None
    """The largest unit within which no network is needed: its NVLink domain over nodes, else its node."""
    island: str | None
    """Its NVLink domain; itself where it is linked with none; None unknown."""


@dataclass(frozen=True)
class Where:
    """The location of a set of GPUs."""

    kind: str
    """Of LADDER, or BEYOND."""
    name: str | None
    parts: int

    @property
    def rank(self) -> tuple[int, int]:
        """Smaller is nearer."""
        return (LADDER.index(self.kind) if self.kind in LADDER else len(LADDER)), self.parts


@dataclass(frozen=True)
class Spread:
    """How many of each container a set crosses; None where it is not known of one of its GPUs, or none has NVLink."""

    nvlink_domains: int | None
    pcie_switches: int | None
    sockets: int | None
    nodes: int | None
    leaves: int | None


def seats(graph: Graph, gpus: Iterable[str], model: str | None) -> dict[str, Seat]:
    """Seats of those GPUs that have a place. An NVLink domain over nodes counts for models whose NVLink leaves the node."""
    wide = board(model).multi_node
    paired = {gpu for pair in graph.pairs for gpu in pair}
    found = {}
    for gpu in sorted(set(gpus)):
        place = graph.places.get(gpu)
        if place is not None:
            found[gpu] = _seat(place, wide, gpu in paired)
    return found


def _seat(place: Place, wide: bool, paired: bool) -> Seat:
    names: dict[str, str] = {}
    for inside in place.path:
        names.setdefault(inside.kind, inside.name)
    domain = names.get("nvlink_domain") if wide else None
    around = {kind: names[kind] for kind in LADDER if kind in names}
    if domain is not None:
        around["nvlink"] = domain
    known = paired or any(kind in around for kind in ("nvlink", "pcie", "numa"))
    return Seat(place.gpu, around, domain or around.get("node"), around.get("nvlink") or (place.gpu if known else None))


def where(held: Collection[Seat]) -> Where:
    """The location of a set of GPUs: the nearest container that holds all of it."""
    for kind in LADDER:
        names = {seat.around.get(kind) for seat in held}
        if len(names) == 1 and (name := next(iter(names))) is not None:
            return Where(kind, name, len({part_of(seat, kind) for seat in held}))
    return Where(BEYOND, None, len({part_of(seat, BEYOND) for seat in held}))


def part_of(seat: Seat, kind: str) -> str:
    """What a set is counted in: one where NVLink joins it, NVLink domains inside nodes, nodes over the network."""
    if kind == "nvlink":
        return ""
    inner = seat.island if kind in NODE_KINDS else seat.unit
    return inner or seat.gpu


def nearest(free: Collection[Seat], k: int) -> tuple[Where, list[Seat]] | None:
    """The location of the nearest set of k free GPUs, and all free ones there; None if there are fewer than k.

    Of equal containers the tightest is taken, then the first name. More free GPUs never make it worse.
    """
    for kind in (*LADDER, BEYOND):
        inside: dict[str | None, list[Seat]] = defaultdict(list)
        for seat in free:
            name = seat.around.get(kind)
            if name is not None or kind == BEYOND:
                inside[name].append(seat)
        found = [
            (_fewest(members, k, kind), len(members), name or "")
            for name, members in inside.items()
            if len(members) >= k
        ]
        if found:
            parts, _, first = min(found)
            name = None if kind == BEYOND else first
            return Where(kind, name, parts), inside[name]
    return None


def _fewest(members: Collection[Seat], k: int, kind: str) -> int:
    left, parts = k, 0
    for size in sorted(Counter(part_of(seat, kind) for seat in members).values(), reverse=True):
        if left <= 0:
            break
        left, parts = left - size, parts + 1
    return parts


@dataclass(frozen=True)
class Surroundings:
    """The GPUs that gangs of one model in some pools are compared with."""

    seats: Mapping[str, Seat]
    kinds: frozenset[str]
    """Kinds of container that are known of any of its GPUs."""


def surroundings(graph: Graph, gpus: Iterable[str], model: str) -> Surroundings:
    """Seats of the given GPUs: those of the gangs, and those they might have got, held or not."""
    every = seats(graph, gpus, model)
    return Surroundings(every, frozenset(kind for seat in every.values() for kind in seat.around))


def spread(held: Collection[Seat]) -> Spread:
    """Containers that a set of GPUs crosses."""

    def count(names: Iterable[str | None]) -> int | None:
        found = set(names)
        return None if None in found else len(found)

    return Spread(
        count(seat.island for seat in held) if any("nvlink" in seat.around for seat in held) else None,
        count(seat.around.get("pcie") for seat in held),
        count(seat.around.get("numa") for seat in held),
        count(seat.around.get("node") for seat in held),
        count(seat.around.get("leaf") or seat.around.get("block") for seat in held),
    )
