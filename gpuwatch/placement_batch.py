"""Placements of many gangs at once: which of them lie farther than what was free when they began.

One sweep over the free spans of a model and its pools counts the free GPUs of every container at every start. Only gangs
that had a nearer container with room are graded one by one, on the free GPUs of their instant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.placement import BEYOND, LADDER, Placement, Seat, judge, seats, where
from gpuwatch.store import Store
from gpuwatch.topology_graph import Graph
from gpuwatch.topology_store import graph

NEAR_MAX = 256
"""Gangs whose instants are read in one statement."""

_NEAR = pa.schema(
    [
        ("run_id", pa.int64()),
        ("cluster", pa.string()),
        ("at_us", pa.int64()),
        ("model", pa.string()),
        ("pools", pa.list_(pa.string())),
    ]
)
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Gang:
    """A run that holds whole GPUs of one model in some pools, all of them from `at_us` on."""

    run_id: int
    at_us: int
    model: str
    pools: tuple[str, ...]
    gpus: tuple[str, ...]


def farther(store: Store, cluster: str, gangs: Iterable[Gang]) -> dict[int, tuple[Placement, Graph]]:
    """Of each gang that had something nearer: its placement and the graph of its start, by run.

    Each is judged on the topology that held at its start. Gangs of which a GPU has no place are left out.
    """
    edges = [row["at_us"] for row in store.rows("topology/edges", cluster=cluster)]
    by_version: dict[int, list[Gang]] = defaultdict(list)
    for gang in gangs:
        by_version[bisect_right(edges, gang.at_us)].append(gang)
    found: dict[int, tuple[Placement, Graph]] = {}
    for same in by_version.values():
        around = graph(store, cluster, same[0].at_us)
        by_place: dict[tuple[str, tuple[str, ...]], list[Gang]] = defaultdict(list)
        for gang in same:
            if all(gpu in around.places for gpu in gang.gpus):
                by_place[gang.model, gang.pools].append(gang)
        for (model, pools), alike in by_place.items():
            seated = seats(around, around.places, model)
            near = _with_room(store, cluster, seated, sorted(alike, key=lambda g: g.at_us), model, pools)
            for start in range(0, len(near), NEAR_MAX):
                for run_id, placement in _graded(store, cluster, around, seated, near[start : start + NEAR_MAX]):
                    found[run_id] = placement, around
    return found


def _graded(
    store: Store, cluster: str, around: Graph, seated: Mapping[str, Seat], near: Sequence[Gang]
) -> Iterable[tuple[int, Placement]]:
    by_run = {gang.run_id: gang for gang in near}
    asked = [
        {"run_id": g.run_id, "cluster": cluster, "at_us": g.at_us, "model": g.model, "pools": list(g.pools)}
        for g in near
    ]
    with store.view("near_gang", pa.Table.from_pylist(asked, schema=_NEAR)):
        rows = store.rows("placement/gang_alike")
    for row in rows:
        gang = by_run[row["run_id"]]
        yield gang.run_id, judge(around, gang.gpus, row["free"] or (), row["gpus"], gang.model, seated)


def _with_room(
    store: Store,
    cluster: str,
    seated: Mapping[str, Seat],
    gangs: Sequence[Gang],
    model: str,
    pools: tuple[str, ...],
) -> list[Gang]:
    """Gangs, given in order of time, for which some container of a nearer kind had room, their own GPUs counted as free."""
    lie = [where([seated[gpu] for gpu in gang.gpus]) for gang in gangs]
    if all(place.kind == LADDER[0] for place in lie):
        return []
    names = list(seated)
    number = {gpu: n for n, gpu in enumerate(names)}
    codes = {kind: _codes([seated[gpu].around.get(kind) for gpu in names]) for kind in LADDER}
    kinds = [kind for kind in LADDER if codes[kind].max(initial=-1) >= 0]
    counts = {kind: np.zeros(int(codes[kind].max()) + 1, np.int64) for kind in kinds}
    spans = store.table(
        "placement/gang_free",
        cluster=cluster,
        from_us=gangs[0].at_us,
        until_us=gangs[-1].at_us + 1,
        model=model,
        pools=list(pools),
    )
    index = np.array([number.get(gpu, -1) for gpu in spans["gpu"].to_pylist()], np.int64)
    starts, ends = (spans[name].to_numpy() for name in ("start_us", "end_us"))
    by_start, by_end = np.argsort(starts, kind="stable"), np.argsort(ends, kind="stable")
    sorted_starts, sorted_ends = starts[by_start], ends[by_end]
    begun = ended = 0
    near = []
    for gang, place in zip(gangs, lie, strict=True):
        # Half-open spans: one that begins now is there, one that ends now is not.
        now_begun = int(np.searchsorted(sorted_starts, gang.at_us, "right"))
        now_ended = int(np.searchsorted(sorted_ends, gang.at_us, "right"))
        _count(counts, codes, index[by_start[begun:now_begun]], 1)
        _count(counts, codes, index[by_end[ended:now_ended]], -1)
        begun, ended = now_begun, now_ended
        if _room_nearer(counts, codes, np.array([number[gpu] for gpu in gang.gpus]), place.kind):
            near.append(gang)
    return near


def _codes(names: Sequence[str | None]) -> Codes:
    """Containers as numbers from 0 on, -1 where there is none."""
    known = {name: n for n, name in enumerate(sorted({name for name in names if name is not None}))}
    return np.array([-1 if name is None else known[name] for name in names], np.int64)


def _count(counts: Mapping[str, Codes], codes: Mapping[str, Codes], gpus: Codes, by: int) -> None:
    gpus = gpus[gpus >= 0]
    for kind, count in counts.items():
        inside = codes[kind][gpus]
        np.add.at(count, inside[inside >= 0], by)


def _room_nearer(counts: Mapping[str, Codes], codes: Mapping[str, Codes], own: Codes, kind: str) -> bool:
    """Whether a container of a nearer kind has as many free GPUs as the gang has, its own among them."""
    for nearer in LADDER if kind == BEYOND else LADDER[: LADDER.index(kind)]:
        if nearer in counts:
            inside = codes[nearer][own]
            room = counts[nearer] + np.bincount(inside[inside >= 0], minlength=len(counts[nearer]))
            if int(room.max()) >= len(own):
                return True
    return False
