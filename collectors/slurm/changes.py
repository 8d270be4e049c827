"""Which Slurm runs, requests and nodes the store was told of, so that only news is written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.records import Row
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.model import Rejects

HEARTBEAT_US = MINUTE_US
"""Running jobs are held up to the newest evidence of any claim: one claim is written again this often."""
REFRESH_US = HOUR_US
"""What does not change is written again this often: the bound on what a restart can forget."""
CLOSE_AFTER_US = 5 * MINUTE_US
"""How long a run that Slurm no longer knows may wait for its accounting record."""
MAX_ENDED = 200_000
MAX_REQUESTS = 500_000

Columns = dict[str, Any]
RunKey = tuple[str, str]
"""job_id and run_key of a claim."""

_SHAPE = ("kind", "node", "gpu_type", "profile", "device_count", "device_indexes", "gpus")
"""Columns that say which devices. The first writer's stay: two answers for one run would both be counted."""


@dataclass
class _Run:
    """A run that has not ended, as it was last written."""

    rows: list[Columns]
    alive_us: int
    """When Slurm last said that it ran."""
    written_us: int
    absent_since_us: int | None = None


class Book:
    """Turns what Slurm says at each poll into the rows that the store does not have.

    scontrol says which jobs run or wait and on which devices; sacct says how jobs ended. sacct's word that a job
    runs is not taken: a record whose end got lost says so for ever.
    """

    def __init__(self) -> None:
        self._open: dict[RunKey, _Run] = {}
        self._ended: OrderedDict[RunKey, tuple[int, str | None, list[Columns] | None]] = OrderedDict()
        self._requests: dict[tuple[Any, ...], tuple[Columns, int]] = {}
        self._nodes: dict[str, Columns] = {}
        self._spoken_us = 0

    def remember(self, claims: Iterable[Columns]) -> int | None:
        """Takes the open claims that the store has; returns their newest evidence (µs), None without any."""
        newest: int | None = None
        for row in claims:
            if row.get("start_us") is None:
                continue
            evidence = max(row.get("evidence_us") or 0, row["start_us"])
            run = self._open.setdefault((row["job_id"], row["run_key"]), _Run([], evidence, evidence))
            run.rows.append(row)
            run.alive_us = max(run.alive_us, evidence)
            newest = max(newest or 0, evidence)
        for run in self._open.values():
            run.rows.sort(key=_place)
        return newest

    def jobs(self, rows: list[Row], at_us: int, rejects: Rejects) -> list[Row]:
        """News of `scontrol show job` run at `at_us`; rows are those of parse_scontrol."""
        claims, requests = _by_run(rows), dict[tuple[Any, ...], Columns]()
        news: list[Row] = []
        for key, said in claims.items():
            if said[0]["end_us"] is not None:
                news += self._end(key, said)
            else:
                news += self._running(key, said, at_us)
        for key, run in self._open.items():
            if key not in claims:
                run.absent_since_us = run.absent_since_us or at_us
        for table, row in rows:
            if table == "pending":
                if len(requests) >= MAX_REQUESTS:
                    rejects.add(f"more than {MAX_REQUESTS} waiting requests", "scontrol show job", 0)
                    break
                requests[row["job_id"], row["profile"], row["gpu_type"]] = row | {"evidence_us": at_us}
        news += self._waiting(requests, at_us)
        return news + self._heartbeat()

    def accounts(self, rows: Iterable[Row]) -> list[Row]:
        """News of sacct: runs that ended. Rows are those of parse_sacct."""
        ended = [(key, said) for key, said in _by_run(rows).items() if said[0]["end_us"] is not None]
        return [row for key, said in ended for row in self._end(key, said)]

    def nodes(self, rows: Iterable[Row], at_us: int) -> list[Row]:
        """News of `scontrol show node`. A node that Slurm knows no longer is down from then on."""
        said = {row["node"]: row for table, row in rows if table == "node"}
        gone = {"state": "down", "since_us": at_us, "reason": "gone from Slurm's configuration", "observed_us": at_us}
        left = [name for name in self._nodes if said and name not in said]
        said |= {name: self._nodes[name] | gone for name in left}
        news = [row for name, row in said.items() if self._is_news(self._nodes.get(name), row, at_us)]
        self._nodes |= {row["node"]: row for row in news}
        for name in left:
            del self._nodes[name]
        return [("node", row) for row in news]

    def lost(self) -> list[RunKey]:
        """Open runs that Slurm does not list any more, longest absent first."""
        absent = [(run.absent_since_us, key) for key, run in self._open.items() if run.absent_since_us is not None]
        return [key for _, key in sorted(absent)]

    def close_lost(self, lost: Iterable[RunKey], at_us: int) -> list[Row]:
        """Ends those of the runs that stayed lost when they were last seen alive: a later end still counts."""
        news: list[Row] = []
        for key in [key for key in lost if key in self._open]:
            run = self._open[key]
            if run.absent_since_us is not None and at_us - run.absent_since_us >= CLOSE_AFTER_US:
                end_us = max(run.alive_us, run.rows[0]["start_us"])
                rows = [row | {"end_us": end_us, "evidence_us": end_us} for row in run.rows]
                news += self._written([("claim", row) for row in rows])
                self._retire(key, end_us, rows[0]["state"], run.rows)
        return news

    def _running(self, key: RunKey, said: list[Columns], at_us: int) -> list[Row]:
        run = self._open.get(key)
        located = all("device_indexes" in row for row in said)
        if run is None:
            if not located and said[0]["state"] == "CONFIGURING":
                return []  # its devices are told once it runs
            self._ended.pop(key, None)
            self._open[key] = _Run(said, said[0]["evidence_us"], at_us)
            return self._written([("claim", row) for row in said])
        rows = said if _same_shape(run.rows, said) else _shaped(run.rows, said[0], located)
        changed = any(_differs(old, new) for old, new in zip(run.rows, rows, strict=True))
        run.rows, run.alive_us, run.absent_since_us = rows, said[0]["evidence_us"], None
        if not changed and at_us - run.written_us < REFRESH_US:
            return []
        run.written_us = at_us
        return self._written([("claim", row) for row in rows])

    def _end(self, key: RunKey, said: list[Columns]) -> list[Row]:
        end_us, state = said[0]["end_us"], said[0]["state"]
        run, shape = self._open.get(key), None
        if run is not None:
            shape = run.rows
        elif key in self._ended:
            told_us, told_state, shape = self._ended[key]
            self._ended.move_to_end(key)
            settled = told_state == "COMPLETING" and state != told_state
            if end_us <= told_us and not settled:
                return []
        rows = _shaped(shape, said[0], False) if shape else said
        # Shapes are kept where a better end may follow, which is rare: memory stays small.
        self._retire(key, end_us, state, rows if state == "COMPLETING" else None)
        return self._written([("claim", row) for row in rows])

    def _retire(self, key: RunKey, end_us: int, state: str | None, shape: list[Columns] | None) -> None:
        self._open.pop(key, None)
        self._ended[key] = end_us, state, shape
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def _waiting(self, requests: dict[tuple[Any, ...], Columns], at_us: int) -> list[Row]:
        """New and changed requests, and the last word about those that wait no longer."""
        news: list[Row] = []
        for key, (row, written_us) in list(self._requests.items()):
            if key not in requests:
                del self._requests[key]
                if row["evidence_us"] > written_us:
                    news.append(("pending", row))
        for key, row in requests.items():
            told, written_us = self._requests.get(key, (None, 0))
            if told is None or _differs(told, row) or at_us - written_us >= REFRESH_US:
                news.append(("pending", row))
                written_us = at_us
            self._requests[key] = row, written_us
        return news

    def _heartbeat(self) -> list[Row]:
        alive = [run for run in self._open.values() if run.absent_since_us is None]
        newest = max(alive, key=lambda run: run.alive_us, default=None)
        if newest is None or newest.alive_us - self._spoken_us < HEARTBEAT_US:
            return []
        return self._written([("claim", newest.rows[0])])

    def _written(self, rows: list[Row]) -> list[Row]:
        self._spoken_us = max([self._spoken_us, *(row["evidence_us"] for _, row in rows)])
        return rows

    @staticmethod
    def _is_news(told: Columns | None, row: Columns, at_us: int) -> bool:
        return told is None or _differs(told, row) or at_us - (told["observed_us"] or 0) >= REFRESH_US


