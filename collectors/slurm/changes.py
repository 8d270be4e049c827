"""Tracks which Slurm runs, requests and nodes are in the store, so that only changes are written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuwatch.collectors.shared.records import Row
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.core.model import Rejects

HEARTBEAT_US = MINUTE_US
"""Running jobs are charged up to the newest evidence of any allocation: one allocation is rewritten this often."""
REFRESH_US = HOUR_US
"""Unchanged rows are rewritten this often, which limits what a restart can lose."""
CLOSE_AFTER_US = 5 * MINUTE_US
"""How long to wait for the accounting record of a run that Slurm no longer lists."""
MAX_ENDED = 200_000
MAX_REQUESTS = 500_000

Columns = dict[str, Any]
RunKey = tuple[str, str]
"""job_id and run_key of an allocation."""

_DEVICE_COLUMNS = ("kind", "node", "gpu_type", "profile", "device_count", "device_indexes", "gpus")
"""Columns that identify the devices. The first ones written are kept: two sets for one run would both be counted."""


@dataclass
class _Run:
    """A run that has not ended, as last written."""

    rows: list[Columns]
    alive_us: int
    """When Slurm last reported it as running."""
    written_us: int
    absent_since_us: int | None = None


class JobChanges:
    """Turns the state of Slurm at each poll into the rows that the store does not have.

    scontrol reports which jobs run or wait and on which devices; sacct reports how jobs ended. sacct is not trusted
    for running jobs, because a record whose end was lost remains "running" forever.
    """

    def __init__(self) -> None:
        self._open: dict[RunKey, _Run] = {}
        self._ended: OrderedDict[RunKey, tuple[int, str | None, list[Columns] | None]] = OrderedDict()
        self._requests: dict[tuple[Any, ...], tuple[Columns, int]] = {}
        self._nodes: dict[str, Columns] = {}
        self._newest_evidence_us = 0

    def remember(self, claims: Iterable[Columns]) -> int | None:
        """Loads the open allocations in the store; returns their newest evidence (µs), None without any."""
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
            run.rows.sort(key=_device_order)
        return newest

    def jobs(self, rows: list[Row], at_us: int, rejects: Rejects) -> list[Row]:
        """Changes in `scontrol show job` at `at_us`; rows are those of parse_scontrol."""
        runs, requests = _by_run(rows), dict[tuple[Any, ...], Columns]()
        changes: list[Row] = []
        for key, allocations in runs.items():
            if allocations[0]["end_us"] is not None:
                changes += self._end(key, allocations)
            else:
                changes += self._running(key, allocations, at_us)
        for key, run in self._open.items():
            if key not in runs:
                run.absent_since_us = run.absent_since_us or at_us
        for table, row in rows:
            if table == "pending":
                if len(requests) >= MAX_REQUESTS:
                    rejects.add(f"more than {MAX_REQUESTS} waiting requests", "scontrol show job", 0)
                    break
                requests[row["job_id"], row["profile"], row["gpu_type"]] = row | {"evidence_us": at_us}
        changes += self._pending(requests, at_us)
        return changes + self._heartbeat()

    def accounts(self, rows: Iterable[Row]) -> list[Row]:
        """Newly ended runs in sacct; rows are those of parse_sacct."""
        ended = [(key, run) for key, run in _by_run(rows).items() if run[0]["end_us"] is not None]
        return [row for key, run in ended for row in self._end(key, run)]

    def nodes(self, rows: Iterable[Row], at_us: int) -> list[Row]:
        """Changes in `scontrol show node`. A node that is no longer listed is down from then on."""
        nodes = {row["node"]: row for table, row in rows if table == "node"}
        gone = {"state": "down", "since_us": at_us, "reason": "gone from Slurm's configuration", "observed_us": at_us}
        removed = [name for name in self._nodes if nodes and name not in nodes]
        nodes |= {name: self._nodes[name] | gone for name in removed}
        changes = [row for name, row in nodes.items() if self._is_change(self._nodes.get(name), row, at_us)]
        self._nodes |= {row["node"]: row for row in changes}
        for name in removed:
            del self._nodes[name]
        return [("node", row) for row in changes]

    def lost(self) -> list[RunKey]:
        """Open runs that Slurm no longer lists, longest absent first."""
        absent = [(run.absent_since_us, key) for key, run in self._open.items() if run.absent_since_us is not None]
        return [key for _, key in sorted(absent)]

    def close_lost(self, lost: Iterable[RunKey], at_us: int) -> list[Row]:
        """Ends runs that stayed lost at the time they were last seen alive; a later end still replaces this one."""
        changes: list[Row] = []
        for key in [key for key in lost if key in self._open]:
            run = self._open[key]
            if run.absent_since_us is not None and at_us - run.absent_since_us >= CLOSE_AFTER_US:
                end_us = max(run.alive_us, run.rows[0]["start_us"])
                rows = [row | {"end_us": end_us, "evidence_us": end_us} for row in run.rows]
                changes += self._written([("claim", row) for row in rows])
                self._retire(key, end_us, rows[0]["state"], run.rows)
        return changes

    def _running(self, key: RunKey, observed: list[Columns], at_us: int) -> list[Row]:
        run = self._open.get(key)
        located = all("device_indexes" in row for row in observed)
        if run is None:
            if not located and observed[0]["state"] == "CONFIGURING":
                return []  # its devices are known once it runs
            self._ended.pop(key, None)
            self._open[key] = _Run(observed, observed[0]["evidence_us"], at_us)
            return self._written([("claim", row) for row in observed])
        rows = observed if _same_devices(run.rows, observed) else _with_devices(run.rows, observed[0], located)
        changed = any(_differs(old, new) for old, new in zip(run.rows, rows, strict=True))
        run.rows, run.alive_us, run.absent_since_us = rows, observed[0]["evidence_us"], None
        if not changed and at_us - run.written_us < REFRESH_US:
            return []
        run.written_us = at_us
        return self._written([("claim", row) for row in rows])

    def _end(self, key: RunKey, observed: list[Columns]) -> list[Row]:
        end_us, state = observed[0]["end_us"], observed[0]["state"]
        run, written = self._open.get(key), None
        if run is not None:
            written = run.rows
        elif key in self._ended:
            written_end_us, written_state, written = self._ended[key]
            self._ended.move_to_end(key)
            is_final = written_state == "COMPLETING" and state != written_state
            if end_us <= written_end_us and not is_final:
                return []
        rows = _with_devices(written, observed[0], False) if written else observed
        # Rows are only kept where a better end may follow, to limit memory.
        self._retire(key, end_us, state, rows if state == "COMPLETING" else None)
        return self._written([("claim", row) for row in rows])

    def _retire(self, key: RunKey, end_us: int, state: str | None, rows: list[Columns] | None) -> None:
        self._open.pop(key, None)
        self._ended[key] = end_us, state, rows
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)

    def _pending(self, requests: dict[tuple[Any, ...], Columns], at_us: int) -> list[Row]:
        """New and changed requests, and the last known state of those that no longer wait."""
        changes: list[Row] = []
        for key, (row, written_us) in list(self._requests.items()):
            if key not in requests:
                del self._requests[key]
                if row["evidence_us"] > written_us:
                    changes.append(("pending", row))
        for key, row in requests.items():
            old, written_us = self._requests.get(key, (None, 0))
            if old is None or _differs(old, row) or at_us - written_us >= REFRESH_US:
                changes.append(("pending", row))
                written_us = at_us
            self._requests[key] = row, written_us
        return changes

    def _heartbeat(self) -> list[Row]:
        alive = [run for run in self._open.values() if run.absent_since_us is None]
        newest = max(alive, key=lambda run: run.alive_us, default=None)
        if newest is None or newest.alive_us - self._newest_evidence_us < HEARTBEAT_US:
            return []
        return self._written([("claim", newest.rows[0])])

    def _written(self, rows: list[Row]) -> list[Row]:
        self._newest_evidence_us = max([self._newest_evidence_us, *(row["evidence_us"] for _, row in rows)])
        return rows

    @staticmethod
    def _is_change(old: Columns | None, row: Columns, at_us: int) -> bool:
        return old is None or _differs(old, row) or at_us - (old["observed_us"] or 0) >= REFRESH_US


def _by_run(rows: Iterable[Row]) -> dict[RunKey, list[Columns]]:
    runs: dict[RunKey, list[Columns]] = {}
    for table, row in rows:
        if table == "claim":
            runs.setdefault((row["job_id"], row["run_key"]), []).append(row)
    for allocations in runs.values():
        allocations.sort(key=_device_order)
    return runs


def _device_order(row: Columns) -> tuple[str, str, str]:
    return row["node"] or "", row.get("gpu_type") or "", row.get("profile") or ""


def _same_devices(old_rows: list[Columns], new_rows: list[Columns]) -> bool:
    """Whether the devices are the same; the new rows may add indexes, but not change or drop them."""
    if len(old_rows) != len(new_rows):
        return False
    names = [name for name in _DEVICE_COLUMNS if name not in ("device_indexes", "gpus")]
    pairs = list(zip(old_rows, new_rows, strict=True))
    same = all(old.get(name) == new.get(name) for old, new in pairs for name in names)
    return same and all(old.get("device_indexes") in (None, new.get("device_indexes")) for old, new in pairs)


def _with_devices(rows: list[Columns], run: Columns, located: bool) -> list[Columns]:
    """The devices of `rows` with the other columns of `run`. Estimates keep their own labels."""
    kept = _DEVICE_COLUMNS if located else (*_DEVICE_COLUMNS, "labels")
    return [run | {name: row.get(name) for name in kept} for row in rows]


def _differs(old: Columns, new: Columns) -> bool:
    """Whether anything but the time of observation, and what a node's jobs have of it, differs; missing columns are NULL."""
    names = (old.keys() | new.keys()) - {"evidence_us", "observed_us", "cpu_milli_used", "memory_bytes_used"}
    return any(old.get(name) != new.get(name) for name in names)
