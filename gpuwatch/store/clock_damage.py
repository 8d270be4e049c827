"""What a wrong clock left in a store: records of the future, and days retired by mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import HOUR_US, day_floor
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store
from gpuwatch.store.retention import kept_from, retired_days
from gpuwatch.store.time_bounds import AHEAD_US_LIVE

FAR_US = 2**62
NEIGHBOURS = 2
"""The ledger of an hour is computed from its samples and those of so many hours on either side."""
_LOST = pa.schema([("cluster", pa.string()), ("hour_us", pa.int64()), ("recorded", pa.int64())])


@dataclass(frozen=True)
class Span:
    """The time [from_us, until_us) that only a wrong clock gave."""

    from_us: int
    until_us: int = FAR_US


@dataclass(frozen=True)
class Damage:
    """What a wrong clock left: rows of store/repair/future, of future_ledger, and of retired_hour."""

    span: Span
    newest_us: int | None
    """The newest time before the span that a record gives."""
    future: Sequence[dict[str, Any]]
    hours: int
    gpu_hours: float
    until_us: int | None
    """The end of the ledger in the span."""
    retired: Sequence[dict[str, Any]]
    evident: bool
    """Whether the days were certainly retired by mistake: a newer or older day shows it, or records of the future do."""

    @property
    def found(self) -> bool:
        """Whether there is anything to repair."""
        return bool(self.future or self.hours or self.retired)

    @property
    def days(self) -> list[int]:
        """The days that were retired by mistake."""
        return sorted({day_floor(row["hour_us"]) for row in self.retired})

    @property
    def lost(self) -> list[dict[str, Any]]:
        """The retired hours that cannot be computed as they were: they, or one of the two hours on either side, lack samples."""
        short = {(row["cluster"], row["hour_us"]) for row in self.retired if row["stored"] < row["recorded"]}
        return [
            row
            for row in self.retired
            if any((row["cluster"], row["hour_us"] + n * HOUR_US) in short for n in range(-NEIGHBOURS, NEIGHBOURS + 1))
        ]


def after(now_us: int) -> Span:
    """All times that no live reading can have yet."""
    return Span(now_us + AHEAD_US_LIVE)


def find(store: Store, settings: Settings, span: Span) -> Damage:
    """What is to repair. A day counts as retired by mistake if a retention run without the span would keep it."""
    bounds = {"from_us": span.from_us, "until_us": span.until_us}
    future = store.rows("store/repair/future", **bounds)
    (ledger,) = store.rows("store/repair/future_ledger", **bounds)
    kept_from_us = kept_from(store, settings, span.from_us)
    retired = []
    if retired_days(store, kept_from_us):
        retired = store.rows("store/repair/retired_hour", kept_from_us=kept_from_us, from_us=span.from_us)
    newest_us = store.rows("store/repair/newest", from_us=span.from_us)[0]["at_us"]
    return Damage(
        span,
        newest_us,
        future,
        int(ledger["hours"]),
        float(ledger["gpu_hours"]),
        ledger["until_us"],
        retired,
        bool(retired) and (bool(future or ledger["hours"]) or _out_of_order(store, retired)),
    )


def undo(store: Store, damage: Damage) -> None:
    """Withdraws the records of the future, and takes back the retirement of days, all or nothing. The ledger follows at the
    next analysis.
    """
    lost = pa.Table.from_pylist([{name: row[name] for name in _LOST.names} for row in damage.lost], schema=_LOST)
    newest_us = damage.span.from_us if damage.newest_us is None else damage.newest_us
    with store.changes.sample_lock, store.view("lost_rows", lost), store.transaction():
        if damage.future or damage.hours:
            span = damage.span
            store.run("store/repair/withdraw", from_us=span.from_us, until_us=span.until_us, newest_us=newest_us)
        for day_us in damage.days:
            store.run("store/repair/reinstate", day_us=day_us)
        store.sql("delete from retention_bound")


def lost_hours(store: Store, cluster: str) -> list[int]:
    """The hours of a cluster that keep their ledger because their samples are lost."""
    rows = store.sql("select distinct hour_us from lost_hour where cluster = $c order by 1", c=cluster)
    return [int(row[0]) for row in rows]


def reopen(store: Store, cluster: str, hours: Sequence[int]) -> None:
    """Has hours computed again, whether their samples are there or not."""
    with store.transaction():
        for hour_us in hours:
            store.run("store/repair/reopen", cluster=cluster, hour_us=hour_us)


def _out_of_order(store: Store, retired: Sequence[dict[str, Any]]) -> bool:
    """Whether a newer day than a kept one is retired, or the newest of all: retention deletes the oldest day first."""
    oldest_kept_us = store.rows("store/retention/oldest_raw")[0]["day_us"]
    return oldest_kept_us is None or day_floor(retired[-1]["hour_us"]) > oldest_kept_us
