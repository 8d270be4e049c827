"""Fast path for a scope of OTLP metrics that differs from an earlier one only in its times and values: it is not parsed again.

A collector sends the metrics of a target in the same order each time, and a data point's start, time and value have a fixed size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gpuwatch.collectors.shared.series import Samples

HEAD = 18  # 19 time(8), then 21 double(8) or 31 integer(8)
START = 9  # 11 start(8), before it
TIME, START_TIME, DOUBLE, WHOLE = 0x19, 0x11, 0x21, 0x31
HEADS = np.dtype([("time_tag", "u1"), ("time_ns", "<u8"), ("value_tag", "u1"), ("value", "<i8")])
POINT_BYTES = 150
"""Memory of a data point of a remembered scope, in addition to its bytes."""
POINTS_MAX = 20_000
"""Data points of a remembered scope; a target has some hundred."""
SCOPES_MAX = 4
"""Remembered scopes of a resource; a new one takes the place of the oldest."""

_SET = np.concatenate([np.arange(1, 9), np.arange(10, HEAD)]).astype(np.int32)
"""Bytes of a head that differ from time to time."""
_SET_START = np.arange(1, START, dtype=np.int32)


class Scope:
    """The bytes of a scope without its times and values, and what it gave."""

    def __init__(self, fixed: bytes, varying: NDArray[np.int32], seen: Seen, places: Sequence[int]) -> None:
        self._fixed, self._varying = fixed, varying
        kept = [at for at, number in enumerate(seen.numbers) if number is not None]
        self._heads = np.array([places[at] for at in kept], np.int32)
        self.numbers = np.array([seen.numbers[at] for at in kept], np.int32)
        """Numbers of the series whose points are kept."""
        self.lines = np.array(kept, np.int64) + 1
        """The lines of these points, from the first line of the scope on."""
        self.points = len(seen.numbers)
        """All data points."""
        self.metrics = seen.metrics
        self.refused = seen.refused
        """How many data points were refused, by reason."""
        self.memory = len(fixed) + POINT_BYTES * self.points
        """Bytes that it takes, about."""

    def heads(self, raw: bytes) -> NDArray[np.void] | None:
        """The HEADS of the points that are kept; None if anything but times and values differs."""
        octets = np.frombuffer(raw, np.uint8)
        blank = octets.copy()
        blank[self._varying] = 0
        if blank.tobytes() != self._fixed:
            return None
        if not len(self._heads):
            return np.empty(0, HEADS)
        return np.ascontiguousarray(sliding_window_view(octets, HEAD)[self._heads]).view(HEADS)[:, 0]


class Seen:
    """What is seen while a scope is parsed, in the order of its data points."""

    def __init__(self) -> None:
        self.metrics = 0
        self.points: list[bytes] = []
        self.numbers: list[int | None] = []
        """The number of each point's series; None for a point of a refused metric."""
        self.refused: Mapping[str, int] = {}
        self.odd = False
        """Whether something was read that a repetition would have to read again: a new series, an increment, a flag."""

    def add(self, points: Sequence[bytes], numbers: Sequence[int | None]) -> None:
        """Adds the data points of a metric. Nothing is kept of a scope with more than POINTS_MAX."""
        self.odd |= len(self.points) + len(points) > POINTS_MAX
        if self.odd:
            self.points, self.numbers = [], []
        else:
            self.points += points
            self.numbers += numbers

    def scope(self, raw: bytes) -> Scope | None:
        """The parsed scope, to be remembered; None if it cannot be."""
        if self.odd or not self.points:
            return None
        places, starts, at = [], [], 0
        for point in self.points:
            found = raw.find(point, at)
            if found < 0 or (head := head_of(point)) is None:
                return None
            at = found + len(point)
            places.append(found + head)
            if head:
                starts.append(found)
        heads, begins = np.array(places, np.int32)[:, None] + _SET, np.array(starts, np.int32)[:, None] + _SET_START
        varying = np.concatenate([heads.ravel(), begins.ravel()])
        blank = np.frombuffer(raw, np.uint8).copy()
        blank[varying] = 0
        return Scope(blank.tobytes(), varying, self, places)


class Found:
    """The readings of a request that are not parsed as full messages."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        """Numbers of the series of single data points; their `heads` and `lines` go with them."""
        self.heads: list[bytes] = []
        self.lines: list[int] = []
        self.repeated: list[tuple[Scope, NDArray[np.void], int]] = []
        """Repeated scopes with their HEADS, and the line before the first of each."""

    def samples(self) -> list[Samples]:
        """All readings, by how they were found."""
        lines = np.array(self.lines, np.int64)
        found = [_read(np.array(self.numbers, np.int32), np.frombuffer(b"".join(self.heads), HEADS), lines)]
        if self.repeated:
            numbers = np.concatenate([scope.numbers for scope, _, _ in self.repeated])
            heads = np.concatenate([heads for _, heads, _ in self.repeated])
            found.append(
                _read(numbers, heads, np.concatenate([scope.lines + line for scope, _, line in self.repeated]))
            )
        return found


def _read(numbers: NDArray[np.int32], heads: NDArray[np.void], lines: NDArray[np.int64]) -> Samples:
    """The readings of HEADS."""
    raw = np.ascontiguousarray(heads["value"])
    values = np.where(heads["value_tag"] == DOUBLE, raw.view(np.float64), raw.astype(np.float64))
    times = (heads["time_ns"] // 1000).astype(np.int64)
    return Samples(numbers, values, times, lines)


def head_of(point: bytes) -> int | None:
    """Where the time of a data point is that begins with its time and value, after a start if it has one; None for others."""
    head = START if point[:1] == b"\x11" else 0
    if len(point) < head + HEAD or point[head] != TIME or point[head + 9] not in (DOUBLE, WHOLE):
        return None
    return head
