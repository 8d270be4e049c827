"""Change tracking for live sources: which rows differ from what was last written to the store. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator

from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.model import Rejects

NO_LONGER_WAITS = "NoLongerWaits"
"""The reason in the last row of a request whose pods were placed or are gone."""
HEARTBEAT_US = MINUTE_US
"""What runs is held up to the newest evidence of any claim of the source, so one claim is written again this often."""
REFRESH_US = HOUR_US
"""An unchanged row is written again this often."""
TIMES = frozenset({"evidence_us", "observed_us", "cluster"})
"""Columns whose change alone is ignored: times of observation, and the cluster, which the writer fills in."""


def differs(old: Columns, new: Columns, ignored: Collection[str] = TIMES) -> bool:
    """Whether any column but the ignored ones differs; a missing column is NULL."""
    if old.keys() == new.keys():
        return any(value != new[name] for name, value in old.items() if name not in ignored)
    return any(old.get(name) != new.get(name) for name in old.keys() | new.keys() if name not in ignored)


class LastWritten:
    """The newest row of each object, ordered by when it was last written."""

    def __init__(self, max_rows: int, ignored: Collection[str] = TIMES) -> None:
        """Remembers at most `max_rows` objects; the rows of any others are written each time they are observed."""
        self._max_rows, self._ignored = max_rows, ignored
        self._rows: OrderedDict[Hashable, tuple[Columns, int]] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._rows

    def update(self, key: Hashable, row: Columns, at_us: int) -> bool:
        """Stores the current row of an object; returns True if it must be written."""
        old, written_us = self._rows.get(key, (None, 0))
        if old is not None and at_us - written_us < REFRESH_US and not differs(old, row, self._ignored):
            self._rows[key] = row, written_us
            return False
        if old is not None or len(self._rows) < self._max_rows:
            self._rows[key] = row, at_us
            self._rows.move_to_end(key)
        return True

    def due(self, at_us: int) -> Iterator[Columns]:
        """Yields the rows that were last written more than REFRESH_US ago and marks them as written now."""
        while self._rows:
            key, (row, written_us) = next(iter(self._rows.items()))
            if at_us - written_us < REFRESH_US:
                return
            self._rows[key] = row, at_us
            self._rows.move_to_end(key)
            yield row

    def forget(self, key: Hashable) -> Columns | None:
        """Removes an object and returns its newest row, None if it is unknown."""
        return self._rows.pop(key, (None, 0))[0]


class NewRejects:
    """Counts a rejected record once, not again at each poll."""

    def __init__(self) -> None:
        self._last_counts: dict[str, dict[str, int]] = {}

    def add(self, query: str, found: Rejects, rejects: Rejects) -> None:
        """Adds to `rejects` those in `found` that exceed the last response to the same query."""
        last = self._last_counts.get(query, {})
        for reason, count in found.counts.items():
            if count > last.get(reason, 0):
                rejects.add(reason, *found.first[reason], count=count - last.get(reason, 0))
        self._last_counts[query] = found.counts

    def since_last(self, found: Rejects) -> Rejects:
        """Those that exceed the last poll, for sources that poll everything at once."""
        new = Rejects()
        self.add("", found, new)
        return new
