"""OpenCost allocations: GPU cost by workload, with idle and shared costs divided as OpenCost does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.billing.inferred_teams import inferred_teams
from gpuwatch.billing.opencost.idle_share import Part, divide_idle, divide_shared
from gpuwatch.billing.opencost.query import Query
from gpuwatch.billing.opencost.subject import WORDS, Subject, Subjects, name_of
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger import measures
from gpuwatch.ledger.totals import Scale, scale_of, working_tables
from gpuwatch.store.database import Store

BUCKETS = ("hoarded", "gap", "communication", "stalled", "below_roof", "memory_roof", "compute")
"""Buckets of held time that was observed."""
ROWS_MAX = 100_000
"""Rows of one query before aggregation: subjects times steps."""
UUIDS_MAX = 64
"""UUIDs that a row names; `gpuDevices` counts all."""
IDLE, SHARED = "__idle__", "__shared__"
SUMS = (
    "units", "priced_units", "amount", "idle_amount", "waste_amount", "shared_idle_units", "shared_idle_amount",
    "shared_amount",
)  # fmt: skip
"""Fields of parts that add up in rows."""


@dataclass(frozen=True)
class Device:
    """The columns of a row that describe a device."""

    uuid: str
    """The GPU's, also of a slice."""
    id: str
    index: int | None
    model: str | None
    profile: str | None


@dataclass
class Row:
    """One allocation: sums of the parts with one name in one set. Amounts are in units of ledger.totals.Scale."""

    name: str
    subject: Subject
    first_us: int
    last_us: int
    idle: bool = False
    units: int = 0
    priced_units: int = 0
    amount: int = 0
    idle_amount: int = 0
    waste_amount: int = 0
    shared_idle_units: int = 0
    shared_idle_amount: int = 0
    shared_amount: int = 0
    is_shared: bool = False
    buckets: dict[str, int] = field(default_factory=lambda: dict.fromkeys(BUCKETS, 0))
    devices: set[int] = field(default_factory=set)
    pools: dict[tuple[str, str | None], int] = field(default_factory=lambda: defaultdict(int))
    """Its own amount in each pool of GPUs."""

    def add(self, part: Part) -> None:
        """Adds a part; words that differ are dropped from the subject, as OpenCost does."""
        if part.subject != self.subject:
            self.subject = _common(self.subject, part.subject)
        self.first_us, self.last_us = min(self.first_us, part.first_us), max(self.last_us, part.last_us)
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.is_shared |= part.is_shared
        for bucket, units in part.buckets.items():
            self.buckets[bucket] += units
        self.devices |= part.devices
        self.pools[part.pool] += part.amount

    @property
    def total(self) -> int:
        """Its amount with its shares of idle and shared costs."""
        return self.amount + self.shared_idle_amount + self.shared_amount


@dataclass(frozen=True)
class Allocations:
    """Rows of each set, most expensive first, and the scale of their numbers."""

    sets: tuple[tuple[Window, tuple[Row, ...]], ...]
    query: Query
    scale: Scale
    currency: str | None
    devices: Mapping[int, Device]
    pools: Mapping[tuple[int, tuple[str, str | None]], int]
    """Amount of each pool, idle and all, by the number of its set."""
    warning: str | None
    inferred_teams: frozenset[str] = frozenset()
    """Teams named by an account or namespace, because no ownership rule decides."""


def allocations(store: Store, query: Query, teams: Collection[str] | None, now_us: int) -> Allocations:
    """The allocations of a query, at the prices of the last pricing.

    With `teams` the answer is that of a fleet with their rows only: no other row is weighed, named or counted, and there is no
    idle. All costs are in one currency: the requested one, else the one with the largest sum. A shared cost is divided over the time until
    `now_us`. Raises UsageError if the answer would be too large.
    """
    words = query.words
    by = {
        f"by_{name}": bool(words & members)
        for name, members in {
            "node": {"node"},
            "namespace": {"namespace"},
            "controller": {"controller", "controller_kind"},
            "pod": {"pod", "container"},
            "team": {"team"},
            "label": {"label"},
        }.items()
    }
    # The kind of a controller is often only known from the name of the pod.
    by["by_pod"] |= by["by_controller"]
    with working_tables(store):
        scale = scale_of(store, query.window)
        asked: dict[str, Any] = {
            "start_us": query.window.start_us,
            "end_us": query.window.end_us,
            "step_us": query.sets.step_us,
            "scale": scale.shares,
            "places": scale.places,
            "include_idle": query.include_idle and teams is None,
            "teams": None if teams is None else list(teams),
            "rows_max": ROWS_MAX + 1,
            "keep_pod": bool(words & {"pod", "container"}),
            **by,
        }
        measures.prepare(store)
        store.run("billing/opencost/word", **asked)
        store.run("billing/opencost/part", **asked)
        rows = store.rows("billing/opencost/row", **asked)
        devices = store.rows("billing/opencost/device")
        store.run("billing/opencost/drop")
    if len(rows) > ROWS_MAX:
        raise UsageError(f"aggregate: more than {ROWS_MAX} rows; use fewer names, a longer step or a shorter window")
    currency, warning = _currency(query.currency, rows)
    parts = _parts(query, rows, currency)
    pools: dict[tuple[int, tuple[str, str | None]], int] = defaultdict(int)
    for part in parts:
        pools[query.sets.of_step[part.step], part.pool] += part.amount
    reported = _with_shared_costs(query, parts, scale, now_us)
    return Allocations(
        sets=_sets(query, reported),
        query=query,
        scale=scale,
        currency=currency,
        devices={row["device_id"]: _device(row) for row in devices},
        pools=pools,
        warning=warning,
        inferred_teams=inferred_teams(store, query.window, sorted(words)),
    )


