"""Divides the devices of runs of which only a total is known over their nodes: as many on each as others leave free.

Pure: the result depends only on the arguments.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpuwatch.ledger.device_slots import Slot, Spans, most_units
from gpuwatch.ledger.placement_estimate import Node, Wanted

Span = tuple[int, int, int]
Place = tuple[str, str | None]
"""A node and the kind of its devices."""


def divide(nodes: Mapping[str, Node], wanted: Iterable[Wanted]) -> list[Wanted]:
    """The requests, those of a run with only a total (`totals`) divided over its nodes.

    They keep the division that they came with where it fits. Otherwise each node gets as much of it as it has free, and the
    rest goes to the nodes with more, in the order of their names. What exact holds leave free counts if nothing fits beside
    the estimated ones; if nothing fits beside those either, the division stays.
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
    for parts in sorted(open_runs.values(), key=lambda p: (p[0].start_us, p[0].run_id, p[0].profile or "")):
        for part in _divided(load, sorted(parts, key=_by_name)):
            load.add(part)
            kept.append(part)
    return kept


def _is_open(nodes: Mapping[str, Node], parts: Sequence[Wanted]) -> bool:
    """Whether a run's devices can be divided otherwise: it is on several nodes, and does not take all that they have."""
    if len(parts) < 2:
        return False
    bounds = [nodes[part.node].bound(part) for part in parts]
    return None not in bounds and any(part.count != bound for part, bound in zip(parts, bounds, strict=True))


def _divided(load: _Load, parts: Sequence[Wanted]) -> list[Wanted]:
    for exact in (False, True):
        counts = _fit([part.count for part in parts], [load.room(part, exact=exact) for part in parts])
        if counts is not None:
            return [replace(part, count=count) for part, count in zip(parts, counts, strict=True) if count]
    return list(parts)


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
