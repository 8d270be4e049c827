"""The graph at one instant: where GPUs meet, how fast the slowest pair of a set is, and what the free ones could give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gpuwatch.hardware.links import NODE_KINDS, OUTER_KINDS, rank

EXACT_GPUS_MAX = 16
"""Free GPUs of one node up to which every choice is looked at; beyond, those that all reach each other directly."""


@dataclass(frozen=True)
class Inside:
    """A container round a GPU, and the GB/s per direction between GPUs that have it in common and nothing nearer."""

    kind: str
    name: str
    gb_per_s: float | None


@dataclass(frozen=True)
class Place:
    """Where a GPU is: its containers, nearest first. The node is one of them, where it is known."""

    gpu: str
    path: tuple[Inside, ...]

    def container(self, kind: str) -> Inside | None:
        """The container of one kind round it, None where nothing told one."""
        return next((inside for inside in self.path if inside.kind == kind), None)


@dataclass(frozen=True)
class Meeting:
    """How two GPUs reach each other: the level (NV18, PIX, ..., or the kind of a container) and GB/s per direction."""

    level: str
    name: str
    """The container in which they meet; the node where only their pair is told."""
    gb_per_s: float | None


@dataclass(frozen=True)
class Graph:
    """GPUs of a cluster and what lies between them at one instant."""

    places: Mapping[str, Place]
    pairs: Mapping[tuple[str, str], tuple[str, float | None]] = field(default_factory=dict)
    """(GPU, GPU), sorted -> (level, GB/s): what a matrix says of two GPUs of one node."""


@dataclass(frozen=True)
class Attainable:
    """The fastest set of `k` free GPUs: its slowest pair, and the GPUs."""

    gb_per_s: float
    level: str
    gpus: tuple[str, ...]


def meeting(graph: Graph, a: str, b: str) -> Meeting | None:
    """The nearest way between two GPUs; None where nothing that is known joins them.

    What a matrix says of the pair decides; else the nearest container that both have in common. Its speed is the
    slower of the two GPUs' ways into it; outside nodes, where that is unknown, of the next one out: it is at least as
    fast. Symmetric in a and b.
    """
    first, second = graph.places.get(a), graph.places.get(b)
    if first is None or second is None:
        return None
    if a == b:
        return Meeting("X", a, None)
    node = first.container("node")
    told = graph.pairs.get((a, b) if a < b else (b, a))
    if told is not None and node is not None and node == second.container("node"):
        return Meeting(told[0], node.name, told[1])
    theirs = {(inside.kind, inside.name): inside for inside in second.path}
    common = [(mine, theirs[mine.kind, mine.name]) for mine in first.path if (mine.kind, mine.name) in theirs]
    if not common:
        return None
    return Meeting(common[0][0].kind, common[0][0].name, _speed(common))


def _speed(common: Iterable[tuple[Inside, Inside]]) -> float | None:
    """Of the nearest container whose speed is known. What lies outside a node says nothing of the links inside it."""
    for mine, other in common:
        if mine.gb_per_s is not None and other.gb_per_s is not None:
            return min(mine.gb_per_s, other.gb_per_s)
        if mine.kind in NODE_KINDS:
            return None
    return None


def slowest(graph: Graph, gpus: Collection[str]) -> Meeting | None:
    """The slowest pair of a set: B_min of a ring over it; None for fewer than two GPUs, or where a pair is unknown.

    More GPUs are never faster. On a partial NVLink mesh a ring may go round its slowest pair: a floor of the speed.
    """
    worst: Meeting | None = None
    for a, b in _crossing(graph, sorted(set(gpus))):
        found = meeting(graph, a, b)
        if found is None or found.gb_per_s is None:
            return None
        if worst is None or _slowness(found) < _slowness(worst):
            worst = found
    return worst


def farthest(graph: Graph, gpus: Collection[str]) -> str | None:
    """The most distant level that a set of GPUs spans, whatever its speed; None where a pair is unknown."""
    levels = []
    for a, b in _crossing(graph, sorted(set(gpus))):
        found = meeting(graph, a, b)
        if found is None:
            return None
        levels.append(found.level)
    return max(levels, key=_distance, default=None)


def crossed(graph: Graph, gpus: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Of each kind of container: (how many different ones a set of GPUs lies in, GPUs of it with none known)."""
    places = [graph.places.get(gpu) for gpu in sorted(set(gpus))]
    found = {}
    for kind in (*NODE_KINDS[1:], *OUTER_KINDS):
        inside = [None if place is None else place.container(kind) for place in places]
        names = {one.name for one in inside if one is not None}
        if names:
            found[kind] = len(names), sum(one is None for one in inside)
    return found


