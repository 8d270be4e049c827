"""Looks up series of remote-write 2.0 by the numbers of their texts.

Each request has its own table of texts, in any order, and series refer to them by index. Here the texts of a sender have
lasting numbers: the indexes of all series of a request are translated at once, and the numbers of one series are its
look-up key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

MAX_SYMBOLS = 250_000
"""Texts of one request."""
MAX_TEXT_BYTES = 8 * 1024
"""A longer text gets no number: labels may not be that long."""
MAX_TRAILERS, MAX_TRAILER_BYTES = 10_000, 64
"""Limits of the trailers: bytes after the sample (kind of metric, start) that contain no sample."""
TEXT_BYTES = 100
"""Memory of a text in addition to its bytes."""

ONE_SAMPLE = 18  # 12 10, then a sample: 09 value(8) 10 time(6); 6 bytes hold milliseconds of 1971 to 2109
ZERO_SAMPLE = 9  # 12 07, then 10 time(6): a value of 0 is not written
ZERO_HEAD = b"\x12\x10\x09" + bytes(8)
HEAD = b"\x12\x10\x09"
_LABELS, _LONGEST = 0x0A, 0x80  # tag of the indexes, and the end of those whose length takes one byte
SHORTEST = 2 + 2 + ZERO_SAMPLE - 1
"""A series with a label and a sample is longer than this."""
_ZERO_ROW = np.frombuffer(ZERO_HEAD, np.uint8)
_PADDING = bytes(2 + 0xFF + ONE_SAMPLE)
"""Behind the last series, so that a place that its bytes name is never beyond the end."""
_NO_NUMBER = -1
_VARINT_BYTES = 5


class Texts:
    """Numbers of the texts of one cluster's senders, and trailers without a sample."""

    def __init__(self) -> None:
        self.size = 0
        self.trailers = {b"", b"\x2a\x02\x08\x02"}
        self._numbers: dict[bytes, int] = {}

    def numbers(self, symbols: Sequence[bytes]) -> NDArray[np.int32]:
        """The numbers of texts; new texts get new numbers."""
        known = self._numbers
        found = [known.get(text) for text in symbols]
        for place, number in enumerate(found):
            if number is None:
                text = symbols[place]
                if len(text) > MAX_TEXT_BYTES:
                    found[place] = _NO_NUMBER
                    continue
                found[place] = known.setdefault(text, len(known))
                self.size += len(text) + TEXT_BYTES
        return np.array(found, np.int32)

    def learn(self, raw: bytes, kind: Any) -> None:
        """Remembers the trailer of a fully parsed series if it has no sample or label."""
        after = _after_labels(raw)
        if not after:
            return
        zero = raw[after : after + 2] == b"\x12\x07"
        trailer = raw[after + (ZERO_SAMPLE if zero else ONE_SAMPLE) :]
        if len(trailer) > MAX_TRAILER_BYTES or trailer in self.trailers or len(self.trailers) >= MAX_TRAILERS:
            return
        message = kind.FromString(trailer)
        if not message.samples and not message.labels_refs:
            self.trailers.add(trailer)


@dataclass(frozen=True)
class Keys:
    """The look-up keys of series: the numbers of their texts, one after the other."""

    texts: NDArray[np.int32]
    """_NO_NUMBER for a text without one."""
    first: NDArray[np.int64]
    """Where each key begins in `texts`, and the end of the last."""

    def __len__(self) -> int:
        return len(self.first) - 1

    def of(self, at: int) -> bytes:
        """One key, as bytes; empty if a text has no number."""
        texts = self.texts[self.first[at] : self.first[at + 1]]
        return b"" if (texts == _NO_NUMBER).any() else texts.tobytes()


@dataclass(frozen=True)
class Split:
    """The series of a request: those with one sample and a label key, and the lines of all others."""

    lines: NDArray[np.int64]  # from 1
    tails: NDArray[np.uint8]  # (series, ONE_SAMPLE): the sample of each, with the value 0 written out
    keys: Keys
    others: list[int]


