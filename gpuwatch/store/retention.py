"""Retention: raw samples and minutes go when they are old, what was booked from them stays."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.core.clock import DAY_US
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

NEVER_US = -(2**62)
"""Before every sample: nothing is as old."""


@dataclass(frozen=True)
class Retained:
    """Rows that a retention run deleted."""

    samples: int = 0
    minutes: int = 0


def retain(store: Store, settings: Settings, now_us: int) -> Retained:
    """Deletes raw samples and minutes past their retention, all or nothing; running it again changes nothing.

    Age counts back from the newest sample of the store, not from the wall clock: imported history stays whole however
    old it is. It counts days with samples at most: a clock that is weeks ahead for minutes adds one day, and makes no
    more than one day old. A sample from after `now_us` does not count at all. Days that wait to be computed stay, and
    so do the first and the last hour of each device.
    """
    days = [
        int(row[0])
        for row in store.sql(
            """select distinct hour_us // $day * $day
            from context_span
            where last_us <= $now
            order by 1 desc
            limit $most""",
            day=DAY_US,
            now=now_us,
            most=1 + max(settings.raw_retention_days, settings.minute_retention_days),
        )
    ]
    before = _rows(store)
    with store.transaction():
        store.run(
            "store/retention/retain",
            raw_until_us=_oldest_kept(days, settings.raw_retention_days),
            minute_until_us=_oldest_kept(days, settings.minute_retention_days),
        )
    after = _rows(store)
    return Retained(before.samples - after.samples, before.minutes - after.minutes)


COMPACTED = ("claim", "pending", "node", "queue", "workload", "reservation")
"""Tables of ledger/compact."""


def compact(store: Store) -> int:
    """Drops what live sources repeated only to say that it still holds; the books stay as they are. Returns rows dropped."""
    count = "select " + " + ".join(f"(select count(*) from {table})" for table in COMPACTED)
    before = store.sql(count)[0][0]
    with store.transaction():
        store.run("store/retention/compact")
    return int(before - store.sql(count)[0][0])


def drop_late(store: Store) -> int:
    """Drops samples that wait to be sealed into days whose raw samples are gone; returns how many."""
    return store.run("store/retention/drop_late")


def skip_retired(store: Store, cluster: str) -> int:
    """Lets the booked hours stand whose raw samples are gone; returns how many dirty hours that were.

    Call it after the hours were marked and before they are recomputed.
    """
    return store.run("store/retention/skip_retired", cluster=cluster)


def _oldest_kept(days: list[int], kept: int) -> int:
    """The first of the days that stay, of the days with samples, newest first: the newest and `kept` before it."""
    return min(days[kept], days[0] - kept * DAY_US) if len(days) > kept else NEVER_US


def _rows(store: Store) -> Retained:
    return Retained(*store.sql("select (select count(*) from sample), (select count(*) from device_minute)")[0])
