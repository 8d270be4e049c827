"""What the store was last told of each thing, so that only news is written, and all of it once an hour. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Any

from gpuwatch.core.clock import HOUR_US

NO_LONGER = "NoLongerWaits"
"""The reason of the last word on a request: its pods were placed, or are gone."""
REFRESH_US = HOUR_US
"""What does not change is written again this often."""

Columns = dict[str, Any]

_SPOKEN = frozenset({"evidence_us", "observed_us", "cluster"})
"""When something was said, not what. `cluster` is the writer's."""


def differs(told: Columns, said: Columns) -> bool:
    """Whether anything but the time of speaking differs; what is not named is NULL."""
    if told.keys() == said.keys():
        return any(value != said[name] for name, value in told.items() if name not in _SPOKEN)
    return any(told.get(name) != said.get(name) for name in (told.keys() | said.keys()) - _SPOKEN)


class Told:
    """The newest row of each thing, in the order in which they were written."""

    def __init__(self, most: int) -> None:
        """Keeps at most `most` things; more are written whenever they are said."""
        self._most = most
        self._rows: OrderedDict[Hashable, tuple[Columns, int]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows

    def is_news(self, key: Hashable, row: Columns, at_us: int) -> bool:
        """Takes a row as it is now; True where it is to be written."""
        told, written_us = self._rows.get(key, (None, 0))
        if told is not None and at_us - written_us < REFRESH_US and not differs(told, row):
            self._rows[key] = row, written_us
            return False
        if told is not None or len(self._rows) < self._most:
            self._rows[key] = row, at_us
            self._rows.move_to_end(key)
        return True

    def due(self, at_us: int) -> Iterator[Columns]:
        """Rows that were written too long ago; they count as written now."""
        while self._rows:
            key, (row, written_us) = next(iter(self._rows.items()))
            if at_us - written_us < REFRESH_US:
                return
            self._rows[key] = row, at_us
            self._rows.move_to_end(key)
            yield row

    def forget(self, key: Hashable) -> Columns | None:
        """Takes a thing out; returns its newest row."""
        return self._rows.pop(key, (None, 0))[0]
