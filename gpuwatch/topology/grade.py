"""How near a gang's GPUs are to each other, and how near they could have been with the free GPUs. Pure: facts and a grade.

Where a set of GPUs lies is the nearest kind of container that holds all of it (LADDER), and of how many parts: inside a
node of NVLink domains, over nodes of nodes (or NVLink domains over nodes). Fewer of both is nearer.

The best that was free is exact, and needs no search among sets: a set lies at a kind or nearer if and only if one
container of such a kind holds all of it, so the first kind with a container that has k free GPUs is the best one; and as
its parts do not overlap, taking the fullest first needs the fewest. The gang's own GPUs count as free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuwatch.hardware.link_graph import Graph, Place, best_attainable, farthest, meeting, slowest
from gpuwatch.hardware.links import (
    NODE_KINDS,
    NVLINK_KINDS,
    OUTER_KINDS,
    board,
    network_gb_per_s,
    slowdown,
    throughput_loss,
)

LADDER = ("nvlink", *NODE_KINDS[2:], *(kind for kind in OUTER_KINDS if kind not in NVLINK_KINDS))
"""Containers, nearest first; `nvlink` is an island of a node, or a domain over nodes for models that have such."""
BEYOND = "network"
"""The place of a set that no known container holds."""
PAIRS_GPUS_MAX = 1024
"""GPUs of a gang up to which its pairs are looked at."""
EXPOSED = (0.029, 0.111)
"""The part of a step that waits for communication on the best links, where it was not measured (domain.md section 4.3:
the shares that give the 15 to 40 % loss that are published for r = 7)."""
STEPS = ((1.5, "B"), (3.0, "C"), (8.0, "D"))
"""Of bandwidth best/actual, each grade up to which it is given; beyond the last F."""
LEVEL_GRADES = ("B", "B", "C", "D")
"""The same by how many kinds of container the gang is farther, where a bandwidth is not known; beyond the last F."""
RATIO_PLACES = 4


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


@dataclass(frozen=True)
class Best:
    """The nearest free set of the same size, and the number of free GPUs in its container."""

    where: Where
    gpus: tuple[str, ...]
    free: int
    gb_per_s: float | None


@dataclass(frozen=True)
class Slowdown:
    """What the farther links cost a step: 1 + phi(r-1) for phi at both ends of EXPOSED, and the work lost to it."""

    bandwidth_ratio: float
    slow: tuple[float, float]
    lost: tuple[float, float]


@dataclass(frozen=True)
class Placement:
    """Facts of one gang, and their grade. `reason`: why there is no grade, a key of REASONS."""

    where: Where
    spread: Spread
    levels: Mapping[str, float]
    """The part of all pairs that meet at each level (NV18, SYS, leaf, ...; unknown), 0..1; empty for very large gangs."""
    worst: str | None
    gb_per_s: float | None
    """Of the slowest pair, per direction."""
    mean_gb_per_s: float | None
    """Of all pairs, on average; None where one is not known."""
    best: Best | None
    grade: str | None
    reason: str | None
    slowdown: Slowdown | None


REASONS = {
    "one": "a single GPU uses no links",
    "slices": "MIG slices and fractions of a GPU do not communicate over links",
    "estimated": "which devices it held is estimated, not known",
    "models": "its GPUs are of several models, or of an unknown one",
    "apart": "its pods started at different times, so it may not be a gang",
    "nodes": "the node of some of its GPUs is not known",
    "links": "the links inside its node are not known",
    "domain": "the NVLink domain of some of its nodes is not known",
    "network": "the network between its nodes is not known",
}
"""Why a gang has no grade."""


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
            return Where(kind, name, len({_part(seat, kind) for seat in held}))
    return Where(BEYOND, None, len({_part(seat, BEYOND) for seat in held}))


def _part(seat: Seat, kind: str) -> str:
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
    for size in sorted(Counter(_part(seat, kind) for seat in members).values(), reverse=True):
        if left <= 0:
            break
        left, parts = left - size, parts + 1
    return parts


def _chosen(graph: Graph, found: Where, members: Sequence[Seat], k: int) -> tuple[str, ...]:
    """k GPUs of as few parts as possible; inside an island of links those that reach each other fastest."""
    if found.kind == "nvlink" and len({seat.around.get("node") for seat in members}) == 1:
        fastest = best_attainable(graph, [seat.gpu for seat in members], k)
        if fastest is not None:
            return fastest.gpus
    sizes = Counter(_part(seat, found.kind) for seat in members)
    islands, nodes = (
        Counter(names) for names in ((s.island for s in members), (s.around.get("node") for s in members))
    )

    def order(seat: Seat) -> tuple[object, ...]:
        part = _part(seat, found.kind)
        node, island = seat.around.get("node"), seat.island
        near = (-nodes[node], node or "", -islands[island], island or "")
        return (-sizes[part], part, *near, seat.around.get("numa", ""), seat.around.get("pcie", ""), seat.gpu)

    return tuple(sorted(seat.gpu for seat in sorted(members, key=order)[:k]))


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


def grade_placement(
    graph: Graph, held: Collection[str], free: Collection[str], alike: Collection[str], model: str
) -> Placement:
    """The placement of a gang of at least two whole GPUs of one model, all of them in `graph.places`.

    `free`: GPUs of the model that were free when it started; its own may be among them. GPUs of nodes with unknown links
    are left out: whether they were nearer is not known. `alike`: all GPUs that it might have got, held or not.

    A: as near as the best that was free, or no slower. B, C, D, F: the slowest link is up to 1.5, 3, 8 times and more
    slower than that of the best; where a bandwidth is not known, up to 1, 2, 3 and more kinds of container farther. No
    grade where the topology is not known enough.
    """
    return grade_among(graph, surroundings(graph, {*held, *free, *alike}, model), held, free, model)


def grade_among(
    graph: Graph, around: Surroundings, held: Collection[str], free: Collection[str], model: str
) -> Placement:
    """Like `grade_placement`, for several gangs on one graph."""
    every = around.seats
    mine = [every[gpu] for gpu in sorted(set(held))]
    others = [every[gpu] for gpu in sorted(set(free) - set(held)) if gpu in every and every[gpu].island is not None]
    k, here = len(mine), where(mine)
    small = k <= PAIRS_GPUS_MAX
    speed = _speed(graph, [seat.gpu for seat in mine], here, model) if small else None
    best = None
    found = nearest([*mine, *others], k)
    if found is not None and found[0].rank < here.rank:
        gpus = _chosen(graph, *found, k)
        best = Best(found[0], gpus, len(found[1]), _speed(graph, gpus, found[0], model) if small else None)
    elif found is not None:
        best = Best(here, tuple(seat.gpu for seat in mine), _room(here, [*mine, *others]), speed)
    ratio = None if best is None or not speed or best.gb_per_s is None else best.gb_per_s / speed
    reason = _unknown(mine, here, best, model)
    grade = None
    if reason is None and best is not None:
        grade = _grade(here, best.where, ratio, around.kinds)
    slow = _slowdown(ratio) if grade not in (None, "A") and ratio is not None and ratio > 1 else None
    pairs = _pairs(graph, mine) if small else Counter()
    worst = farthest(graph, [seat.gpu for seat in mine]) if small else None
    return Placement(here, spread(mine), _levels(pairs), worst, speed, _mean(pairs), best, grade, reason, slow)


def _speed(graph: Graph, gpus: Sequence[str], at: Where, model: str) -> float | None:
    """The bandwidth of the slowest pair. Over an unknown network, that of the model's reference port: no pair is faster."""
    found = slowest(graph, gpus)
    if found is not None:
        return found.gb_per_s
    return None if at.kind in NODE_KINDS else network_gb_per_s(model)


