"""Retention: raw samples and minutes go when they are old, what was booked from them stays."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.core.clock import DAY_US
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store


@dataclass(frozen=True)
class Retained:
    """Rows that a retention run deleted."""

    samples: int = 0
    minutes: int = 0


def retain(store: Store, settings: Settings, now_us: int) -> Retained:
    """Deletes raw samples and minutes past their retention, all or nothing; running it again changes nothing.

    Age counts back from the newest sample of the store, not from the wall clock: imported history stays whole however
    old it is. A sample from after `now_us` (a wrong clock) does not count, so it cannot make the others old. Days that
    wait to be booked stay, and so do the first and the last hour of each device.
    """
    newest = store.sql("select max(last_us) from context_span where last_us <= $now", now=now_us)[0][0]
    if newest is None:
        return Retained()
    before = _rows(store)
    with store.transaction():
        store.run(
            "store/retention/retain",
            raw_until_us=_day(newest - settings.raw_retention_days * DAY_US),
            minute_until_us=_day(newest - settings.minute_retention_days * DAY_US),
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


def _day(at_us: int) -> int:
    return at_us // DAY_US * DAY_US


def _rows(store: Store) -> Retained:
    return Retained(*store.sql("select (select count(*) from sample), (select count(*) from device_minute)")[0])
