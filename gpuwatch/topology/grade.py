"""How near a gang's GPUs are to each other, and how near they could have been with the free GPUs. Pure: facts and a grade.

The best that was free is exact, and needs no search among sets: a set lies at a kind or nearer if and only if one
container of such a kind holds all of it, so the first kind with a container that has k free GPUs is the best one; and as
its parts do not overlap, taking the fullest first needs the fewest. The gang's own GPUs count as free.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuwatch.hardware.link_graph import Graph, best_attainable, farthest, meeting, slowest
from gpuwatch.hardware.links import NODE_KINDS, OUTER_KINDS, board, network_gb_per_s, slowdown, throughput_loss
from gpuwatch.topology.seats import (
    BEYOND,
    LADDER,
    Seat,
    Spread,
    Surroundings,
    Where,
    nearest,
    part_of,
    spread,
    surroundings,
    where,
)

PAIRS_GPUS_MAX = 1024
"""GPUs of a gang up to which its pairs are looked at."""
EXPOSED = (0.029, 0.111)
"""The part of a step that waits for communication on the best links, where it was not measured: for links that are 7 times
slower, these shares give the published losses of 15 to 40 %."""
STEPS = ((1.5, "B"), (3.0, "C"), (8.0, "D"))
"""Of bandwidth best/actual, each grade up to which it is given; beyond the last F."""
LEVEL_GRADES = ("B", "B", "C", "D")
"""The same by how many kinds of container the gang is farther, where a bandwidth is not known; beyond the last F."""
RATIO_PLACES = 4


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
    "scope": "what was free at its start depends on other teams, which this token may not see",
}
"""Why a gang has no grade."""


def grade_placement(
    graph: Graph, held: Collection[str], free: Collection[str], alike: Collection[str], model: str
) -> Placement:
    """The placement of a gang of at least two whole GPUs of one model, all of them in `graph.places`.

    `free`: GPUs of the model that were free when it started; its own may be among them. For a gang on one node, GPUs of nodes
    with unknown links are left out: whether they were nearer is not known. One node is nearer than several. `alike`: all GPUs that it might have got, held or not.

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
    gpus, here = [seat.gpu for seat in mine], where(mine)
    one_node = here.kind in NODE_KINDS
    others = [
        every[gpu]
        for gpu in sorted(set(free) - set(held))
        if gpu in every and (every[gpu].island is not None or not one_node)
    ]
    speed = _speed(graph, gpus, here, model)
    best = _best(graph, mine, others, speed, model)
    reason = _unknown(mine, here, best, model)
    ratio = best.gb_per_s / speed if best is not None and best.gb_per_s is not None and speed else None
    grade = None if reason is not None or best is None else _grade(here, best.where, ratio, around.kinds)
    slow = _slowdown(ratio) if grade not in (None, "A") and ratio is not None and ratio > 1 else None
    pairs = _pairs(graph, mine)
    worst = farthest(graph, gpus) if pairs else None
    return Placement(here, spread(mine), _levels(pairs), worst, speed, _mean(pairs), best, grade, reason, slow)


def _best(graph: Graph, mine: Sequence[Seat], others: Sequence[Seat], speed: float | None, model: str) -> Best | None:
    """The nearest set of free GPUs; the gang's own where none is nearer, with its `speed`."""
    k, here = len(mine), where(mine)
    found = nearest([*mine, *others], k)
    if found is None:
        return None
    if found[0].rank < here.rank:
        gpus = _chosen(graph, *found, k)
        return Best(found[0], gpus, len(found[1]), _speed(graph, gpus, found[0], model))
    return Best(here, tuple(seat.gpu for seat in mine), _room(here, [*mine, *others]), speed)


def _chosen(graph: Graph, found: Where, members: Sequence[Seat], k: int) -> tuple[str, ...]:
    """k GPUs of as few parts as possible; inside an island of links those that reach each other fastest."""
    if found.kind == "nvlink" and len({seat.around.get("node") for seat in members}) == 1:
        fastest = best_attainable(graph, [seat.gpu for seat in members], k)
        if fastest is not None:
            return fastest.gpus
    sizes = Counter(part_of(seat, found.kind) for seat in members)
    islands = Counter(seat.island for seat in members)
    nodes = Counter(seat.around.get("node") for seat in members)

    def order(seat: Seat) -> tuple[object, ...]:
        part = part_of(seat, found.kind)
        node, island = seat.around.get("node"), seat.island
        near = (-nodes[node], node or "", -islands[island], island or "")
        return (-sizes[part], part, *near, seat.around.get("numa", ""), seat.around.get("pcie", ""), seat.gpu)

    return tuple(sorted(seat.gpu for seat in sorted(members, key=order)[:k]))


def _speed(graph: Graph, gpus: Sequence[str], at: Where, model: str) -> float | None:
    """The bandwidth of the slowest pair; None for very large sets.

    Over an unknown network, that of the model's reference port: no pair is faster.
    """
    if len(gpus) > PAIRS_GPUS_MAX:
        return None
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
    if best is not None and (lacking := _maybe_as_near(mine, here, best.where)) is not None:
        return lacking
    if len(nodes) == 1:
        return None
    if board(model).multi_node and here.kind != "nvlink" and any(seat.unit == seat.around["node"] for seat in mine):
        return "domain"
    return "network" if best is None or best.where.kind == here.kind == BEYOND else None


def _maybe_as_near(mine: Sequence[Seat], here: Where, best: Where) -> str | None:
    """What is unknown of the gang's own GPUs at the level of the best set, where they may be as near; None for nothing."""
    known = all(best.kind in seat.around for seat in mine)
    if known or best.rank >= here.rank or best.kind not in ("numa", *OUTER_KINDS):
        return None
    return "links" if best.kind == "numa" else "network"


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


def _pairs(graph: Graph, held: Sequence[Seat]) -> Counter[tuple[str, float | None]]:
    """How many pairs meet at each level, and how fast; none for very large gangs.

    Pairs of two nodes are alike where their ways out are.
    """
    if len(held) > PAIRS_GPUS_MAX:
        return Counter()
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
