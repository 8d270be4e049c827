"""Tracks which queues, applications and allocations of YuniKorn are in the store, so that only changes are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuwatch.collectors.shared.changes import HEARTBEAT_US, REFRESH_US, TIMES, differs
from gpuwatch.collectors.shared.records import Columns, Row
from gpuwatch.collectors.yunikorn.applications import APPLICATION

MAX_ROWS = 500_000
"""The most rows of one table that are tracked."""
KEYS = {
    "queue": ("kind", "name", "namespace", "parent", "flavor"),
    "workload": ("kind", "uid"),
    "claim": ("pod_uid", "profile"),
}
IGNORED = TIMES | {APPLICATION}

Key = tuple[object, ...]


class YunikornChanges:
    """Turns the state of YuniKorn at each poll into the rows that the store does not have."""

    def __init__(self) -> None:
        self._written: dict[str, dict[Key, tuple[Columns, int]]] = {table: {} for table in KEYS}
        self._heartbeat_us = 0

    def remember(self, open_claims: Iterable[Columns]) -> None:
        """Loads the open allocations of this source in the store."""
        for row in open_claims:
            if row.get("kind") == "yunikorn" and row.get("pod_uid"):
                self._written["claim"][_key("claim", row)] = dict(row), row.get("evidence_us") or 0

    def remember_rows(self, table: str, rows: Iterable[Columns]) -> None:
        """Loads YuniKorn's queues ("queue") or open applications ("workload") in the store."""
        known = self._written[table]
        for row in rows:
            if row.get("scheduler") == "yunikorn" and len(known) < MAX_ROWS:
                known[_key(table, row)] = dict(row), row.get("observed_us") or 0

    def changes(self, rows: Iterable[Row], at_us: int, unparsed: Collection[str | None] = ()) -> list[Row]:
        """New and changed rows of a complete round at `at_us`, and last rows of what is no longer listed.

        `unparsed` names listed applications that could not be parsed, so that they and their allocations do not count
        as gone: "" for an application without a name, None for a queue, after which no queue counts as gone.
        """
        changes: list[Row] = []
        listed: dict[str, set[Key]] = {table: set() for table in KEYS}
        for table, row in rows:
            if table not in KEYS:
                changes.append((table, row))
                continue
            key, known = _key(table, row), self._written[table]
            listed[table].add(key)
            old, written_us = known.get(key, ({}, 0))
            if differs(old, row, IGNORED) or at_us - written_us >= REFRESH_US:
                if key in known or len(known) < MAX_ROWS:
                    known[key] = row, at_us
                changes.append((table, row))
        for table, known in self._written.items():
            gone = [key for key in known if key not in listed[table] and not _may_exist(table, known[key][0], unparsed)]
            changes += [(table, _last_row(table, known.pop(key)[0], at_us)) for key in gone]
        changes += self._heartbeat(at_us, {_key("claim", row) for table, row in changes if table == "claim"})
        return changes

    def _heartbeat(self, at_us: int, written: set[Key]) -> list[Row]:
        """Rewrites an allocation if none was written for a while: running ones count up to the newest evidence."""
        running = [row for row, _ in self._written["claim"].values()]
        if not running or at_us - self._heartbeat_us < HEARTBEAT_US:
            return []
        self._heartbeat_us = at_us
        if any(key in written for key in self._written["claim"]):
            return []
        return [("claim", running[0] | {"evidence_us": at_us})]


def _may_exist(table: str, row: Columns, unparsed: Collection[str | None]) -> bool:
    """Whether a row may belong to something that could not be parsed, also if its application is unknown."""
    if table == "queue":
        return None in unparsed
    names = {name for name in unparsed if name is not None}
    return bool(names) and ("" in names or row.get(APPLICATION if table == "claim" else "name") in {*names, None})


def _last_row(table: str, row: Columns, at_us: int) -> Columns:
    if table == "claim":
        end_us = max(at_us, row["start_us"])
        return row | {"end_us": end_us, "evidence_us": end_us}
    ended = {"end_us": row.get("end_us") or at_us} if table == "workload" else {}
    state = row.get("state")
    kept = state if table == "workload" and state == "finished" else "deleted"
    return row | ended | {"state": kept, "observed_us": at_us}


def _key(table: str, row: Columns) -> Key:
    return tuple(row.get(name) for name in KEYS[table])