def best_attainable(graph: Graph, free: Collection[str], k: int) -> Attainable | None:
    """The set of k of the free GPUs whose slowest pair is fastest; None where no such set is known to reach itself.

    On one node every choice is looked at (EXACT_GPUS_MAX). Over nodes each container with k free GPUs is filled node
    by node, the fullest first, so that the set touches as few nodes as possible. Ties go to the nearer level, then to
    the first names.
    """
    known = sorted({gpu for gpu in free if gpu in graph.places})
    if k < 2 or len(known) < k:
        return None
    by_node: dict[str, list[str]] = defaultdict(list)
    by_outer: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for gpu in known:
        place = graph.places[gpu]
        node = place.container("node")
        by_node[node.name if node else f"?{gpu}"].append(gpu)
        for inside in place.path:
            if inside.kind in OUTER_KINDS:
                by_outer[inside.kind, inside.name][gpu] = inside.gb_per_s or 0.0
    sets = [_best_of_node(graph, gpus, k) for gpus in by_node.values() if len(gpus) >= k]
    for speeds in by_outer.values():
        # The slower ways into a container are left out as long as enough others are free.
        for floor in sorted(set(speeds.values())):
            gpus = [gpu for gpu, speed in speeds.items() if speed >= floor]
            if len(gpus) >= k:
                sets.append(_filled(graph, gpus, k))
    judged = []
    for chosen in sets:
        worst = slowest(graph, chosen) if chosen else None
        if worst is not None and worst.gb_per_s is not None:
            judged.append(Attainable(worst.gb_per_s, worst.level, tuple(chosen)))
    return min(judged, key=lambda one: (-one.gb_per_s, _distance(one.level), one.gpus), default=None)


def _slowness(one: Meeting) -> tuple[float, int, bool]:
    """Of equal speeds the more distant level is named, of equal levels the one that leaves the node."""
    return one.gb_per_s or 0.0, -_distance(one.level), one.level not in OUTER_KINDS


def _distance(level: str) -> int:
    """As topology.rank, with containers inside a node as near as the level at which GPUs meet in them."""
    inside = {"nvlink": "NV", "pcie": "PXB", "numa": "NODE", "node": "SYS"}
    return rank(inside.get(level, level))


def _crossing(graph: Graph, gpus: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Pairs that can be the slowest: all pairs of a node, and one pair for any two nodes with GPUs of equal ways out."""
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    inside: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        place = graph.places.get(gpu)
        node = place.container("node") if place else None
        if place is None or node is None:
            alike[gpu,].append(gpu)
            continue
        outer = tuple(one for one in place.path if one.kind in OUTER_KINDS)
        alike[node.name, outer].append(gpu)
        inside[node.name].append(gpu)
    for members in inside.values():
        yield from combinations(members, 2)
    ways = [members[0] for members in alike.values()]
    yield from combinations(ways, 2)


def _best_of_node(graph: Graph, gpus: Sequence[str], k: int) -> tuple[str, ...]:
    speeds: dict[tuple[int, int], float] = {}
    for (i, a), (j, b) in combinations(enumerate(gpus), 2):
        found = meeting(graph, a, b)
        if found is not None and found.gb_per_s is not None:
            speeds[i, j] = found.gb_per_s
    for floor in sorted(set(speeds.values()), reverse=True):
        reach = [0] * len(gpus)
        for (i, j), speed in speeds.items():
            if speed >= floor:
                reach[i] |= 1 << j
                reach[j] |= 1 << i
        chosen = _all_joined(reach, k, len(gpus) <= EXACT_GPUS_MAX)
        if chosen:
            return tuple(gpus[i] for i in chosen)
    return ()


def _all_joined(reach: Sequence[int], k: int, exact: bool) -> tuple[int, ...]:
    """The first k vertices that all reach each other, by bit masks of their neighbours; empty where there are none.

    Not exact: taken greedily from each vertex on, which is right where "near" is an equivalence, as PCIe is.
    """

    def grow(chosen: tuple[int, ...], allowed: int) -> tuple[int, ...]:
        if len(chosen) == k:
            return chosen
        while allowed and len(chosen) + allowed.bit_count() >= k:
            vertex = (allowed & -allowed).bit_length() - 1
            allowed &= allowed - 1
            found = grow((*chosen, vertex), allowed & reach[vertex])
            if found or not exact:
                return found
        return ()

    for start in range(len(reach)):
        later = reach[start] & ~((1 << (start + 1)) - 1)
        if found := grow((start,), later):
            return found
    return ()


def _filled(graph: Graph, gpus: Sequence[str], k: int) -> tuple[str, ...]:
    """k GPUs from as few nodes as possible; of the last node those that are nearest to each other."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        node = graph.places[gpu].container("node")
        nodes[node.name if node else f"?{gpu}"].append(gpu)
    chosen: tuple[str, ...] = ()
    for _, members in sorted(nodes.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        left = k - len(chosen)
        if left == 0:
            break
        if len(members) <= left:
            chosen += tuple(members)
        elif left == 1:
            chosen += (members[0],)
        else:
            chosen += _best_of_node(graph, members, left) or tuple(members[:left])
    return tuple(sorted(chosen)) if len(chosen) == k else ()
