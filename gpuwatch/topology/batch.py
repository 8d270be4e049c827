"""Placements of many gangs at once: which of them are farther apart than what was free at their start.

One sweep over the free spans of a model and its pools finds the GPUs that were free at every start. Only gangs that had room in
a nearer container are graded, on the free GPUs of its tightest containers: the choice of placement.nearest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.hardware.link_graph import Graph
from gpuwatch.hardware.links import NODE_KINDS
from gpuwatch.store.database import Store
from gpuwatch.topology.derive import graph
from gpuwatch.topology.fit import Fit, Start
from gpuwatch.topology.grade import Placement, grade_among
from gpuwatch.topology.seats import BEYOND, LADDER, Surroundings, surroundings, where
from gpuwatch.topology.taints import TaintedNodes

TIGHTEST = 8
"""Containers inside nodes, of the kind that has room, whose free GPUs are looked at: the tightest."""

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Gang:
    """A run that holds whole GPUs of one model in some pools, all of them from `at_us` on."""

    run_id: int
    at_us: int
    model: str
    pools: tuple[str, ...]
    gpus: tuple[str, ...]


def farther(
    store: Store, cluster: str, gangs: Iterable[Gang], fit: Fit | None = None
) -> dict[int, tuple[Placement, Graph]]:
    """Of each gang that had room in something nearer: its placement and the graph of its start, by run.

    Each is graded on the topology at its start. Gangs with a GPU without a place are left out.
    """
    edges = [row["at_us"] for row in store.rows("topology/edges", cluster=cluster)]
    by_version: dict[int, list[Gang]] = defaultdict(list)
    for gang in gangs:
        by_version[bisect_right(edges, gang.at_us)].append(gang)
    found: dict[int, tuple[Placement, Graph]] = {}
    tainted, fit = TaintedNodes(store, cluster), fit or Fit(store, cluster)
    for same in by_version.values():
        graph_then = graph(store, cluster, same[0].at_us)
        by_place: dict[tuple[str, tuple[str, ...]], list[Gang]] = defaultdict(list)
        for gang in same:
            if all(gpu in graph_then.places for gpu in gang.gpus):
                by_place[gang.model, gang.pools].append(gang)
        for (model, pools), alike in by_place.items():
            mates = [
                row["gpu"]
                for row in store.rows("topology/placement/mates", cluster=cluster, model=model, pools=list(pools))
            ]
            own = {gpu for gang in alike for gpu in gang.gpus}
            around = surroundings(graph_then, own.union(mates), model)
            ordered = sorted(alike, key=lambda gang: (gang.at_us, gang.run_id))
            for gang, free in _with_room(store, cluster, around, ordered, tainted, fit):
                found[gang.run_id] = grade_among(graph_then, around, gang.gpus, free, model), graph_then
    return found


def _with_room(
    store: Store, cluster: str, around: Surroundings, gangs: Sequence[Gang], tainted: TaintedNodes, fit: Fit
) -> Iterator[tuple[Gang, list[str]]]:
    """Gangs, given in order of time, for which a nearer container had room, their own GPUs counted as free; and the free
    GPUs of the tightest of those containers."""
    lie = [where([around.seats[gpu] for gpu in gang.gpus]).kind for gang in gangs]
    if all(kind == LADDER[0] for kind in lie):
        return
    names = list(around.seats)
    number = {gpu: n for n, gpu in enumerate(names)}
    codes = _container_codes(around, names)
    nodes = [around.seats[gpu].around.get("node", gpu) for gpu in names]
    places = {place: n for n, place in enumerate(sorted(set(nodes)))}
    place_of = np.array([places[place] for place in nodes], np.int64)
    span = {"cluster": cluster, "from_us": gangs[0].at_us, "until_us": gangs[-1].at_us + 1}
    free = _Sweep(
        store.table("topology/placement/gang_free", **span, model=gangs[0].model, pools=list(gangs[0].pools)),
        "gpu",
        number,
    )
    guessed = _Sweep(store.table("topology/placement/gang_guessed", **span), "place", places)
    # Whether nodes with unknown links were nearer than its own node is not known; one node is nearer than several.
    lit = np.array([around.seats[gpu].island is not None for gpu in names])
    maybe: list[tuple[Gang, str, Codes]] = []
    for gang, kind in zip(gangs, lie, strict=True):
        here = lit if kind in NODE_KINDS else np.ones(len(names), bool)
        there = here & (free.at(gang.at_us) > 0) & (guessed.at(gang.at_us)[place_of] == 0)
        own = [number[gpu] for gpu in gang.gpus]
        barred = tainted.barred({nodes[n] for n in own}, gang.at_us)
        there &= ~np.isin(place_of, [places[node] for node in barred if node in places])
        there[own] = True
        free_then = np.flatnonzero(there)
        if _room_nearer(free_then, codes, len(gang.gpus), kind) is not None:
            maybe.append((gang, kind, free_then))
    limits = fit.limits([Start(one.run_id, frozenset([one.run_id]), one.at_us, len(one.gpus)) for one, _, _ in maybe])
    for gang, kind, free_then in maybe:
        mine, limit = {number[gpu] for gpu in gang.gpus}, limits[gang.run_id]
        usable = np.array(limit.usable(free_then.tolist(), mine, nodes.__getitem__), np.int64)
        inside = _room_nearer(usable, codes, len(gang.gpus), kind)
        if inside is not None:
            yield gang, [names[n] for n in inside]


class _Sweep:
    """How many half-open spans cover each thing, at instants that never go back."""

    def __init__(self, spans: pa.Table, what: str, number: Mapping[str, int]) -> None:
        self._counts = np.zeros(len(number), np.int64)
        index = np.array([number.get(name, -1) for name in spans[what].to_pylist()], np.int64)
        known = index >= 0
        starts, ends = (spans[name].to_numpy()[known] for name in ("start_us", "end_us"))
        at, step = np.concatenate((starts, ends)), np.repeat(np.array([1, -1]), len(starts))
        order = np.argsort(at, kind="stable")
        self._at, self._step, self._index = at[order], step[order], np.tile(index[known], 2)[order]
        self._passed = 0

    def at(self, at_us: int) -> Codes:
        """What begins now is there, what ends now is not."""
        until = int(np.searchsorted(self._at, at_us, "right"))
        edges = slice(self._passed, until)
        np.add.at(self._counts, self._index[edges], self._step[edges])
        self._passed = until
        return self._counts


def _container_codes(around: Surroundings, gpus: Sequence[str]) -> dict[str, Codes]:
    """The container of each GPU as a number, by kind."""
    return {
        kind: _codes([around.seats[gpu].around.get(kind) for gpu in gpus]) for kind in LADDER if kind in around.kinds
    }


def _codes(names: Sequence[str | None]) -> Codes:
    """Containers as numbers from 0 on in the order of their names, -1 where there is none."""
    known = {name: n for n, name in enumerate(sorted({name for name in names if name is not None}))}
    return np.array([-1 if name is None else known[name] for name in names], np.int64)


def _room_nearer(free: Codes, codes: Mapping[str, Codes], k: int, kind: str) -> Codes | None:
    """The free GPUs of the tightest containers of the nearest kind with k free GPUs, if nearer than `kind`."""
    for nearer in LADDER if kind == BEYOND else LADDER[: LADDER.index(kind)]:
        if nearer not in codes:
            continue
        inside = codes[nearer][free]
        room = np.bincount(inside[inside >= 0])
        fit = np.flatnonzero(room >= k)
        if len(fit):
            if nearer in NODE_KINDS:
                fit = fit[np.argsort(room[fit], kind="stable")][:TIGHTEST]
            return free[np.isin(inside, fit)]
    return None
