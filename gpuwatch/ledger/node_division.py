"""Divides the devices of runs of which only a total is known over their nodes: as many on each as others leave free.

Pure: the result depends only on the arguments.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuwatch.ledger.device_slots import Slot, Spans, most_units
from gpuwatch.ledger.placement_estimate import Node, Wanted

MOVES_MAX = 256
"""Devices of earlier runs that are tried elsewhere to make room for one run."""
DEPTH_MAX = 4
"""Moves that depend on each other."""
RUNS_MAX = 100
"""The last runs that were divided over a node: earlier ones are rarely in the way."""

Span = tuple[int, int, int]
Place = tuple[str, str | None]
"""A node and the kind of its devices."""


def divide(nodes: Mapping[str, Node], wanted: Iterable[Wanted]) -> list[Wanted]:
    """The requests, those of a run with only a total (`totals`) divided over its nodes.

    They keep the division that they came with where it fits. Otherwise each node gets as much of it as it has free, and the
    rest goes to the nodes with more, in the order of their names. Where that is too little, runs that were divided before move
    devices to their other nodes. What exact holds leave free counts if nothing fits beside the estimated ones; if nothing fits
    beside those either, the division stays.
    """
    requests = list(wanted)
    runs: dict[tuple[int, str | None, str | None], list[Wanted]] = defaultdict(list)
    for request in requests:
        if request.totals:
            runs[request.run_id, request.pod_uid, request.profile].append(request)
    open_runs = {key: parts for key, parts in runs.items() if _is_open(nodes, parts)}
    if not open_runs:
        return requests
    open_parts = {id(part) for parts in open_runs.values() for part in parts}
    load = _Load(nodes)
    kept = [request for request in requests if id(request) not in open_parts]
    for request in kept:
        load.add(request)
    division = _Division(load)
    for parts in sorted(open_runs.values(), key=lambda p: (p[0].start_us, p[0].run_id, p[0].profile or "")):
        division.add(sorted(parts, key=_by_name))
    return kept + division.parts()


def _is_open(nodes: Mapping[str, Node], parts: Sequence[Wanted]) -> bool:
    """Whether a run's devices can be divided otherwise: it is on several nodes, and does not take all that they have."""
    if len(parts) < 2:
        return False
    bounds = [nodes[part.node].bound(part) for part in parts]
    return None not in bounds and any(part.count != bound for part, bound in zip(parts, bounds, strict=True))


class _Division:
    """Runs of which only a total is known, as they are divided so far."""

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._runs: list[list[Wanted]] = []
        self._by_place: dict[Place, deque[list[Wanted]]] = defaultdict(lambda: deque(maxlen=RUNS_MAX))
        self._moves = 0

    def parts(self) -> list[Wanted]:
        """The requests of all runs, divided."""
        return [part for run in self._runs for part in run if part.count]

    def add(self, parts: Sequence[Wanted]) -> None:
        """Divides one more run."""
        counts = self._beside_all(parts) or self._fitted(parts, exact=True) or [part.count for part in parts]
        divided = [replace(part, count=count) for part, count in zip(parts, counts, strict=True)]
        for part in divided:
            self._load.add(part)
            self._by_place[part.node, part.profile].append(divided)
        self._runs.append(divided)

    def _fitted(self, parts: Sequence[Wanted], *, exact: bool) -> list[int] | None:
        return _fit([part.count for part in parts], [self._load.room(part, exact=exact) for part in parts])

    def _beside_all(self, parts: Sequence[Wanted]) -> list[int] | None:
        """As many devices of each node as others leave free, after they made room. None where that is too little."""
        if (counts := self._fitted(parts, exact=False)) is not None:
            return counts
        self._moves = 0
        done: list[tuple[list[Wanted], int, int]] = []
        for part in parts:
            while self._make_room(part, DEPTH_MAX, done):
                if (counts := self._fitted(parts, exact=False)) is not None:
                    return counts
        while done:
            run, source, target = done.pop()
            self._move(run, target, source)
        return None

    def _make_room(self, part: Wanted, depth: int, done: list[tuple[list[Wanted], int, int]]) -> bool:
        """Moves devices of other runs off the node of `part` until one more is free there for all of its time."""
        room, known = self._load.room(part, exact=False), len(done)
        for run in list(self._by_place[part.node, part.profile]):
            for source in [n for n, own in enumerate(run) if self._in_the_way(own, part)]:
                for target, other in enumerate(run):
                    if target == source or self._moves >= MOVES_MAX:
                        continue
                    self._moves += 1
                    if self._load.room(other, exact=False) < 1 and (
                        depth <= 1 or not self._make_room(other, depth - 1, done)
                    ):
                        continue
                    if not run[source].count or self._load.room(other, exact=False) < 1:
                        continue
                    self._move(run, source, target)
                    done.append((run, source, target))
                    if self._load.room(part, exact=False) > room:
                        return True
                    break
        while len(done) > known:
            run, source, target = done.pop()
            self._move(run, target, source)
        return False

    def _in_the_way(self, own: Wanted, part: Wanted) -> bool:
        return (
            own.count > 0
            and (own.node, own.profile) == (part.node, part.profile)
            and own.run_id != part.run_id
            and own.start_us < part.end_us
            and own.end_us > part.start_us
        )

    def _move(self, run: list[Wanted], source: int, target: int) -> None:
        """Moves one device of a run to another of its nodes."""
        for number, change in ((source, -1), (target, 1)):
            self._load.add(replace(run[number], count=change))
            run[number] = replace(run[number], count=run[number].count + change)


def _fit(counts: Sequence[int], rooms: Sequence[int]) -> list[int] | None:
    """Counts of the same sum that fit into the rooms and differ least from `counts`. None where nothing fits."""
    if sum(rooms) < sum(counts):
        return None
    fitted = [min(count, room) for count, room in zip(counts, rooms, strict=True)]
    rest = sum(counts) - sum(fitted)
    for number, room in enumerate(rooms):
        more = min(rest, room - fitted[number])
        fitted[number] += more
        rest -= more
    return fitted


def _by_name(part: Wanted) -> list[tuple[int, str]]:
    """Numbers in names by their value, as Slurm lists nodes."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", part.node)]


class _Load:
    """How many devices of each node are held at once, by exact holds and by all."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._all: dict[Place, Spans] = defaultdict(Spans)
        self._exact: dict[Place, Spans] = defaultdict(Spans)

    def add(self, request: Wanted) -> None:
        """One more request that has its node."""
        node = self._nodes[request.node]
        place = request.node, node.kind(request)
        self._all[place].add(request.start_us, request.end_us, request.count)
        if request.gpus or node.indexed(request):
            self._exact[place].add(request.start_us, request.end_us, request.count)

    def room(self, request: Wanted, *, exact: bool) -> int:
        """How many devices of its node are free for all of the request's time: beside exact holds only, or all."""
        node = self._nodes[request.node]
        kind = node.kind(request)
        span = request.start_us, request.end_us
        slots = [slot for slot in node.slots if slot.profile == kind]
        held = [piece for slot in slots for piece in _held(slot, *span)]
        held += (self._exact if exact else self._all)[request.node, kind].meeting(*span)
        return max(len(slots) - most_units(held, request.start_us), 0)


def _held(slot: Slot, start_us: int, end_us: int) -> list[Span]:
    """The spans in which a device is held or away, each instant once."""
    spans = sorted(
        [(start, end) for start, end, _ in slot.held.meeting(start_us, end_us)]
        + [(start, end) for start, end in slot.away if start < end_us and end > start_us]
    )
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), 1)
        else:
            merged.append((start, end, 1))
    return merged
