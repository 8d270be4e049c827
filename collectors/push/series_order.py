"""Fast path for remote-write 1.0: series that follow each other as before are compared with those, not looked up.

A sender repeats its series in the order of its scrapes. A look-up copies and hashes some 250 bytes of labels; a comparison
with the series that came next the last time does neither.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.push.remote_write_2 import ONE_SAMPLE, ZERO_HEAD, ZERO_SAMPLE

ENTRY_BYTES = 180
"""Memory of a series in addition to its labels."""
FIRST_STEP, LAST_STEP = 16, 4096
"""Series compared at a time: few at first, since the order may end soon."""
JUMPS_MAX, JUMPS_FEW = 0.25, 16
"""Part of a request's series, and their number, that may come in another order; above both the order is learned again."""
REQUESTS_MIN = 32
"""Requests before the order is learned again, since some senders have none."""

_ZERO_START = b"\x12\x07"
_ZERO_BYTES, _ZERO_ROW = np.frombuffer(_ZERO_START, np.uint8), np.frombuffer(ZERO_HEAD, np.uint8)
_ZERO_AT = ONE_SAMPLE - ZERO_SAMPLE


@dataclass(frozen=True)
class Split:
    """The series of a request: the known ones that end with one sample, in its order, and the lines of all others."""

    numbers: NDArray[np.int32]
    tails: NDArray[np.uint8]  # (series, ONE_SAMPLE): the sample of each, with the value 0 written out
    lines: NDArray[np.int64]  # from 1
    others: list[int]


class LearnedOrder:
    """An order of series, forgotten before the next request where most series come in another one."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes of memory."""
        self._forget()

    def _forget(self) -> None:
        self.size = self._requests = 0
        self._outdated = False

    def _begin(self) -> None:
        if self._outdated:
            self._forget()

    def _end(self, jumps: int, series: int) -> None:
        """A request with so many series ends, `jumps` of which were looked up in the order."""
        self._requests += 1
        self._outdated = self._requests >= REQUESTS_MIN and jumps > max(JUMPS_FEW, JUMPS_MAX * series)


class SeriesOrder(LearnedOrder):
    """The known series of one cluster, in the order in which they came."""

    def _forget(self) -> None:
        super()._forget()
        self._labels: list[bytes] = []
        self._lengths, self._numbers = array("i"), array("i")
        self._place: dict[int, int] = {}  # by the hash of the labels: a wrong place is no more than a failed comparison

    def split(self, series: Sequence[bytes], number_of: Callable[[bytes], int | None], learn: bool) -> Split:
        """Splits series by their bytes. `number_of(labels)` is the number of a series; None if it is new.

        With `learn`, known series that are not in the order yet are added to it.
        """
        self._begin()
        numbers, lengths = self._find(series, number_of, learn)
        samples = np.array(list(map(len, series)), np.int64) - lengths  # bytes after the labels
        known = np.flatnonzero((lengths >= 0) & ((samples == ONE_SAMPLE) | (samples == ZERO_SAMPLE)))
        at_hand = series if len(known) == len(series) else [series[at] for at in known.tolist()]
        tails = np.frombuffer(bytearray().join([raw[-ONE_SAMPLE:] for raw in at_hand]), np.uint8)
        tails = tails.reshape(-1, ONE_SAMPLE)
        zero = np.flatnonzero(samples[known] == ZERO_SAMPLE)
        of_zero = tails[zero, _ZERO_AT : _ZERO_AT + len(_ZERO_START)]
        tails[zero, : len(_ZERO_ROW)] = _ZERO_ROW
        tails[zero[(of_zero != _ZERO_BYTES).any(axis=1)]] = 0  # no sample
        others = np.ones(len(series), np.bool_)
        others[known] = False
        return Split(numbers[known], tails, known + 1, (np.flatnonzero(others) + 1).tolist())

    def _find(
        self, series: Sequence[bytes], number_of: Callable[[bytes], int | None], learn: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The number of each series and the length of its labels, -1 if it is new."""
        numbers, lengths = np.zeros(len(series), np.int32), np.full(len(series), -1, np.int64)
        at = jumps = 0
        while at < len(series):
            raw = series[at]
            labels = raw[:-ONE_SAMPLE]
            if (number := number_of(labels)) is None and raw[-ZERO_SAMPLE:-7] == _ZERO_START:
                labels = raw[:-ZERO_SAMPLE]
                number = number_of(labels)
            at += 1
            if number is None or len(raw) < ONE_SAMPLE:
                continue
            numbers[at - 1], lengths[at - 1] = number, len(labels)
            place = self._place.get(hash(labels))
            if place is not None and self._labels[place] == labels:
                jumps += 1
                same = self._same(series, at, place + 1)
                following = slice(place + 1, place + 1 + same)
                numbers[at : at + same] = np.frombuffer(self._numbers, np.int32)[following]
                lengths[at : at + same] = np.frombuffer(self._lengths, np.int32)[following]
                at += same
            elif learn:
                self._append(labels, number)
        self._end(jumps, len(series))
        return numbers, lengths

    def _same(self, series: Sequence[bytes], at: int, place: int) -> int:
        """How many series from `at` on begin with the labels from `place` on."""
        begin, known, step = at, self._labels, FIRST_STEP
        while at < len(series) and place < len(known):
            size = min(step, len(series) - at, len(known) - place)
            same = list(map(bytes.startswith, series[at : at + size], known[place : place + size]))
            if not all(same):
                return at + same.index(False) - begin
            at, place, step = at + size, place + size, min(8 * step, LAST_STEP)
        return at - begin

    def _append(self, labels: bytes, number: int) -> None:
        self._place[hash(labels)] = len(self._labels)
        self._labels.append(labels)
        self._lengths.append(len(labels))
        self._numbers.append(number)
        self.size += len(labels) + ENTRY_BYTES
