"""Free time that typical requests could not have used: the ledger's `stranded`, from the state of each node."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import pyarrow as pa

from gpuwatch.capacity.demand import DAYS, TASKS_MAX, read_shapes, shape, task_of, weighed
from gpuwatch.core.clock import DAY_US, HOUR_US, day_floor
from gpuwatch.hardware.fgd import NODE, Node, Task, expected, takes
from gpuwatch.hardware.mig_packing import idle_lost, slice_capacity
from gpuwatch.store.database import Store

HELD_MARK = "*"
"""Marks a held instance, after its profile, in the state of a partitioned GPU."""
_END = pa.schema([("cluster", pa.string()), ("as_of_us", pa.int64()), ("at_us", pa.int64())])
_HOUR = pa.schema([("hour_us", pa.int64())])
_ASKED = pa.schema([("day_us", pa.int64()), ("requests", pa.int64()), ("digest", pa.string())])
_JUDGED = pa.schema(
    [
        ("day_us", pa.int64()),
        ("partitioned", pa.bool_()),
        ("model", pa.string()),
        ("parts", pa.list_(pa.string())),
        ("milli", pa.int32()),
        ("gpus", pa.int32()),
        ("lost", pa.int64()),
        ("misfit", pa.int64()),
        ("weight", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Part:
    """GPUs of one state with the same free: lost / weight of their time is stranded, misfit of it by model or MIG mode."""

    milli: int
    gpus: int
    lost: int = 0
    misfit: int = 0
    weight: int = 1


@dataclass(frozen=True)
class Asked:
    """The requests that the free time of a UTC day is evaluated with: those submitted in the DAYS before its midnight.

    Each member of a gang is evaluated on its own node; whether the other members would fit nearby is not considered.
    """

    tasks: tuple[Task, ...] = ()

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(task.weight for task in self.tasks)

    @cached_property
    def digest(self) -> str:
        """Equal for equal requests."""
        words = sorted(f"{task.weight} {shape(task)} {sorted(task.models or ('*',))}" for task in self.tasks)
        return hashlib.blake2b("\n".join(words).encode(), digest_size=8).hexdigest()


def asked(store: Store, cluster: str, days: Iterable[int]) -> dict[int, Asked]:
    """The requests of each UTC day (its first microsecond) of a cluster. Shapes rarer than TASKS_MAX others are left out."""
    wanted = sorted(set(days))
    if not wanted:
        return {}
    since_us, until_us = wanted[0] - DAYS * DAY_US, wanted[-1]
    if not store.rows("ledger/any_request", cluster=cluster, since_us=since_us, until_us=until_us)[0]["found"]:
        return {day: Asked() for day in wanted}
    models, largest = _fleet(store, cluster)
    ends = pa.Table.from_pylist([{"cluster": cluster, "as_of_us": until_us, "at_us": until_us}], schema=_END)
    by_day: dict[int, Counter[Task]] = {}
    for row in read_shapes(store, ends, until_us - since_us, by_day=True):
        if row["gpus"] is not None:
            task = replace(task_of(row, models, largest, {}), members=1, level=NODE)
            by_day.setdefault(row["day_us"], Counter())[task] += row["requests"]
    return _by_day(by_day, wanted)


def strand(store: Store, cluster: str, hours: Iterable[int], requests: Mapping[int, Asked] | None = None) -> None:
    """Divides the ledger's free time of whole hours (start times in microseconds) into schedulable and stranded.

    Runs in the caller's transaction, after the hours are written. `requests`: those of each day, if already loaded.
    Devices out of service are not free.
    """
    wanted = sorted(set(hours))
    if not wanted:
        return
    days = {day_floor(hour) for hour in wanted}
    known = asked(store, cluster, days) if requests is None else requests
    with store.view("strand_hour", pa.Table.from_pydict({"hour_us": wanted}, schema=_HOUR)):
        store.run("ledger/free_state", cluster=cluster, from_us=wanted[0], until_us=wanted[-1] + HOUR_US)
        judged = pa.Table.from_pylist(list(_rows(store.rows("ledger/free_parts"), known)), schema=_JUDGED)
        digests = [
            {"day_us": day, "requests": known[day].requests, "digest": known[day].digest} for day in sorted(days)
        ]
        with store.view("part_judged", judged), store.view("asked_now", pa.Table.from_pylist(digests, schema=_ASKED)):
            store.run("ledger/strand", cluster=cluster)


def refresh(store: Store, cluster: str) -> list[int]:
    """Divides the free time of ledger days again where their requests have changed since; returns the affected hours.

    Days whose raw samples are deleted keep their ledger rows.
    """
    rows = store.rows("ledger/asked_day", cluster=cluster)
    requests = asked(store, cluster, (row["day_us"] for row in rows))
    stale = [row for row in rows if row["digest"] != requests[row["day_us"]].digest]
    for row in stale:
        with store.transaction():
            strand(store, cluster, row["hours"], requests)
            store.run("ledger/unroll", cluster=cluster, from_us=row["hours"][0], until_us=row["hours"][-1])
    return [hour for row in stale for hour in row["hours"]]


def stranded_parts(parts: tuple[str, ...], partitioned: bool, model: str | None, tasks: tuple[Task, ...]) -> list[Part]:
    """The part of one state that the tasks cannot use: a row for each free amount on a GPU; 0 of 1 without any task.

    `parts` as in ledger/free_state.sql. A layout that no legal packing explains loses nothing.
    """
    if partitioned:
        return [_stranded_slices(parts, model, tasks)]
    weight = sum(task.weight for task in tasks)
    free = tuple(int(part) for part in parts)
    if not weight:
        return [Part(milli, free.count(milli)) for milli in sorted(set(free))]
    by_gpu = expected([Node(free, model)], tasks).by_gpu[0]
    misfit = sum(task.weight for task in tasks if task.profile is not None or not takes(task, model))
    lost_of = {milli: units // milli for milli, units in zip(free, by_gpu, strict=True) if milli}
    return [Part(milli, free.count(milli), lost, misfit, weight) for milli, lost in sorted(lost_of.items())]


def _stranded_slices(parts: tuple[str, ...], model: str | None, tasks: tuple[Task, ...]) -> Part:
    """The part of a MIG GPU's free slices that the tasks cannot use."""
    idle = [not part.endswith(HELD_MARK) for part in parts]
    profiles = [part.removesuffix(HELD_MARK) for part in parts]
    found = slice_capacity(model, tuple(zip(profiles, idle, strict=True)))
    if found is None or not sum(task.weight for task in tasks):
        return Part(0, sum(idle))
    return Part(0, sum(idle), *idle_lost(found, tasks, model))


