"""Looks up series of remote-write 2.0 by the numbers of their texts.

Each request has its own table of texts, in any order, and series refer to them by index. Here the texts of a sender have
lasting numbers: the indexes of all series of a request are translated at once, and the numbers of one series are its
look-up key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
class Split:
    """The series of a request: those with one sample as bytes and label key, and the lines of all others."""

    lines: list[int]
    tails: list[bytes]
    keys: list[bytes]
    """Empty if the labels have no key."""
    others: list[int]


def split(series: Any, numbers: NDArray[np.int32], trailers: set[bytes]) -> Split:
    """Splits series by their bytes; `numbers` are those of the request's texts."""
    lines: list[int] = []
    tails: list[bytes] = []
    labels: list[bytes] = []
    others: list[int] = []
    add_line, add_tail, add_labels = lines.append, tails.append, labels.append
    for line, raw in enumerate(series, 1):
        # Like _after_labels, but inlined: this runs for every sample.
        if len(raw) > SHORTEST and raw[0] == _LABELS and (after := raw[1] + 2) < _LONGEST:
            end = after + ONE_SAMPLE
            # The full head of the sample is checked later, for all samples at once.
            if raw[end:] in trailers and len(raw) >= end and raw[after + 1] == HEAD[1] and raw[after - 1] < 0x80:
                add_tail(raw[after:end])
                add_labels(raw[2:after])
                add_line(line)
                continue
            end = after + ZERO_SAMPLE
            if (
                raw[after : after + 2] == b"\x12\x07"
                and raw[end:] in trailers
                and len(raw) >= end
                and raw[after - 1] < 0x80
            ):
                add_tail(ZERO_HEAD + raw[after + 2 : end])
                add_labels(raw[2:after])
                add_line(line)
                continue
        others.append(line)
    return Split(lines, tails, keys(labels, numbers), others)


def keys(labels: Sequence[bytes], numbers: NDArray[np.int32]) -> list[bytes]:
    """The numbers of the texts of each list of indexes (complete packed varints), as bytes; empty if an index has no
    number.
    """
    if not labels:
        return []
    octets = np.frombuffer(b"".join(labels), np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    places = (octets[starts] & 0x7F).astype(np.int64)
    for byte in range(1, min(int(lengths.max()), _VARINT_BYTES)):
        longer = np.flatnonzero(lengths > byte)
        places[longer] |= (octets[starts[longer] + byte] & 0x7F).astype(np.int64) << 7 * byte
    bad = (places >= len(numbers)) | (lengths > _VARINT_BYTES)
    found = np.full(len(places), _NO_NUMBER, np.int32)
    found[~bad] = numbers[places[~bad]]
    last = np.searchsorted(ends, np.cumsum([len(each) for each in labels]) - 1) + 1
    first = np.concatenate([[0], last[:-1]])
    packed = found.tobytes()
    rows = [packed[4 * a : 4 * b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    for row in np.unique(np.searchsorted(last, np.flatnonzero(found == _NO_NUMBER), side="right")).tolist():
        rows[row] = b""
    return rows


def _after_labels(raw: bytes) -> int:
    """The offset after the labels of a series, 0 if it does not begin with labels or they are truncated."""
    if len(raw) <= SHORTEST or raw[0] != _LABELS or (after := raw[1] + 2) >= _LONGEST or len(raw) <= after:
        return 0
    return after if raw[after - 1] < 0x80 else 0
