"""Fast path for remote-write 2.0: series that follow each other as before are compared with those, not looked up.

Like series_order.py, with keys that are numbers: many series are compared in one step of numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.push.remote_write_2 import Keys
from gpuwatch.collectors.push.series_order import FIRST_STEP, LAST_STEP, LearnedOrder

ENTRY_BYTES = 150
"""Memory of a series in addition to its key, which is there twice."""


class KeyOrder(LearnedOrder):
    """The known series of one cluster, in the order in which they came."""

    def _forget(self) -> None:
        super()._forget()
        self._place: dict[bytes, int] = {}
        self._texts, self._first, self._numbers = array("i"), array("q", [0]), array("i")

    def numbers(
        self, keys: Keys, number_of: Callable[[bytes, int], int], unknown: int, learn: bool
    ) -> NDArray[np.int32]:
        """The number of each series by `number_of(key, unknown)`. With `learn`, known series that are not in the order yet
        are added to it.
        """
        self._begin()
        found = np.full(len(keys), unknown, np.int32)
        at = jumps = 0
        while at < len(keys):
            key = keys.of(at)
            number = number_of(key, unknown)
            at += 1
            if number == unknown:
                continue
            found[at - 1] = number
            if (place := self._place.get(key)) is not None:
                jumps += 1
                same = self._same(keys, at, place + 1)
                found[at : at + same] = np.frombuffer(self._numbers, np.int32)[place + 1 : place + 1 + same]
                at += same
            elif learn:
                self._append(key, number)
        self._end(jumps, len(keys))
        return found

    def _same(self, keys: Keys, at: int, place: int) -> int:
        """How many keys from `at` on are those of the order from `place` on."""
        texts, first = np.frombuffer(self._texts, np.int32), np.frombuffer(self._first, np.int64)
        begin, known, step = at, len(self._numbers), FIRST_STEP
        while at < len(keys) and place < known:
            size = min(step, len(keys) - at, known - place)
            ours, theirs = keys.first[at : at + size + 1], first[place : place + size + 1]
            shorter = min(ours[-1] - ours[0], theirs[-1] - theirs[0])
            differ = keys.texts[ours[0] : ours[0] + shorter] != texts[theirs[0] : theirs[0] + shorter]
            same = (ours[1:] - ours[0] == theirs[1:] - theirs[0]) & (ours[1:] - ours[0] <= shorter)
            if differ.any():
                same &= ours[1:] - ours[0] <= np.argmax(differ)
            if not same.all():
                return at + int(np.argmin(same)) - begin
            at, place, step = at + size, place + size, min(8 * step, LAST_STEP)
        return at - begin

    def _append(self, key: bytes, number: int) -> None:
        self._place[key] = len(self._numbers)
        self._texts.frombytes(key)
        self._first.append(len(self._texts))
        self._numbers.append(number)
        self.size += 2 * len(key) + ENTRY_BYTES
