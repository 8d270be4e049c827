"""GPU links of a cluster at one instant: the link of a pair, the slowest pair of a set, the best set of free GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gpuwatch.hardware.links import NODE_KINDS, OUTER_KINDS, rank

EXACT_GPUS_MAX = 16
"""The most free GPUs of a node for an exhaustive search; with more, the search is greedy."""


@dataclass(frozen=True)
class Inside:
    """A container of a GPU, and the GB/s per direction between GPUs whose nearest common container it is."""

    kind: str
    name: str
    gb_per_s: float | None


@dataclass(frozen=True)
class Place:
    """The location of a GPU: its containers, nearest first, including the node if it is known."""

    gpu: str
    path: tuple[Inside, ...]

    def container(self, kind: str) -> Inside | None:
        """Its container of a kind, None if unknown."""
        return next((inside for inside in self.path if inside.kind == kind), None)


@dataclass(frozen=True)
class Meeting:
    """The link of two GPUs: its level (NV18, PIX, ..., or the kind of a container) and GB/s per direction."""

    level: str
    name: str
    """Their common container; the node if only their pair is known."""
    gb_per_s: float | None


@dataclass(frozen=True)
class Graph:
    """The GPUs of a cluster and their links at one instant."""

    places: Mapping[str, Place]
    pairs: Mapping[tuple[str, str], tuple[str, float | None]] = field(default_factory=dict)
    """(GPU, GPU), sorted -> (level, GB/s): two GPUs in the matrix of a node."""


@dataclass(frozen=True)
class Attainable:
    """The fastest set of `k` free GPUs and its slowest pair."""

    gb_per_s: float
    level: str
    gpus: tuple[str, ...]


def meeting(graph: Graph, a: str, b: str) -> Meeting | None:
    """The link between two GPUs, None if no connection is known. Symmetric in a and b.

    A pair in the matrix of their node comes first, else the nearest common container. Its speed is the slower of the
    two GPUs' speeds; if it is unknown outside a node, that of the next larger container, which is a lower bound.
    """
    first, second = graph.places.get(a), graph.places.get(b)
    if first is None or second is None:
        return None
    if a == b:
        return Meeting("X", a, None)
    node = first.container("node")
    pair = graph.pairs.get((a, b) if a < b else (b, a))
    if pair is not None and node is not None and node == second.container("node"):
        return Meeting(pair[0], node.name, pair[1])
    theirs = {(inside.kind, inside.name): inside for inside in second.path}
    common = [(mine, theirs[mine.kind, mine.name]) for mine in first.path if (mine.kind, mine.name) in theirs]
    if not common:
        return None
    return Meeting(common[0][0].kind, common[0][0].name, _speed(common))


def _speed(common: Iterable[tuple[Inside, Inside]]) -> float | None:
    """The speed of the nearest container with a known one; within a node, containers outside of it do not count."""
    for mine, other in common:
        if mine.gb_per_s is not None and other.gb_per_s is not None:
            return min(mine.gb_per_s, other.gb_per_s)
        if mine.kind in NODE_KINDS:
            return None
    return None


def slowest(graph: Graph, gpus: Collection[str]) -> Meeting | None:
    """The slowest pair of a set: B_min of a ring over it; None for fewer than two GPUs, or if a pair is unknown.

    More GPUs are never faster. On a partial NVLink mesh a ring may avoid its slowest pair, so this is a lower bound.
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
    """The most distant level that a set of GPUs spans, regardless of speed; None if a pair is unknown."""
    levels = []
    for a, b in _crossing(graph, sorted(set(gpus))):
        found = meeting(graph, a, b)
        if found is None:
            return None
        levels.append(found.level)
    return max(levels, key=_distance, default=None)


def best_attainable(graph: Graph, free: Collection[str], k: int) -> Attainable | None:
    """The set of k free GPUs whose slowest pair is the fastest; None if no set with known links exists.

    On a node the search is exhaustive (EXACT_GPUS_MAX). Over nodes each container with k free GPUs is filled node by
    node, the fullest first, so that the set spans as few nodes as possible. Ties go to the nearer level, then by name.
    """
    known = sorted({gpu for gpu in free if gpu in graph.places})
    if k < 2 or len(known) < k:
        return None
    candidates = []
    for chosen in _candidate_sets(graph, known, k):
        worst = slowest(graph, chosen) if chosen else None
        if worst is not None and worst.gb_per_s is not None:
            candidates.append(Attainable(worst.gb_per_s, worst.level, tuple(chosen)))
    return min(candidates, key=lambda one: (-one.gb_per_s, _distance(one.level), one.gpus), default=None)


def _candidate_sets(graph: Graph, free: Sequence[str], k: int) -> list[tuple[str, ...]]:
    """The best set of each node with k free GPUs, and sets over nodes in each larger container."""
    by_outer: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for gpu in free:
        for inside in graph.places[gpu].path:
            if inside.kind in OUTER_KINDS:
                by_outer[inside.kind, inside.name][gpu] = inside.gb_per_s or 0.0
    sets = [_best_of_node(graph, gpus, k) for gpus in _by_node(graph, free).values() if len(gpus) >= k]
    for speeds in by_outer.values():
        # Slower GPUs are omitted as long as enough others are free.
        for floor in sorted(set(speeds.values())):
            gpus = [gpu for gpu, speed in speeds.items() if speed >= floor]
            if len(gpus) >= k:
                sets.append(_filled(graph, gpus, k))
    return sets


def _by_node(graph: Graph, gpus: Iterable[str]) -> dict[str, list[str]]:
    """GPUs by node; a GPU without a known node has one of its own."""
    found: dict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        node = graph.places[gpu].container("node")
        found[node.name if node else f"?{gpu}"].append(gpu)
    return found


def _slowness(one: Meeting) -> tuple[float, int, bool]:
    """Sorts by speed; among equals the more distant level first, then the one outside the node."""
    return one.gb_per_s or 0.0, -_distance(one.level), one.level not in OUTER_KINDS


def _distance(level: str) -> int:
    """Like links.rank, with containers within a node as near as the level of the links in them."""
    inside = {"nvlink": "NV", "pcie": "PXB", "numa": "NODE", "node": "SYS"}
    return rank(inside.get(level, level))


def _crossing(graph: Graph, gpus: Sequence[str]) -> Iterable[tuple[str, str]]:
    """The pairs that can be the slowest: all pairs of a node, and one pair of any two nodes with equal outer paths."""
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
    """The first k vertices that are all neighbours, by bit masks of neighbours; empty if there are none.

    If not exact, the search is greedy from each vertex, which is correct for an equivalence relation such as PCIe.
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
    """k GPUs from as few nodes as possible; on the last node those with the best links."""
    chosen: tuple[str, ...] = ()
    for _, members in sorted(_by_node(graph, gpus).items(), key=lambda entry: (-len(entry[1]), entry[0])):
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
