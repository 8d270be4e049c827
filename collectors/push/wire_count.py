"""Counts the fields of a protobuf message on the wire, before anything is built from it.

Two bytes are enough for an empty series, label or data point, and a parser turns each into an object many times as large.
"""

from __future__ import annotations

from collections.abc import Mapping

REQUEST_UNCOUNTED = 1024 * 1024
"""Bytes of a request that need no count: its fields cannot take more than about 20 MB. Most requests are smaller."""
PART_UNCOUNTED = 64 * 1024
"""The same for a message within a request."""
MAX_FIELDS = 1_000_000
"""Limit of all fields of one message, known or not."""

_GROUPS = (3, 4)


class TooManyFields(ValueError):
    """A message has more of a field than allowed."""

    def __init__(self, number: int) -> None:
        super().__init__(f"too many of field {number}")
        self.number = number
        """The field's number; 0: too many fields in all."""


def check(message: bytes, most: Mapping[int, int], uncounted: int = PART_UNCOUNTED, packed: int = 0) -> None:
    """Raises TooManyFields if a message has more of a field than `most` allows, by number, or than MAX_FIELDS in all.

    Only the outermost level is counted. `packed` is the number of a field of numbers whose bytes count instead, because
    they may be packed into one field. A message of up to `uncounted` bytes passes. Malformed bytes end the count: the
    parser does not read past them either.
    """
    if len(message) <= uncounted:
        return
    left = dict(most)
    fields, at, end = MAX_FIELDS, 0, len(message)
    try:
        while at < end:
            tag = message[at]
            at += 1
            if tag >= 0x80:
                tag, at = _varint(message, at - 1)
            number, kind = tag >> 3, tag & 7
            cost = 1
            if kind == 2:
                size = message[at]
                at += 1
                if size >= 0x80:
                    size, at = _varint(message, at - 1)
                at += size
                if number == packed:
                    cost = size
            elif kind == 0:
                while message[at] >= 0x80:
                    at += 1
                at += 1
            elif kind not in _GROUPS:  # The fields of a group follow it, and are counted like the others.
                at += 8 if kind == 1 else 4
            fields -= 1
            if fields < 0:
                raise TooManyFields(0)
            if number in left:
                left[number] -= cost
                if left[number] < 0:
                    raise TooManyFields(number)
    except IndexError:
        return


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number and the offset after it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError("a number of more than ten bytes")