def _room(at: Where, free: Iterable[Seat]) -> int:
    return sum(at.kind == BEYOND or seat.around.get(at.kind) == at.name for seat in free)


def _unknown(mine: Sequence[Seat], here: Where, best: Best | None, model: str) -> str | None:
    """Why the placement cannot be graded; None if it can."""
    nodes = {seat.around.get("node") for seat in mine}
    if None in nodes:
        return "nodes"
    if len(nodes) == 1 and any(seat.island is None for seat in mine):
        return "links"
    better = best.where.kind if best is not None and best.where.rank < here.rank else None
    if better in ("numa", *OUTER_KINDS) and any(better not in seat.around for seat in mine):
        # If it is unknown for the gang's own GPUs, they may be as near.
        return "links" if better == "numa" else "network"
    if len(nodes) == 1:
        return None
    if board(model).multi_node and here.kind != "nvlink" and any(seat.unit == seat.around["node"] for seat in mine):
        return "domain"
    if best is None or (best.where.kind == here.kind and here.kind == BEYOND):
        return "network"
    return None


def _grade(here: Where, best: Where, ratio: float | None, known: Collection[str]) -> str:
    if here.rank <= best.rank or (ratio is not None and ratio < 1):
        return "A"
    if ratio is not None:
        return next((grade for most, grade in STEPS if ratio <= most), "F")
    ladder = [kind for kind in (*LADDER, BEYOND) if kind in known or kind in (here.kind, best.kind)]
    farther = ladder.index(here.kind) - ladder.index(best.kind)
    return LEVEL_GRADES[farther] if farther < len(LEVEL_GRADES) else "F"


def _slowdown(ratio: float) -> Slowdown:
    low, high = (slowdown(share, ratio) for share in EXPOSED)
    less, more = (throughput_loss(share, ratio) for share in EXPOSED)
    return Slowdown(
        round(ratio, RATIO_PLACES),
        (round(low, RATIO_PLACES), round(high, RATIO_PLACES)),
        (round(less, RATIO_PLACES), round(more, RATIO_PLACES)),
    )


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


def _pairs(graph: Graph, held: Sequence[Seat]) -> Counter[tuple[str, float | None]]:
    """How many pairs meet at each level, and how fast. Pairs of two nodes are alike where their ways out are."""
    by_node: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for seat in held:
        outer = tuple(inside for inside in graph.places[seat.gpu].path if inside.kind in OUTER_KINDS)
        by_node[seat.around.get("node") or seat.gpu, outer].append(seat.gpu)
    pairs: Counter[tuple[str, float | None]] = Counter()
    for gpus in by_node.values():
        for a, b in combinations(gpus, 2):
            pairs[_level(graph, a, b)] += 1
    for first, second in combinations(by_node.values(), 2):
        pairs[_level(graph, first[0], second[0])] += len(first) * len(second)
    return pairs


def _levels(pairs: Counter[tuple[str, float | None]]) -> dict[str, float]:
    """The part of all pairs that meet at each level, the commonest first."""
    levels: Counter[str] = Counter()
    for (level, _), count in pairs.items():
        levels[level] += count
    return {level: round(count / pairs.total(), RATIO_PLACES) for level, count in levels.most_common()}


def _mean(pairs: Counter[tuple[str, float | None]]) -> float | None:
    if not pairs or any(speed is None for _, speed in pairs):
        return None
    return round(sum((speed or 0.0) * count for (_, speed), count in pairs.items()) / pairs.total(), RATIO_PLACES)


def _level(graph: Graph, a: str, b: str) -> tuple[str, float | None]:
    found = meeting(graph, a, b)
    return ("unknown", None) if found is None else (found.level, found.gb_per_s)
