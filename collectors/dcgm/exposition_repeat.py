"""A page of metrics that differs from the last one of its target in its values only: no line of it is looked at again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.dcgm.exposition import NO_TIME
from gpuwatch.collectors.shared.series import Samples

_VALUE = b"} "
"""What stands before a value."""


class Repeats:
    """The series of the last page, in its order, and the text between its values."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drops the page: its series have other numbers from now on."""
        self._between: list[bytes] = []
        self._series, self._line = np.empty(0, np.int32), np.empty(0, np.int64)

    def read(self, page: bytes) -> Samples | None:
        """The samples of a page like the last one; None where anything but its values differs."""
        if not self._between or not page.endswith(b"\n"):
            return None
        between, values = _cut(page)
        if values is None or between != self._between:
            return None
        return Samples(self._series, values, np.full(len(values), NO_TIME), self._line)

    def learn(self, page: bytes, samples: Samples) -> None:
        """Remembers a page that was read without any refusal, where its samples are those that stand behind braces."""
        self.forget()
        between, values = _cut(page)
        if values is None or not np.array_equal(values, samples.value, equal_nan=True):
            return
        if (samples.time_us != NO_TIME).any() or any(_last_line(text)[:1] == b"#" for text in between[:-1]):
            return
        self._between, self._series, self._line = between, samples.series, samples.line


def _cut(page: bytes) -> tuple[list[bytes], NDArray[np.float64] | None]:
    """The text before each value and after the last, and the values; None where one is no number alone."""
    pieces = [piece.partition(b"\n") for piece in (b"\n" + page).split(_VALUE)]
    texts = [text for text, _, _ in pieces[1:]]
    if b"_" in b"".join(texts):  # float() takes 1_000, the format does not
        return [], None
    try:
        values = np.array([float(text) for text in texts], np.float64)
    except ValueError:
        return [], None
    return [after for _, _, after in pieces], values


def _last_line(text: bytes) -> bytes:
    return text.rpartition(b"\n")[2]
