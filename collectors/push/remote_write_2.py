"""Series of remote-write 2.0 by the numbers of their texts.

Each request brings its texts anew and in another order, and a series refers to them by place. The texts of a sender have
numbers here that stay, so the places of all series of a request become such numbers at once, and what they are in a row
is looked up as one key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_SYMBOLS = 500_000
"""Texts of one request."""
MAX_TEXT_BYTES = 8 * 1024
"""A longer text has no number: no label may have it."""
MAX_TRAILERS, MAX_TRAILER_BYTES = 10_000, 64
"""Ends of series that are known to hold no sample: what kind it is, when it began."""
TEXT_BYTES = 100
"""What a text takes in memory beside its bytes."""

ONE_SAMPLE = 18  # 12 10, then a sample: 09 value(8) 10 time(6); 6 bytes hold milliseconds of 1971 to 2109
ZERO_SAMPLE = 9  # 12 07, then 10 time(6): a value of 0 is not written
ZERO_HEAD = b"\x12\x10\x09" + bytes(8)
HEAD = b"\x12\x10\x09"
_LABELS, _LONGEST = 0x0A, 0x80  # tag of the places, and where longer ones end: their length takes two bytes
SHORTEST = 2 + 2 + ZERO_SAMPLE - 1
"""A series with a label and a sample is longer."""
_NO_NUMBER = -1
_VARINT_BYTES = 5


class Texts:
    """Texts of one cluster's senders by number, and the ends of series that hold no sample."""

    def __init__(self) -> None:
        self.size = 0
        self.trailers = {b"", b"\x2a\x02\x08\x02"}
        self._numbers: dict[bytes, int] = {}

    def numbers(self, symbols: Sequence[bytes]) -> NDArray[np.int32]:
        """The numbers of texts, new ones for those not seen before."""
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
        """Looks at the end of a series that was read whole, and remembers one without a sample or label."""
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
    """The series of a request: those of one sample with its bytes and the key of their labels, and the lines of others."""

    lines: list[int]
    tails: list[bytes]
    keys: list[bytes]
    """Empty where no key can stand for the labels."""
    others: list[int]


def split(series: Any, numbers: NDArray[np.int32], trailers: set[bytes]) -> Split:
    """Takes series apart by their bytes; `numbers` are those of the request's texts."""
    lines: list[int] = []
    tails: list[bytes] = []
    labels: list[bytes] = []
    others: list[int] = []
    add_line, add_tail, add_labels = lines.append, tails.append, labels.append
    for line, raw in enumerate(series, 1):
        # As _after_labels, written out: this runs for every sample.
        if len(raw) > SHORTEST and raw[0] == _LABELS and (after := raw[1] + 2) < _LONGEST:
            end = after + ONE_SAMPLE
            # The whole head of the sample is looked at for all of them at once, later.
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
    """For each list of places (packed varints that end where they should) the numbers of its texts, as bytes; empty where
    a place has none.
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
    """The place after the labels of a series that begins with them, 0 where it does not, or its places are torn."""
    if len(raw) <= SHORTEST or raw[0] != _LABELS or (after := raw[1] + 2) >= _LONGEST or len(raw) <= after:
        return 0
    return after if raw[after - 1] < 0x80 else 0