def _currency(asked: str | None, rows: Sequence[Mapping[str, Any]]) -> tuple[str | None, str | None]:
    """(the reported currency, a note about time that it does not cover)."""
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["currency"] is not None:
            sums[row["currency"]] += int(row["amount"])
    currency = asked or max(sorted(sums), key=sums.__getitem__, default=None)
    notes = []
    if others := sorted(set(sums) - {currency}):
        notes.append(f"time priced in {', '.join(others)} has no cost here: ask again with currency={others[0]}")
    if any(row["currency"] is None for row in rows):
        notes.append("some GPU-hours have no rate and no cost here: see gpuwatch doctor")
    return currency, "; ".join(notes) or None


def _parts(query: Query, rows: Iterable[Mapping[str, Any]], currency: str | None) -> list[Part]:
    subjects = Subjects()
    parts = []
    for row in rows:
        subject, priced = subjects.of(row), row["currency"] is not None and row["currency"] == currency
        units = int(row["units"])
        parts.append(
            Part(
                step=row["step"],
                subject=subject,
                name=name_of(subject, query.aggregates) if row["held"] else "",
                held=row["held"],
                pool=(row["cluster"], row["node"] if query.idle_by_node else None),
                first_us=row["first_us"],
                last_us=row["last_us"],
                units=units,
                priced_units=units if priced else 0,
                amount=int(row["amount"]) if priced else 0,
                # The idle time of a minute that a window cuts may slightly exceed the charged time.
                idle_amount=min(int(row["idle_amount"]), int(row["amount"])) if priced else 0,
                waste_amount=min(int(row["waste_amount"]), int(row["amount"])) if priced else 0,
                is_shared=row["shared"],
                buckets={bucket: int(row[bucket]) for bucket in BUCKETS} if row["held"] else {},
                devices=set(row["devices"]),
            )
        )
    return parts


def _with_shared_costs(query: Query, parts: Sequence[Part], scale: Scale, now_us: int) -> list[Part]:
    """The parts to report with their shared costs, under the names of their rows."""
    by_step: dict[int, list[Part]] = defaultdict(list)
    for part in parts:
        part.kept = not part.held or query.filter.matches(part.subject)
        part.sharing = part.held and query.shared.matches(part.subject)
        by_step[part.step].append(part)
    reported: list[Part] = []
    for step, members in sorted(by_step.items()):
        idle = divide_idle(query, members)
        start_us = query.window.start_us + step * query.sets.step_us
        end_us = min(start_us + query.sets.step_us, query.window.end_us, now_us)
        left = divide_shared(query, members, scale, max(end_us - start_us, 0))
        _name_idle(idle, members, split=query.split_idle)
        for part in left:
            part.name = SHARED
        reported += [*(part for part in members if part.held and part.kept and not part.sharing), *idle, *left]
    return reported


def _name_idle(idle: Iterable[Part], members: Sequence[Part], *, split: bool) -> None:
    """Assigns idle parts to their row, with the times of the pool that they belong to."""
    for part in idle:
        same = [other for other in members if other.pool == part.pool]
        part.first_us, part.last_us = min(other.first_us for other in same), max(other.last_us for other in same)
        cluster, node = part.pool
        where = cluster if node is None else f"{cluster}/{node}"
        part.name = f"{where}/{IDLE}" if split else IDLE


def _sets(query: Query, parts: Iterable[Part]) -> tuple[tuple[Window, tuple[Row, ...]], ...]:
    windows = query.sets.windows()
    found: list[dict[str, Row]] = [{} for _ in windows]
    for part in parts:
        rows = found[query.sets.of_step[part.step]]
        row = rows.get(part.name)
        if row is None:
            row = rows[part.name] = Row(part.name, part.subject, part.first_us, part.last_us, idle=not part.held)
        row.add(part)
    return tuple(
        (window, tuple(sorted(rows.values(), key=lambda row: (-row.total, row.name))))
        for window, rows in zip(windows, found, strict=True)
    )


def _common(one: Subject, other: Subject) -> Subject:
    words = {name: getattr(one, name) if getattr(one, name) == getattr(other, name) else None for name in WORDS}
    labels = tuple(pair for pair in one.labels if other.label_map.get(pair[0]) == pair[1])
    return Subject(**words, labels=labels, label_map=dict(labels))


def _device(row: Mapping[str, Any]) -> Device:
    slice_of = f"{row['gpu']}/GI-{row['gi']}" if row["gi"] >= 0 else row["gpu"]
    return Device(row["gpu"], slice_of, row["gpu_index"], row["model"], row["profile"])