def _by_run(rows: Iterable[Row]) -> dict[RunKey, list[Columns]]:
    runs: dict[RunKey, list[Columns]] = {}
    for table, row in rows:
        if table == "claim":
            runs.setdefault((row["job_id"], row["run_key"]), []).append(row)
    for said in runs.values():
        said.sort(key=_place)
    return runs


def _place(row: Columns) -> tuple[str, str, str]:
    return row["node"] or "", row.get("gpu_type") or "", row.get("profile") or ""


def _same_shape(told: list[Columns], said: list[Columns]) -> bool:
    """Equal devices; indexes that were not told before may come later, and may not be told again."""
    if len(told) != len(said):
        return False
    names = [name for name in _SHAPE if name not in ("device_indexes", "gpus")]
    pairs = list(zip(told, said, strict=True))
    same = all(old.get(name) == new.get(name) for old, new in pairs for name in names)
    return same and all(old.get("device_indexes") in (None, new.get("device_indexes")) for old, new in pairs)


def _shaped(shape: list[Columns], said: Columns, located: bool) -> list[Columns]:
    """The devices of `shape` with what `said` says of the run. Labels of estimates are those of the shape."""
    kept = _SHAPE if located else (*_SHAPE, "labels")
    return [said | {name: row.get(name) for name in kept} for row in shape]


def _differs(told: Columns, said: Columns) -> bool:
    """Whether anything but the time of speaking differs; what is not named is NULL."""
    names = (told.keys() | said.keys()) - {"evidence_us", "observed_us"}
    return any(told.get(name) != said.get(name) for name in names)
