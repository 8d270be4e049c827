"""When a reading can have been: the one rule for what is pushed, scraped, queried and imported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, rfc3339
from gpuwatch.core.model import Points, Records, Rejects

FIRST_US, LAST_US = 978_307_200_000_000, 253_402_300_799_000_000
"""2001, and the last second that can be printed: outside, the unit of the time is wrong."""
AHEAD_US_LIVE = 10 * MINUTE_US
"""How far a live reading may lie ahead of this machine's clock."""
AHEAD_US_RECORD = MINUTE_US
"""The same for the times of records, and for samples that go into the ledger. What was read has happened, so a later time is that of
a clock that is ahead."""
AHEAD_US_HISTORY = 24 * HOUR_US
"""The same for files, whose clock nobody can correct any more."""

BAD_TIME = "the time of the sample is not of 2001 or later: check its unit"
TOO_OLD = (
    "the time of the sample is older than raw samples are kept: bring history with `gpuwatch backfill` or "
    "`gpuwatch import`"
)
TOO_NEW = "the time of the sample lies in the future: check the clocks of sender and server, and its unit"
RETIRED = "the raw samples of the day of the sample are already deleted: if that was a mistake, run `gpuwatch repair`"

PAST = {
    "claim": ("submit_us", "start_us", "end_us", "evidence_us"),
    "pending": ("submit_us", "evidence_us"),
    "node": ("observed_us", "since_us", "created_us"),
    "event": ("first_us", "last_us"),
    "link": ("observed_us",),
    "queue": ("observed_us",),
    "workload": ("submit_us", "reserved_us", "admitted_us", "start_us", "evicted_us", "end_us", "observed_us"),
    "reservation": ("observed_us",),
}
"""Columns of live records whose times are past when they are read. Others may be plans: when a request is to start, a reservation."""


@dataclass(frozen=True)
class Ahead:
    """How far the furthest time of some records lay ahead of the clock at `at_us`, and the Kubernetes node that it is of, if any."""

    cluster: str
    node: str | None
    by_us: int
    at_us: int


@dataclass(frozen=True)
class Span:
    """From when to when readings are taken, both included, microseconds; none of the `retired` days since the epoch."""

    oldest_us: int
    newest_us: int
    retired: frozenset[int] = frozenset()


def live(now_us: int, kept_us: int) -> Span:
    """What is taken while it happens: as old as raw samples are kept, as new as clocks differ."""
    return Span(now_us - kept_us, now_us + AHEAD_US_LIVE)


def history(now_us: int) -> Span:
    """What is taken from files: of any age."""
    return Span(np.iinfo(np.int64).min, now_us + AHEAD_US_HISTORY)


def in_time(batch: Points, span: Span, where: str, rejects: Rejects | None) -> Points:
    """The readings of a span. The others are counted by reason with their first time, under the name `where`:
    one reading of 2002 or of tomorrow would own years.
    """
    if batch.rows.num_rows == 0:
        return batch
    times = batch.rows.column("observed_us").to_numpy()
    refused = refusals(times, span)
    if not refused:
        return batch
    for reason, which in refused.items():
        at = np.flatnonzero(which)
        if len(at) and rejects is not None:
            first_us = int(times[at[0]])
            shown = f"{first_us // 1000} ms" if reason is BAD_TIME else rfc3339(first_us)
            rejects.add(reason, where, 0, shown, len(at))
    gone = np.logical_or.reduce(list(refused.values()))
    return Points(batch.series, batch.rows.filter(pa.array(~gone)))


def refusals(times: NDArray[np.int64], span: Span) -> dict[str, NDArray[np.bool_]]:
    """Which of the times are outside a span, by reason; only reasons that occur."""
    if not len(times):
        return {}
    if times.min() >= span.oldest_us and times.max() <= span.newest_us and not span.retired:
        return {}
    old, new = times < span.oldest_us, times > span.newest_us
    no_time = (times < FIRST_US) | (times > LAST_US)
    found = {BAD_TIME: (old | new) & no_time, TOO_OLD: old & ~no_time, TOO_NEW: new & ~no_time}
    if span.retired:
        found[RETIRED] = np.isin(times // DAY_US, list(span.retired)) & ~old & ~new
    return {reason: which for reason, which in found.items() if which.any()}


def happened(batch: Records, now_us: int) -> tuple[Records, Ahead | None]:
    """Records without times of the future: those more than AHEAD_US_RECORD ahead become `now_us`, as what was read has happened."""
    rows, furthest = batch.rows, None
    for name in PAST.get(batch.table, ()):
        if not rows.num_rows or name not in rows.column_names:
            continue
        times = rows.column(name)
        last_us = pc.max(times).as_py()
        if last_us is None or last_us <= now_us + AHEAD_US_RECORD:
            continue
        if furthest is None or last_us - now_us > furthest.by_us:
            furthest = _ahead(rows, pc.index(times, last_us).as_py(), last_us - now_us, now_us)
        late = pc.greater(times, now_us + AHEAD_US_RECORD)
        bounded = pc.if_else(late, pa.scalar(now_us, times.type), times)
        rows = rows.set_column(rows.column_names.index(name), name, bounded)
    return (batch, None) if furthest is None else (Records(batch.table, rows), furthest)


def _ahead(rows: pa.Table, at: int, by_us: int, now_us: int) -> Ahead:
    row = {
        name: rows.column(name)[at].as_py() for name in ("cluster", "scheduler", "node") if name in rows.column_names
    }
    node = row.get("node") if row.get("scheduler") == "kubernetes" else None
    return Ahead(row.get("cluster") or "", node, by_us, now_us)
