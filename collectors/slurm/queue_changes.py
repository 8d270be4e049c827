"""Tracks which workloads, queues and reservations are in the store, so that only changes are written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US, REFRESH_US
from gpuwatch.core.model import Rejects

MAX_WORKLOADS = 500_000
"""Workloads that are tracked at once."""
_VOLATILE = frozenset({"observed_us", "priority"})
"""Columns whose change alone is not written: a waiting job's priority grows at every poll."""
CONTINUES = frozenset({"RESIZING", "REQUEUED"})
"""States in which a run ended but its job goes on."""

Columns = dict[str, Any]


@dataclass
class _Tracked:
    row: Columns
    written_us: int
    seen_us: int
    """When Slurm last listed it."""
    loaded_us: int = 0
    """When it was loaded from the store, 0 if it was not."""


class QueueChanges:
    """Turns the state of Slurm at each poll into the rows that the store does not have. One object per cluster."""

    def __init__(self) -> None:
        self._workloads: dict[str, _Tracked] = {}
        self._queues: dict[tuple[str, ...], _Tracked] = {}

    def remember(self, rows: Iterable[Columns], at_us: int) -> None:
        """Loads the workloads and queues in the store that have not ended, so that their ends are written."""
        for row in rows:
            observed_us = row["observed_us"] or 0
            if row["scheduler"] != "slurm":
                continue
            if "uid" in row and len(self._workloads) < MAX_WORKLOADS:
                self._workloads[row["uid"]] = _Tracked(row, observed_us, observed_us, at_us)
            elif "uid" not in row:
                self._queues["queue", row["kind"], row["name"]] = _Tracked(row, observed_us, observed_us, at_us)

    def workloads(self, rows: Iterable[Row], at_us: int, rejects: Rejects) -> list[Row]:
        """Changes of all jobs at `at_us`. A job whose end was not observed ends when it was last seen."""
        jobs = {row["uid"]: row for table, row in rows if table == "workload"}
        changes: list[Row] = []
        for uid, row in jobs.items():
            if uid not in self._workloads and len(self._workloads) >= MAX_WORKLOADS:
                rejects.add(f"more than {MAX_WORKLOADS} workloads", "jobs", 0, uid)
                continue
            changes += _changes(self._workloads, uid, "workload", row, at_us)
        for uid in [uid for uid in self._workloads if uid not in jobs]:
            tracked = self._workloads[uid]
            if tracked.row["state"] != "finished":
                if at_us - max(tracked.seen_us, tracked.loaded_us) < CLOSE_AFTER_US:
                    continue
                changes.append(("workload", _finished(tracked.row, tracked.seen_us, tracked.row["reason"], at_us)))
            del self._workloads[uid]
        return changes

    def ended(self, allocations: Iterable[Row], at_us: int) -> list[Row]:
        """Last rows of workloads whose end accounting reported first; takes the rows of JobChanges.accounts."""
        ends = {row["job_id"]: row for table, row in allocations if table == "claim" and row["end_us"] is not None}
        changes: list[Row] = []
        for uid in ends.keys() & self._workloads.keys():
            tracked, end = self._workloads[uid], ends[uid]
            start_us = tracked.row["start_us"]
            continues = end["state"] in CONTINUES or start_us is None or start_us > end["start_us"]
            if tracked.row["state"] != "finished" and not continues:
                tracked.row = _finished(tracked.row, end["end_us"], end["state"], at_us)
                changes.append(("workload", tracked.row))
        return changes

    def queues(self, rows: Iterable[Row], at_us: int) -> list[Row]:
        """Changes of partitions, QOS and reservations; removed ones are written once more as deleted."""
        found: dict[tuple[str, ...], Columns] = {
            (table, row.get("kind", ""), row["name"]): row for table, row in rows if table in ("queue", "reservation")
        }
        changes: list[Row] = []
        for key, row in found.items():
            changes += _changes(self._queues, key, key[0], row, at_us)
        kinds = {key[:2] for key in found} | ({("reservation", "")} if found else set())
        for key in [key for key in self._queues if key not in found and key[:2] in kinds]:
            changes.append((key[0], self._queues.pop(key).row | {"state": "deleted", "observed_us": at_us}))
        return changes


def _changes(tracked: dict[Any, _Tracked], key: Any, table: str, row: Columns, at_us: int) -> list[Row]:
    last = tracked.get(key)
    if last is not None and at_us - last.written_us < REFRESH_US and not _differs(last.row, row):
        last.seen_us = at_us
        return []
    tracked[key] = _Tracked(row, at_us, at_us)
    return [(table, row)]


def _differs(old: Columns, new: Columns) -> bool:
    names = (old.keys() | new.keys()) - _VOLATILE
    return any(old.get(name) != new.get(name) for name in names)


def _finished(row: Columns, end_us: int, reason: str | None, at_us: int) -> Columns:
    return row | {"state": "finished", "end_us": end_us, "reason": reason, "observed_us": at_us}
