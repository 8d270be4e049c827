"""What the store was told of a Ray head, so that only news is written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.ray.gpu_holders import actor_of, thing_of
from gpuwatch.collectors.ray.rows import SESSION, Picture, Row
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.model import Rejects

HEARTBEAT_US = MINUTE_US
"""What runs is held up to the newest evidence of its head: one claim is written again this often."""
REFRESH_US = HOUR_US
"""What does not change is written again this often."""
MAX_ENDED = 200_000
MAX_ROWS = 200_000
"""Workloads, nodes and requests that are remembered, each."""

GROUP_ID_CHARS = 36

Columns = dict[str, Any]
Key = tuple[str, str, str]
"""run_key, unit and node of a claim."""

_TIMES = frozenset({"evidence_us", "observed_us"})
_LATER = frozenset({"device_indexes", "gpus"})
"""Told once a worker reports what it uses; what was told stays."""


@dataclass
class _Open:
    """A claim that has not ended, as it was last written."""

    row: Columns
    alive_us: int
    written_us: int


class Book:
    """Turns the pictures of one head, one a poll, into the rows that the store does not have."""

    def __init__(self) -> None:
        self._open: dict[Key, _Open] = {}
        self._ended: OrderedDict[Key, int] = OrderedDict()
        self._last: OrderedDict[tuple[str, str], tuple[Key, int]] = OrderedDict()
        """Where a bundle or actor was last seen holding, and when: Ray tells no later start when it comes back."""
        self._told: dict[tuple[Any, ...], tuple[Columns, int]] = {}
        self._spoken_us = 0

    def remember(self, claims: Iterable[Columns], session: str) -> None:
        """Takes the open claims that the store has of a session; those of other sessions are other heads'."""
        for row in claims:
            if row["run_key"].rpartition(SESSION)[2] == session and row["start_us"] is not None:
                evidence = max(row["evidence_us"] or 0, row["start_us"])
                known = {name: value for name, value in row.items() if name != "cluster"}
                self._open[_key(row)] = _Open(known, evidence, evidence)
                self._saw(_key(row), evidence)
                self._spoken_us = max(self._spoken_us, evidence)

    def units(self) -> set[str]:
        """Units that the store believes to hold GPUs, by id."""
        return {unit for _, unit, _ in self._open}

    def news(self, rows: Iterable[Row], seen: Picture, cut: Collection[str], at_us: int, rejects: Rejects) -> list[Row]:
        """Rows that say something new of a poll at `at_us`.

        `cut` holds the kinds of unit (group, actor, task) of which the answer was not complete: there, absence says
        nothing.
        """
        news: list[Row] = []
        present: set[Key] = set()
        said: dict[tuple[Any, ...], Row] = {}
        for table, row in rows:
            if table == "claim":
                present.add(_key(row))
                news += self._claim(row, at_us)
            elif len(said) < 3 * MAX_ROWS:
                said[_name(table, row)] = table, row
            else:
                rejects.add("more workloads than are remembered", "ray", 0)
        kinds = {unit.uid: unit.kind for unit in seen.units}
        for key in [key for key in self._open if key not in present]:
            if _kind(key[1], kinds) not in cut:
                news += self._gone(key, seen)
        news += self._others(said, bool(cut), at_us)
        return news + self._heartbeat()

    def close(self) -> list[Row]:
        """Ends everything when it was last seen: its head runs no longer."""
        return [
            row for key in list(self._open) for row in self._end(key, self._open[key].row, self._open[key].alive_us)
        ]

    def _claim(self, row: Columns, at_us: int) -> list[Row]:
        key = _key(row)
        known = self._open.get(key)
        if not (row := self._after(key, known, row)):
            return []
        self._saw(key, at_us if row["end_us"] is None else row["end_us"])
        if row["end_us"] is not None:
            if known is None and self._ended.get(key) == row["end_us"]:
                self._ended.move_to_end(key)
                return []
            return self._end(key, _kept(known.row, row) if known else row, row["end_us"])
        if known is None:
            self._open[key] = _Open(row, at_us, at_us)
            self._spoken_us = max(self._spoken_us, row["evidence_us"])
            return [("claim", row)]
        row = _kept(known.row, row)
        changed = _differs(known.row, row)
        known.row, known.alive_us = row, at_us
        if not changed and at_us - known.written_us < REFRESH_US:
            return []
        known.written_us = at_us
        self._spoken_us = max(self._spoken_us, row["evidence_us"])
        return [("claim", row)]

    def _after(self, key: Key, known: _Open | None, row: Columns) -> Columns:
        """The row, begun no earlier than where it was last held elsewhere or before; empty if nothing is left."""
        if known is not None:
            return row if thing_of(key[1]) == key[1] else row | {"start_us": known.row["start_us"]}
        before, seen_us = self._last.get((key[0], thing_of(key[1])), (key, 0))
        if before == key or seen_us <= row["start_us"]:
            return row
        return row | {"start_us": seen_us} if row["end_us"] is None or row["end_us"] > seen_us else {}

    def _saw(self, key: Key, at_us: int) -> None:
        thing = key[0], thing_of(key[1])
        if thing[1] != key[1] or actor_of(key[1]):
            self._last[thing] = key, at_us
            self._last.move_to_end(thing)
            while len(self._last) > MAX_ROWS:
                self._last.popitem(last=False)

    def _gone(self, key: Key, seen: Picture) -> list[Row]:
        """A holder that is not listed any more: gone with its job, else when it was last seen."""
        known = self._open[key]
        job = seen.jobs.get(known.row["job_id"])
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
        self._spoken_us = max(self._spoken_us, end_us)
        return [("claim", row | {"end_us": end_us, "evidence_us": end_us})]

    def _others(self, said: dict[tuple[Any, ...], Row], cut: bool, at_us: int) -> list[Row]:
        """Changed workloads, nodes and requests; the last word of those that are gone."""
        news: list[Row] = []
        for name in [name for name in self._told if name not in said]:
            if cut and name[0] == "workload" and len(self._told) < 3 * MAX_ROWS:
                continue  # it may be among what was left out
            row, _ = self._told.pop(name)
            if name[0] == "workload" and row["state"] == "pending":
                news.append(("workload", row | {"state": "admitted", "reason": None, "observed_us": at_us}))
            elif name[0] == "node" and row["state"] != "down":
                gone = {"state": "down", "since_us": at_us, "reason": "gone from Ray", "observed_us": at_us}
                news.append(("node", row | gone))
        for name, (table, row) in said.items():
            told, written_us = self._told.get(name, ({}, 0))
            if not told or _differs(told, row) or (at_us - written_us >= REFRESH_US and row.get("end_us") is None):
                news.append((table, row))
                written_us = at_us
            self._told[name] = row, written_us
        return news

    def _heartbeat(self) -> list[Row]:
        newest = max(self._open.values(), key=lambda one: one.alive_us, default=None)
        if newest is None or newest.alive_us - self._spoken_us < HEARTBEAT_US:
            return []
        self._spoken_us = newest.alive_us
        return [("claim", newest.row | {"evidence_us": newest.alive_us})]


def _key(row: Columns) -> Key:
    return row["run_key"], row["pod_uid"], row["node"]


def _kind(unit: str, kinds: dict[str, str]) -> str:
    """Kind of a unit that may not be listed any more: bundles have a number, tasks the longer id."""
    group = len(unit.partition("/")[0]) == GROUP_ID_CHARS
    return kinds.get(unit) or ("group" if group else "actor" if actor_of(unit) else "task")


def _name(table: str, row: Columns) -> tuple[Any, ...]:
    return table, row.get("uid") or row.get("node") or row["job_id"]


def _kept(told: Columns, said: Columns) -> Columns:
    """What is said, with the devices that were told before: two answers for one holder would both be counted."""
    known = [name for name in _LATER if told.get(name) is not None]
    kept = {name: told.get(name) for name in _LATER} if known else {}
    return said | kept | {"start_us": min(told["start_us"], said["start_us"])}


def _differs(told: Columns, said: Columns) -> bool:
    """Whether anything but the time of speaking differs; what is not named is NULL."""
    return any(told.get(name) != said.get(name) for name in (told.keys() | said.keys()) - _TIMES)
