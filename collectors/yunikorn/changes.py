"""What the store was told of YuniKorn's queues, applications and allocations, so that only news is written. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.yunikorn.applications import APPLICATION
from gpuwatch.core.clock import HOUR_US, MINUTE_US

REFRESH_US = HOUR_US
"""What does not change is written again this often."""
HEARTBEAT_US = MINUTE_US
"""Allocations are held up to the newest evidence of any: one is written again this often."""
MAX_KEPT = 500_000
"""Rows of one table that are remembered."""
KEYS = {
    "queue": ("kind", "name", "namespace", "parent", "flavor"),
    "workload": ("kind", "uid"),
    "claim": ("pod_uid", "profile"),
}
TIMES = frozenset({"observed_us", "evidence_us", "cluster", APPLICATION})

Key = tuple[object, ...]
News = list[tuple[str, Columns]]


class Book:
    """Rows as they were last written, by what they are of."""

    def __init__(self) -> None:
        self._told: dict[str, dict[Key, tuple[Columns, int]]] = {table: {} for table in KEYS}
        self._beat_us = 0

    def remember(self, open_claims: Iterable[Columns]) -> None:
        """Takes the claims of this source that the store has open."""
        for row in open_claims:
            if row.get("kind") == "yunikorn" and row.get("pod_uid"):
                self._told["claim"][_key("claim", row)] = dict(row), row.get("evidence_us") or 0

    def remember_rows(self, table: str, rows: Iterable[Columns]) -> None:
        """Takes the queues ("queue") or applications ("workload") of YuniKorn that the store has open."""
        known = self._told[table]
        for row in rows:
            if row.get("scheduler") == "yunikorn" and len(known) < MAX_KEPT:
                known[_key(table, row)] = dict(row), row.get("observed_us") or 0

    def take(self, rows: Iterable[tuple[str, Columns]], at_us: int, unsure: Collection[str | None] = ()) -> News:
        """The news among what a whole round said at `at_us`. What is not said any more is gone: an allocation has
        ended, a queue or application is deleted. `unsure` names applications that could not be read: they are there,
        and so is what they hold. "" stands for one without a name, None for a queue, beside which none is known to be
        gone.
        """
        news: News = []
        said: dict[str, set[Key]] = {table: set() for table in KEYS}
        for table, row in rows:
            if table not in KEYS:
                news.append((table, row))
                continue
            key, known = _key(table, row), self._told[table]
            said[table].add(key)
            told, written_us = known.get(key, ({}, 0))
            if _differs(told, row) or at_us - written_us >= REFRESH_US:
                if key in known or len(known) < MAX_KEPT:
                    known[key] = row, at_us
                news.append((table, row))
        for table, known in self._told.items():
            gone = [key for key in known if key not in said[table] and not _spared(table, known[key][0], unsure)]
            news += [(table, _last(table, known.pop(key)[0], at_us)) for key in gone]
        news += self._heartbeat(at_us, {_key("claim", row) for table, row in news if table == "claim"})
        return news

    def _heartbeat(self, at_us: int, written: set[Key]) -> News:
        """One claim again where none was written for a while: what runs is held up to the newest evidence."""
        running = [row for row, _ in self._told["claim"].values()]
        if not running or at_us - self._beat_us < HEARTBEAT_US:
            return []
        self._beat_us = at_us
        if any(key in written for key in self._told["claim"]):
            return []
        return [("claim", running[0] | {"evidence_us": at_us})]


def _spared(table: str, row: Columns, unsure: Collection[str | None]) -> bool:
    """Whether a row may be of something that is there and could not be read. Of a claim of an earlier process nobody
    knows whose it is."""
    if table == "queue":
        return None in unsure
    names = {name for name in unsure if name is not None}
    return bool(names) and ("" in names or row.get(APPLICATION if table == "claim" else "name") in {*names, None})


def _last(table: str, row: Columns, at_us: int) -> Columns:
    """The last word of what is gone."""
    if table == "claim":
        end_us = max(at_us, row["start_us"])
        return row | {"end_us": end_us, "evidence_us": end_us}
    ended = {"end_us": row.get("end_us") or at_us} if table == "workload" else {}
    state = row.get("state")
    kept = state if table == "workload" and state == "finished" else "deleted"
    return row | ended | {"state": kept, "observed_us": at_us}


def _key(table: str, row: Columns) -> Key:
    return tuple(row.get(name) for name in KEYS[table])


def _differs(told: Columns, said: Columns) -> bool:
    names = (told.keys() | said.keys()) - TIMES
    return any(told.get(name) != said.get(name) for name in names)