def _rows(states: Iterable[Mapping[str, Any]], requests: Mapping[int, Asked]) -> Iterable[dict[str, Any]]:
    for day_us, some in groupby(states, key=lambda row: row["day_us"]):
        tasks = requests[day_us].tasks
        for row in some:
            for part in stranded_parts(tuple(row["parts"]), row["partitioned"], row["model"] or None, tasks):
                yield {**row, **vars(part)}


def _fleet(store: Store, cluster: str) -> tuple[set[str], int]:
    """The models of a cluster, and the GPUs of its largest node."""
    rows = store.sql(
        """select coalesce(node, gpu), list(distinct model), count(distinct gpu)
        from device where cluster = $cluster and (gi >= 0 or profile is null) and kind is null group by all""",
        cluster=cluster,
    )
    return {model for _, models, _ in rows for model in models or [] if model}, max((row[2] for row in rows), default=1)


def _by_day(by_day: Mapping[int, Counter[Task]], wanted: Sequence[int]) -> dict[int, Asked]:
    """The requests of the DAYS before each of some days in ascending order: from one to the next, few of them change."""
    submitted = sorted(by_day)
    counts: Counter[Task] = Counter()
    come = gone = 0
    found: dict[int, Asked] = {}
    known: Asked | None = None
    for day in wanted:
        while come < len(submitted) and submitted[come] < day:
            counts.update(by_day[submitted[come]])
            come, known = come + 1, None
        while gone < come and submitted[gone] < day - DAYS * DAY_US:
            counts.subtract(by_day[submitted[gone]])
            gone, known = gone + 1, None
        known = _asked(counts) if known is None else known
        found[day] = known
    return found


def _asked(counts: Mapping[Task, int]) -> Asked:
    standing = [(task, count) for task, count in counts.items() if count]
    ranked = sorted(standing, key=lambda one: (-one[1], shape(one[0]), sorted(one[0].models or ())))
    return Asked(tuple(weighed(task, count) for task, count in ranked[:TASKS_MAX]))
