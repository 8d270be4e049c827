"""Tracks which rows of a Ray head are in the store, so that only changes are written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.ray.gpu_holders import actor_of, base_id
from gpuwatch.collectors.ray.rows import SESSION, HeadState
from gpuwatch.collectors.shared.changes import HEARTBEAT_US, REFRESH_US, differs
from gpuwatch.collectors.shared.records import Columns, Row
from gpuwatch.core.model import Rejects

MAX_ENDED = 200_000
MAX_ROWS = 200_000
"""The number of workloads, nodes and requests that are tracked, each."""

GROUP_ID_CHARS = 36

Key = tuple[str, str, str]
"""run_key, unit and node of an allocation."""

_DEVICE_COLUMNS = frozenset({"device_indexes", "gpus"})
"""Known once a worker reports which devices it uses; the first values are kept."""


@dataclass
class _Open:
    """An allocation that has not ended, as last written."""

    row: Columns
    alive_us: int
    written_us: int


class RayChanges:
    """Turns the state of a head at each poll into the rows that the store does not have."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self._ended: OrderedDict[Key, int] = OrderedDict()
        self._last: OrderedDict[tuple[str, str], tuple[Key, int]] = OrderedDict()
        """Where and when a bundle or actor last held GPUs: Ray keeps the old start when it is restarted."""
        self._written: dict[tuple[Any, ...], tuple[Columns, int]] = {}
        self._newest_evidence_us = 0

    def remember(self, claims: Iterable[Columns], session: str) -> None:
        """Loads the open allocations in the store that belong to a session; other sessions are other heads."""
        for row in claims:
            if row["run_key"].rpartition(SESSION)[2] == session and row["start_us"] is not None:
                evidence = max(row["evidence_us"] or 0, row["start_us"])
                known = {name: value for name, value in row.items() if name != "cluster"}
                self._open[_key(row)] = _Open(known, evidence, evidence)
                self._note_seen(_key(row), evidence)
                self._newest_evidence_us = max(self._newest_evidence_us, evidence)

    def units(self) -> set[str]:
        """Ids of the units that hold GPUs according to the store."""
        return {unit for _, unit, _ in self._open}

    def changes(
        self, rows: Iterable[Row], head: HeadState, truncated: Collection[str], at_us: int, rejects: Rejects
    ) -> list[Row]:
        """New and changed rows of a poll at `at_us`.

        `truncated` has the kinds of unit (group, actor, task) whose list was incomplete, so that a missing unit is not
        taken for ended.
        """
        changes: list[Row] = []
        present: set[Key] = set()
        others: dict[tuple[Any, ...], Row] = {}
        for table, row in rows:
            if table == "claim":
                present.add(_key(row))
                changes += self._allocation(row, at_us)
            elif len(others) < 3 * MAX_ROWS:
                others[_name(table, row)] = table, row
            else:
                rejects.add("more workloads than can be tracked", "ray", 0)
        kinds = {unit.uid: unit.kind for unit in head.units}
        for key in [key for key in self._open if key not in present]:
            if _kind(key[1], kinds) not in truncated:
                changes += self._gone(key, head)
        changes += self._removed(others, bool(truncated), at_us)
        changes += self._changed(others, at_us)
        return changes + self._heartbeat()

    def close(self) -> list[Row]:
        """Ends all allocations when they were last seen, because their head no longer runs."""
        return [
            row for key in list(self._open) for row in self._end(key, self._open[key].row, self._open[key].alive_us)
        ]

    def _allocation(self, row: Columns, at_us: int) -> list[Row]:
        key = _key(row)
        known = self._open.get(key)
        if not (row := self._after_last_seen(key, known, row)):
            return []
        self._note_seen(key, at_us if row["end_us"] is None else row["end_us"])
        if row["end_us"] is not None:
            if known is None and self._ended.get(key) == row["end_us"]:
                self._ended.move_to_end(key)
                return []
            return self._end(key, _kept(known.row, row) if known else row, row["end_us"])
        if known is None:
            self._open[key] = _Open(row, at_us, at_us)
            self._newest_evidence_us = max(self._newest_evidence_us, row["evidence_us"])
            return [("claim", row)]
        row = _kept(known.row, row)
        changed = differs(known.row, row)
        known.row, known.alive_us = row, at_us
        if not changed and at_us - known.written_us < REFRESH_US:
            return []
        known.written_us = at_us
        self._newest_evidence_us = max(self._newest_evidence_us, row["evidence_us"])
        return [("claim", row)]

    def _after_last_seen(self, key: Key, known: _Open | None, row: Columns) -> Columns:
        """The row, starting after the unit was last seen elsewhere or before a restart; empty if nothing remains."""
        if known is not None:
            return row if base_id(key[1]) == key[1] else row | {"start_us": known.row["start_us"]}
        before, seen_us = self._last.get((key[0], base_id(key[1])), (key, 0))
        if before == key or seen_us <= row["start_us"]:
            return row
        return row | {"start_us": seen_us} if row["end_us"] is None or row["end_us"] > seen_us else {}

    def _note_seen(self, key: Key, at_us: int) -> None:
        unit = key[0], base_id(key[1])
        if unit[1] != key[1] or actor_of(key[1]):
            self._last[unit] = key, at_us
            self._last.move_to_end(unit)
            while len(self._last) > MAX_ROWS:
                self._last.popitem(last=False)

    def _gone(self, key: Key, head: HeadState) -> list[Row]:
        """Ends a unit that is no longer listed, at the end of its job if that came later, else when it was last seen."""
        known = self._open[key]
        job = head.jobs.get(known.row["job_id"])
        end = known.alive_us
        if job and job.end_us and job.end_us >= known.alive_us:
            end = job.end_us
        return self._end(key, known.row, end)

    def _end(self, key: Key, row: Columns, end_us: int) -> list[Row]:
        self._open.pop(key, None)
        self._ended[key] = end_us
        self._ended.move_to_end(key)
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        end_us = max(end_us, row["start_us"])
        self._newest_evidence_us = max(self._newest_evidence_us, end_us)
        return [("claim", row | {"end_us": end_us, "evidence_us": end_us})]

    def _removed(self, rows: dict[tuple[Any, ...], Row], truncated: bool, at_us: int) -> list[Row]:
        """Last rows of workloads and nodes that are no longer listed."""
        changes: list[Row] = []
        for name in [name for name in self._written if name not in rows]:
            if truncated and name[0] == "workload" and len(self._written) < 3 * MAX_ROWS:
                continue  # it may have been omitted
            row, _ = self._written.pop(name)
            if name[0] == "workload" and row["state"] == "pending":
                changes.append(("workload", row | {"state": "admitted", "reason": None, "observed_us": at_us}))
            elif name[0] == "node" and row["state"] != "down":
                gone = {"state": "down", "since_us": at_us, "reason": "gone from Ray", "observed_us": at_us}
                changes.append(("node", row | gone))
        return changes

    def _changed(self, rows: dict[tuple[Any, ...], Row], at_us: int) -> list[Row]:
        """New and changed workloads, nodes and requests."""
        changes: list[Row] = []
        for name, (table, row) in rows.items():
            old, written_us = self._written.get(name, ({}, 0))
            if not old or differs(old, row) or (at_us - written_us >= REFRESH_US and row.get("end_us") is None):
                changes.append((table, row))
                written_us = at_us
            self._written[name] = row, written_us
        return changes

    def _heartbeat(self) -> list[Row]:
        newest = max(self._open.values(), key=lambda one: one.alive_us, default=None)
        if newest is None or newest.alive_us - self._newest_evidence_us < HEARTBEAT_US:
            return []
        self._newest_evidence_us = newest.alive_us
        return [("claim", newest.row | {"evidence_us": newest.alive_us})]


def _key(row: Columns) -> Key:
    return row["run_key"], row["pod_uid"], row["node"]


def _kind(unit: str, kinds: dict[str, str]) -> str:
    """The kind of a unit that may no longer be listed, by the form of its id."""
    group = len(unit.partition("/")[0]) == GROUP_ID_CHARS
    return kinds.get(unit) or ("group" if group else "actor" if actor_of(unit) else "task")


def _name(table: str, row: Columns) -> tuple[Any, ...]:
    return table, row.get("uid") or row.get("node") or row["job_id"]


def _kept(old: Columns, new: Columns) -> Columns:
    """The new row with the devices of the old one, because two sets of devices for one unit would both be counted."""
    known = any(old.get(name) is not None for name in _DEVICE_COLUMNS)
    kept = {name: old.get(name) for name in _DEVICE_COLUMNS} if known else {}
    return new | kept | {"start_us": min(old["start_us"], new["start_us"])}
