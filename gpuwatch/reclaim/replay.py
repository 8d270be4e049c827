"""Replays a queue against GPUs that an idle limit would have released. Pure; each GPU goes to one request at most."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A request, from its submission to its start, or to when it was last seen waiting."""

    number: int
    team: str
    kind: int
    nodes: int
    devices: int
    """Devices on each of its nodes."""
    start_us: int
    end_us: int


@dataclass(frozen=True)
class Idle:
    """A device that was held and idle, on a node of one kind of place."""

    number: int
    node: str | None
    place: int
    start_us: int
    end_us: int


@dataclass(frozen=True)
class Served:
    """A request that starts sooner, and when."""

    request: Waiting
    at_us: int

    @property
    def sooner_us(self) -> int:
        return self.request.end_us - self.at_us


def served(
    idle: Iterable[Idle], requests: Iterable[Waiting], fits: Iterable[tuple[int, int]], limit_us: int
) -> list[Served]:
    """Requests that would have started sooner if GPUs were released after `limit_us` of idling, in order of their start.

    `fits` are pairs of kind of request and kind of place. Whenever a GPU is released or a request is submitted, the requests
    that wait are tried in order of submission; one that does not fit does not hold up the others. A request gets GPUs of one
    kind of place that are idle at that moment, and keeps them: they go to no other request.
    """
    replay = _Replay(fits)
    released = sorted(
        (one.start_us + limit_us, one.number, one) for one in idle if one.end_us - one.start_us > limit_us
    )  # numbers differ: what follows them is never compared
    done = 0
    for start_us, _, request in sorted((one.start_us, one.number, one) for one in requests):
        while done < len(released) and released[done][0] <= start_us:
            replay.release(released[done][0], released[done][2])
            done += 1
        replay.submit(request)
    for at_us, _, one in released[done:]:
        replay.release(at_us, one)
    return replay.done


class _Replay:
    """Released devices by place and node, and the requests that wait, in groups that need the same."""

    def __init__(self, fits: Iterable[tuple[int, int]]) -> None:
        self.done: list[Served] = []
        self._places: dict[int, list[int]] = defaultdict(list)
        self._kinds: dict[int, set[int]] = defaultdict(set)
        for kind, place in sorted(fits):
            self._places[kind].append(place)
            self._kinds[place].add(kind)
        self._free: dict[int, dict[str | None, list[tuple[int, int]]]] = defaultdict(dict)
        self._waiting: dict[tuple[int, int, int], deque[Waiting]] = {}

    def release(self, at_us: int, one: Idle) -> None:
        """A device is released, and goes to the longest-waiting request that fits, if any."""
        heapq.heappush(self._free[one.place].setdefault(one.node, []), (one.end_us, one.number))
        kinds = self._kinds[one.place]
        while self._serve_first(at_us, [shape for shape in self._waiting if shape[0] in kinds]):
            pass

    def submit(self, one: Waiting) -> None:
        """A request is submitted, and served where it fits."""
        shape = one.kind, one.nodes, one.devices
        line = self._waiting.setdefault(shape, deque())
        while line and line[0].end_us <= one.start_us:
            line.popleft()
        line.append(one)
        # Those before it in its line need the same and do not fit, or they would be served.
        if len(line) == 1 and one.end_us > one.start_us:
            self._serve(one.start_us, shape)

    def _serve(self, at_us: int, shape: tuple[int, int, int]) -> bool:
        """Serves the first request of a shape, if it fits."""
        for place in self._places[shape[0]]:
            if self._free[place] and self._take(at_us, place, shape[1], shape[2]):
                self.done.append(Served(self._waiting[shape].popleft(), at_us))
                return True
        return False

    def _serve_first(self, at_us: int, shapes: Sequence[tuple[int, int, int]]) -> bool:
        """Serves the longest-waiting request that fits, of the first of each shape."""
        heads = [(line[0].start_us, line[0].number, shape) for shape, line in self._heads(at_us, shapes)]
        return any(self._serve(at_us, shape) for _, _, shape in sorted(heads))

    def _heads(
        self, at_us: int, shapes: Iterable[tuple[int, int, int]]
    ) -> Iterator[tuple[tuple[int, int, int], deque[Waiting]]]:
        """Lines that are not empty, without those that wait no more."""
        for shape in shapes:
            line = self._waiting[shape]
            while line and line[0].end_us <= at_us:
                line.popleft()
            if line:
                yield shape, line

    def _take(self, at_us: int, place: int, nodes: int, devices: int) -> bool:
        """Takes devices on so many nodes, those with the fewest that suffice; False if there are too few."""
        enough = []
        nodes_free = self._free[place]
        for node, free in list(nodes_free.items()):
            while free and free[0][0] <= at_us:
                heapq.heappop(free)
            if not free:
                del nodes_free[node]
            elif len(free) >= devices and (node is not None or nodes == devices == 1):
                enough.append((len(free), node or "", node))
        if len(enough) < nodes:
            return False
        for _, _, node in sorted(enough, key=lambda one: one[:2])[:nodes]:
            free = self._free[place][node]
            for _ in range(devices):
                heapq.heappop(free)
        return True
