"""Which workloads, queues and reservations the store was told of, so that only news is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import CLOSE_AFTER_US, REFRESH_US
from gpuwatch.core.model import Rejects

MAX_TOLD = 500_000
"""Workloads that are kept at once."""
_RESTLESS = frozenset({"observed_us", "priority"})
"""Columns whose change alone is no news: a waiting job's priority grows with every look."""
GOES_ON = frozenset({"RESIZING", "REQUEUED"})
"""Ends of a run that are not the job's."""

Columns = dict[str, Any]


@dataclass
class _Told:
    row: Columns
    written_us: int
    seen_us: int
    """When Slurm last said it."""
    known_us: int = 0
    """Since when it is known here, where the store told it."""


class Standing:
    """Turns what Slurm says at each look into the rows that the store does not have. One object a cluster."""

    def __init__(self) -> None:
        self._workloads: dict[str, _Told] = {}
        self._queues: dict[tuple[str, ...], _Told] = {}

    def remember(self, rows: Iterable[Columns], at_us: int) -> None:
        """Takes workloads and queues that the store has and nobody ended, so that their ends are told."""
        for row in rows:
            said_us = row["observed_us"] or 0
            if row["scheduler"] != "slurm":
                continue
            if "uid" in row and len(self._workloads) < MAX_TOLD:
                self._workloads[row["uid"]] = _Told(row, said_us, said_us, at_us)
            elif "uid" not in row:
                self._queues["queue", row["kind"], row["name"]] = _Told(row, said_us, said_us, at_us)

    def workloads(self, rows: Iterable[Row], at_us: int, rejects: Rejects) -> list[Row]:
        """News of all jobs at `at_us`. A job that Slurm forgot before its end was seen ends when it was last seen."""
        said = {row["uid"]: row for table, row in rows if table == "workload"}
        news: list[Row] = []
        for uid, row in said.items():
            if uid not in self._workloads and len(self._workloads) >= MAX_TOLD:
                rejects.add(f"more than {MAX_TOLD} workloads", "jobs", 0, uid)
                continue
            news += _news(self._workloads, uid, "workload", row, at_us)
        for uid in [uid for uid in self._workloads if uid not in said]:
            told = self._workloads[uid]
            if told.row["state"] != "finished":
                if at_us - max(told.seen_us, told.known_us) < CLOSE_AFTER_US:
                    continue
                news.append(("workload", _finished(told.row, told.seen_us, told.row["reason"], at_us)))
            del self._workloads[uid]
        return news

    def ended(self, claims: Iterable[Row], at_us: int) -> list[Row]:
        """Last rows of workloads of which accounting told an end first. Claims are news of Book.accounts."""
        ends = {row["job_id"]: row for table, row in claims if table == "claim" and row["end_us"] is not None}
        news: list[Row] = []
        for uid in ends.keys() & self._workloads.keys():
            told, end = self._workloads[uid], ends[uid]
            goes_on = end["state"] in GOES_ON or told.row["start_us"] is None or told.row["start_us"] > end["start_us"]
            if told.row["state"] != "finished" and not goes_on:
                told.row = _finished(told.row, end["end_us"], end["state"], at_us)
                news.append(("workload", told.row))
        return news

    def queues(self, rows: Iterable[Row], at_us: int) -> list[Row]:
        """News of partitions, QOS and reservations; what is gone is told once more, as deleted."""
        said: dict[tuple[str, ...], Columns] = {
            (table, row.get("kind", ""), row["name"]): row for table, row in rows if table in ("queue", "reservation")
        }
        news: list[Row] = []
        for key, row in said.items():
            news += _news(self._queues, key, key[0], row, at_us)
        heard = {key[:2] for key in said} | ({("reservation", "")} if said else set())
        for key in [key for key in self._queues if key not in said and key[:2] in heard]:
            news.append((key[0], self._queues.pop(key).row | {"state": "deleted", "observed_us": at_us}))
        return news


def _news(told: dict[Any, _Told], key: Any, table: str, row: Columns, at_us: int) -> list[Row]:
    known = told.get(key)
    if known is not None and at_us - known.written_us < REFRESH_US and not _differs(known.row, row):
        known.seen_us = at_us
        return []
    told[key] = _Told(row, at_us, at_us)
    return [(table, row)]


def _differs(told: Columns, said: Columns) -> bool:
    names = (told.keys() | said.keys()) - _RESTLESS
    return any(told.get(name) != said.get(name) for name in names)


def _finished(row: Columns, end_us: int, reason: str | None, at_us: int) -> Columns:
    return row | {"state": "finished", "end_us": end_us, "reason": reason, "observed_us": at_us}
