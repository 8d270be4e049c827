"""Retention: raw samples and minutes go when they are old, what the ledger has of them stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuwatch.core.clock import DAY_US, day_floor
from gpuwatch.settings import Settings
from gpuwatch.store.database import Store

NEVER_US = -(2**62)
"""Before every sample: nothing is as old. Its negative is after every sample."""


@dataclass(frozen=True)
class Retained:
    """Rows that a retention run deleted. `more`: whether another run may delete more."""

    samples: int = 0
    minutes: int = 0
    more: bool = False


@dataclass(frozen=True)
class _Bound:
    """Before which times raw samples and minutes are past their retention."""

    raw_until_us: int = NEVER_US
    minute_until_us: int = NEVER_US


def retain(store: Store, settings: Settings, now_us: int) -> Retained:
    """Deletes at most one day of raw samples and of minutes past their retention, all or nothing.

    Age counts back from the newest sample of the store, not from the wall clock: imported history stays whole however
    old it is. It counts days with samples at most, and none after `now_us`. A run deletes only what the run before it would
    have deleted too: the first one deletes nothing, and a clock that is wrong during one run has no effect. The current
    day, days that wait to be computed, and the first and the last hour of each device stay.
    """
    wanted = _past_retention(store, settings, now_us)
    agreed = _agreed(store, wanted)
    allowed = _Bound(
        min(agreed.raw_until_us, _next_day(store, "store/retention/oldest_raw"), day_floor(now_us)),
        min(agreed.minute_until_us, _next_day(store, "store/retention/oldest_minute"), day_floor(now_us)),
    )
    before = _rows(store)
    with store.changes.sample_lock, store.transaction():
        store.run("store/retention/retain", raw_until_us=allowed.raw_until_us, minute_until_us=allowed.minute_until_us)
        store.run("store/retention/propose", raw_until_us=wanted.raw_until_us, minute_until_us=wanted.minute_until_us)
    after = _rows(store)
    return Retained(before[0] - after[0], before[1] - after[1], more=allowed != wanted)


def retired_days(store: Store, since_us: int) -> frozenset[int]:
    """The days (in days since the epoch) since a time whose raw samples are deleted."""
    rows = store.rows("store/retention/retired_days", since_us=since_us)
    return frozenset(int(row["day"]) for row in rows)


def kept_from(store: Store, settings: Settings, now_us: int) -> int:
    """The start of the raw samples that retention would keep, counted back from the newest day with samples up to now."""
    return _past_retention(store, settings, now_us).raw_until_us


def _past_retention(store: Store, settings: Settings, now_us: int) -> _Bound:
    most = 1 + max(settings.raw_retention_days, settings.minute_retention_days)
    days = [int(row["day_us"]) for row in store.rows("store/retention/sampled_days", now_us=now_us, most=most)]
    return _Bound(_oldest_kept(days, settings.raw_retention_days), _oldest_kept(days, settings.minute_retention_days))


def _agreed(store: Store, wanted: _Bound) -> _Bound:
    """What the last run and this one both would delete."""
    found = store.sql("select raw_until_us, minute_until_us from retention_bound")
    if not found:
        return _Bound()
    return _Bound(min(found[0][0], wanted.raw_until_us), min(found[0][1], wanted.minute_until_us))


def _next_day(store: Store, oldest: str) -> int:
    """The end of the oldest day that is still there."""
    day_us = store.rows(oldest)[0]["day_us"]
    return -NEVER_US if day_us is None else int(day_us) + DAY_US


COMPACTED = ("claim", "pending", "node", "queue", "workload", "reservation")
"""Tables of ledger/compact."""


def compact(store: Store) -> int:
    """Drops what live sources repeated only to say that it still holds; the ledger stays as it is. Returns rows dropped."""
    count = "select " + " + ".join(f"(select count(*) from {table})" for table in COMPACTED)
    before = store.sql(count)[0][0]
    with store.transaction():
        store.run("store/retention/compact")
    return int(before - store.sql(count)[0][0])


def drop_late(store: Store) -> int:
    """Drops samples that wait to be sealed into days whose raw samples are gone; returns how many."""
    with store.changes.sample_lock:
        return store.run("store/retention/drop_late")


def skip_retired(store: Store, cluster: str, elsewhere: Iterable[int] = ()) -> int:
    """Keeps the ledger hours whose raw samples are gone; returns how many dirty hours that were. Days whose samples are `elsewhere`,
    counted from the epoch, are not gone.

    Call it after the hours were marked and before they are recomputed.
    """
    return store.run("store/retention/skip_retired", cluster=cluster, elsewhere=list(elsewhere))


def _oldest_kept(days: list[int], kept: int) -> int:
    """The first of the days that stay, of the days with samples, newest first: the newest and `kept` before it."""
    return min(days[kept], days[0] - kept * DAY_US) if len(days) > kept else NEVER_US


def _rows(store: Store) -> tuple[int, int]:
    samples, minutes = store.sql("select (select count(*) from sample), (select count(*) from device_minute)")[0]
    return int(samples), int(minutes)
