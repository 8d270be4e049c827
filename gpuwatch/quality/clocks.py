"""Clocks that differ from ours: from answers with a date, or from the times of pushed samples."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Lock

import numpy as np

from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.model import Points, Records
from gpuwatch.store.time_bounds import Ahead

CLOCKS_MAX = 20_000
"""Clocks tracked at a time; the one not seen for the longest is dropped first."""
SENDERS_MAX = 1_000
READINGS = 16
"""Readings kept of a clock: the latest."""
READINGS_MIN = 3
"""A clock with fewer readings is not reported."""
READ_EVERY_US = 10 * SECOND_US
"""How often the times of a sender's samples are read."""
FRESH_US = 15 * MINUTE_US
"""A clock not read for longer is not reported."""
AHEAD_US = 5 * SECOND_US
"""A clock further off than this is wrong: samples and scheduler records of its node no longer match."""
BEHIND_OTHERS_US = MINUTE_US
"""Pushed samples are also late by their transport, so a node is behind only relative to others of its sender."""


@dataclass(frozen=True)
class WrongClock:
    """A node or source whose clock is ahead of ours (offset above 0) or behind."""

    cluster: str
    name: str
    offset_us: int


@dataclass
class _Clock:
    sender: str
    at_us: int = 0
    proven: bool = False
    offsets: deque[int] = field(default_factory=lambda: deque(maxlen=READINGS))


class Clocks:
    """Offsets of other clocks from ours, in microseconds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._clocks: OrderedDict[tuple[str, str], _Clock] = OrderedDict()
        self._read_at: OrderedDict[str, int] = OrderedDict()

    def record(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """Records a clock that was read directly: it differs by `offset_us` from ours."""
        with self._lock:
            self._note(cluster, name, "", offset_us, at_us)

    def record_ahead(self, source: str, ahead: Ahead) -> None:
        """Records a source with a time that had not come when it was read: one is proof that its clock is ahead."""
        name = f"records of {source} (node {ahead.node})" if ahead.node else f"records of {source}"
        with self._lock:
            self._note(ahead.cluster, name, "", ahead.by_us, ahead.at_us, proven=True)

    def record_pushed(self, sender: str, batches: Sequence[Records | Points], now_us: int) -> None:
        """Records the newest sample time of every node that a sender pushed, at most every READ_EVERY_US."""
        with self._lock:
            if now_us - self._read_at.get(sender, -READ_EVERY_US) < READ_EVERY_US:
                return
            self._read_at[sender] = now_us
            self._read_at.move_to_end(sender)
            if len(self._read_at) > SENDERS_MAX:
                self._read_at.popitem(last=False)
        newest = _newest(batches)
        with self._lock:
            for (cluster, node), at_us in newest.items():
                self._note(cluster, node, sender, at_us - now_us, now_us)

    def wrong(self, now_us: int) -> list[WrongClock]:
        """Every clock that is certainly wrong, the furthest off first.

        A sample from the future is proof. One from the past may just be late, unless the sender's other nodes are not.
        """
        with self._lock:
            every = [
                (cluster, name, clock.sender, _offset(clock))
                for (cluster, name), clock in self._clocks.items()
                if (clock.proven or len(clock.offsets) >= READINGS_MIN) and now_us - clock.at_us <= FRESH_US
            ]
        usual: dict[str, list[int]] = {}
        for _, _, sender, offset_us in every:
            usual.setdefault(sender, []).append(offset_us)
        found = []
        for cluster, name, sender, offset_us in every:
            if not sender or offset_us > 0:
                off_us, limit_us = offset_us, AHEAD_US
            else:
                off_us, limit_us = offset_us - round(median(usual[sender])), BEHIND_OTHERS_US
            if abs(off_us) > limit_us:
                found.append(WrongClock(cluster, name, off_us))
        return sorted(found, key=lambda clock: (-abs(clock.offset_us), clock.cluster, clock.name))

    def _note(self, cluster: str, name: str, sender: str, offset_us: int, at_us: int, *, proven: bool = False) -> None:
        clock = self._clocks.setdefault((cluster, name), _Clock(sender))
        if clock.sender != sender:  # reported by another sender, over another path
            clock = self._clocks[cluster, name] = _Clock(sender)
        clock.at_us, clock.proven = at_us, proven
        clock.offsets.append(offset_us)
        self._clocks.move_to_end((cluster, name))
        if len(self._clocks) > CLOCKS_MAX:
            self._clocks.popitem(last=False)


def _offset(clock: _Clock) -> int:
    """The median of direct readings; of pushed samples, the least late."""
    return max(clock.offsets) if clock.sender else round(median(clock.offsets))


def _newest(batches: Sequence[Records | Points]) -> dict[tuple[str, str], int]:
    """The newest sample of every (cluster, node) that the batches name."""
    places: dict[int, tuple[str, str]] = {}
    for batch in batches:
        if isinstance(batch, Records) and batch.table == "context":
            columns = (batch.rows[name].to_pylist() for name in ("context_id", "cluster", "node"))
            places |= {context: (cluster, node) for context, cluster, node in zip(*columns, strict=True) if node}
    newest: dict[tuple[str, str], int] = {}
    for batch in batches:
        if not isinstance(batch, Points) or not batch.rows.num_rows:
            continue
        numbers = batch.series["series"].to_numpy()
        series = batch.rows["series"].to_numpy()
        last = np.full(int(max(numbers.max(), series.max())) + 1, np.iinfo(np.int64).min)
        np.maximum.at(last, series, batch.rows["observed_us"].to_numpy())
        for number, context in zip(numbers.tolist(), batch.series["context_id"].to_pylist(), strict=True):
            place, at_us = places.get(context), int(last[number])
            if place is not None and at_us > newest.get(place, 0):
                newest[place] = at_us
    return newest