def split(series: Sequence[bytes], numbers: NDArray[np.int32], trailers: Collection[bytes]) -> Split:
    """Splits series by their bytes, all at once; `numbers` are those of the request's texts."""
    lengths = np.fromiter(map(len, series), np.int64, len(series))
    octets = np.frombuffer(b"".join(series) + _PADDING, np.uint8)
    starts = np.cumsum(lengths) - lengths
    labels = octets[starts + 1].astype(np.int64)  # their bytes
    sample = starts + 2 + labels
    zero = octets[sample + 1] == ZERO_SAMPLE - 2
    ends = sample + np.where(zero, ZERO_SAMPLE, ONE_SAMPLE)
    left = starts + lengths - ends
    # The full head of a sample is checked later.
    good = (lengths > SHORTEST) & (octets[starts] == _LABELS) & (labels > 0) & (labels < _LONGEST - 2) & (left >= 0)
    good &= (octets[sample - 1] < 0x80) & (zero | (octets[sample + 1] == ONE_SAMPLE - 2)) & (octets[sample] == HEAD[0])
    found = np.flatnonzero(good)
    found = found[_known(octets, ends[found], left[found], trailers)]
    tails = sliding_window_view(octets, ONE_SAMPLE)[sample[found]]
    of_zero = np.flatnonzero(zero[found])
    tails[of_zero, len(ZERO_HEAD) :] = tails[of_zero, 2:ZERO_SAMPLE]
    tails[of_zero, : len(ZERO_HEAD)] = _ZERO_ROW
    others = np.ones(len(series), np.bool_)
    others[found] = False
    found_keys = _keys(octets, starts[found] + 2, labels[found], numbers)
    return Split(found + 1, tails, found_keys, (np.flatnonzero(others) + 1).tolist())


def _known(
    octets: NDArray[np.uint8], begin: NDArray[np.int64], sizes: NDArray[np.int64], trailers: Collection[bytes]
) -> NDArray[np.bool_]:
    """Which of these parts are trailers. Each metric with a help text has one of its own."""
    known: NDArray[np.bool_] = sizes == 0
    for size in np.unique(sizes[(sizes > 0) & (sizes <= MAX_TRAILER_BYTES)]).tolist():
        places = np.flatnonzero(sizes == size)
        parts = sliding_window_view(octets, size)[begin[places]]
        if (parts == parts[0]).all():
            known[places] = parts[0].tobytes() in trailers
            continue
        known[places] = [part in trailers for part in np.ascontiguousarray(parts).view(f"V{size}")[:, 0].tolist()]
    return known


def _keys(
    octets: NDArray[np.uint8], begin: NDArray[np.int64], sizes: NDArray[np.int64], numbers: NDArray[np.int32]
) -> Keys:
    """The numbers of the texts of each list of indexes (complete packed varints). `begin` and `sizes` say where in `octets`
    the lists are; none is empty.
    """
    if not len(begin):
        return Keys(np.empty(0, np.int32), np.zeros(1, np.int64))
    until = np.cumsum(sizes)
    indexes = octets[np.repeat(begin - until + sizes, sizes) + np.arange(until[-1])]
    ends = np.flatnonzero(indexes < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    places = (indexes[starts] & 0x7F).astype(np.int64)
    if len(ends) < len(indexes):
        lengths = ends - starts + 1
        for byte in range(1, min(int(lengths.max()), _VARINT_BYTES)):
            longer = np.flatnonzero(lengths > byte)
            places[longer] |= (indexes[starts[longer] + byte] & 0x7F).astype(np.int64) << 7 * byte
        places[lengths > _VARINT_BYTES] = len(numbers)
    texts = np.append(numbers, np.int32(_NO_NUMBER))[np.minimum(places, len(numbers))]
    first = np.zeros(len(begin) + 1, np.int64)
    first[1:] = np.searchsorted(ends, until - 1) + 1
    return Keys(texts, first)


def _after_labels(raw: bytes) -> int:
    """The offset after the labels of a series, 0 if it does not begin with labels or they are truncated."""
    if len(raw) <= SHORTEST or raw[0] != _LABELS or (after := raw[1] + 2) >= _LONGEST or len(raw) <= after:
        return 0
    return after if raw[after - 1] < 0x80 else 0
