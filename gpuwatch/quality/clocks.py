"""Which clocks differ from ours: told by what answers with a date, or found in the times of what is pushed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Lock

import numpy as np

from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.model import Points, Records

CLOCKS_MAX = 20_000
"""Clocks that are followed; the one longest unheard gives way."""
SENDERS_MAX = 1_000
LOOKS = 16
"""The last looks at a clock that count."""
LOOKS_LEAST = 3
"""Nothing is said of a clock after fewer looks."""
LOOK_EVERY_US = 10 * SECOND_US
"""How often the times of a sender's samples are looked at."""
FRESH_US = 15 * MINUTE_US
"""A clock unheard for longer is not spoken of."""
AHEAD_US = 5 * SECOND_US
"""A clock further off than this is wrong: readings and scheduler times of its node no longer meet."""
BEHIND_OTHERS_US = MINUTE_US
"""Pushed samples are late by their way too: a node counts as behind only beside others of its sender."""


@dataclass(frozen=True)
class WrongClock:
    """A node, or a source, whose clock is ahead of ours (offset above 0) or behind."""

    cluster: str
    name: str
    offset_us: int


@dataclass
class _Clock:
    sender: str
    at_us: int = 0
    offsets: deque[int] = field(default_factory=lambda: deque(maxlen=LOOKS))


class Clocks:
    """Offsets of clocks from ours, in microseconds; safe in threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._clocks: OrderedDict[tuple[str, str], _Clock] = OrderedDict()
        self._looked: OrderedDict[str, int] = OrderedDict()

    def heard(self, cluster: str, name: str, offset_us: int, at_us: int) -> None:
        """A clock was read directly: it differs by `offset_us` from ours."""
        with self._lock:
            self._note(cluster, name, "", offset_us, at_us)

    def pushed(self, sender: str, batches: Sequence[Records | Points], now_us: int) -> None:
        """Looks, now and then, at the newest sample of every node in what a sender pushed."""
        with self._lock:
            if now_us - self._looked.get(sender, -LOOK_EVERY_US) < LOOK_EVERY_US:
                return
            self._looked[sender] = now_us
            self._looked.move_to_end(sender)
            if len(self._looked) > SENDERS_MAX:
                self._looked.popitem(last=False)
        newest = _newest(batches)
        with self._lock:
            for (cluster, node), at_us in newest.items():
                self._note(cluster, node, sender, at_us - now_us, now_us)

    def wrong(self, now_us: int) -> list[WrongClock]:
        """Every clock that is off for certain, the furthest first.

        A sample from the future is certain; one from the past may only be late, unless the sender's other nodes are not.
        """
        with self._lock:
            every = [
                (cluster, name, clock.sender, _offset(clock))
                for (cluster, name), clock in self._clocks.items()
                if len(clock.offsets) >= LOOKS_LEAST and now_us - clock.at_us <= FRESH_US
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

    def _note(self, cluster: str, name: str, sender: str, offset_us: int, at_us: int) -> None:
        clock = self._clocks.setdefault((cluster, name), _Clock(sender))
        if clock.sender != sender:  # another one speaks of it: its way is another
            clock = self._clocks[cluster, name] = _Clock(sender)
        clock.at_us = at_us
        clock.offsets.append(offset_us)
        self._clocks.move_to_end((cluster, name))
        if len(self._clocks) > CLOCKS_MAX:
            self._clocks.popitem(last=False)


def _offset(clock: _Clock) -> int:
    """Read directly: the middle of the looks. Of pushed samples: the least late."""
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
