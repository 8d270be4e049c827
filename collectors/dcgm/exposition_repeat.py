"""Fast path for a page that differs from the target's last page only in its values: its lines are not parsed again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.dcgm.exposition import NO_TIME
from gpuwatch.collectors.shared.series import Samples

_VALUE = b"} "
"""The text before a value."""


class Repeats:
    """The series of the last page, in order, and the text between its values."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drops the page, since its series get new numbers."""
        self._between: list[bytes] = []
        self._series, self._line = np.empty(0, np.int32), np.empty(0, np.int64)

    def read(self, page: bytes) -> Samples | None:
        """The samples of a page like the last one; None if anything but the values differs."""
        if not self._between or not page.endswith(b"\n"):
            return None
        between, values = _split(page)
        if values is None or between != self._between:
            return None
        return Samples(self._series, values, np.full(len(values), NO_TIME), self._line)

    def learn(self, page: bytes, samples: Samples) -> None:
        """Remembers a page that was read without refusals, if all its samples have labels."""
        self.forget()
        between, values = _split(page)
        if values is None or not np.array_equal(values, samples.value, equal_nan=True):
            return
        if (samples.time_us != NO_TIME).any() or any(_last_line(text)[:1] == b"#" for text in between[:-1]):
            return
        self._between, self._series, self._line = between, samples.series, samples.line


def _split(page: bytes) -> tuple[list[bytes], NDArray[np.float64] | None]:
    """The text before each value and after the last, and the values; None if one is not a plain number."""
    parts = [part.partition(b"\n") for part in (b"\n" + page).split(_VALUE)]
    texts = [text for text, _, _ in parts[1:]]
    if b"_" in b"".join(texts):  # float() accepts 1_000, the format does not
        return [], None
    try:
        values = np.array([float(text) for text in texts], np.float64)
    except ValueError:
        return [], None
    return [after for _, _, after in parts], values


def _last_line(text: bytes) -> bytes:
    return text.rpartition(b"\n")[2]
