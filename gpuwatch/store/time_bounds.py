"""When a reading can have been: the one rule for what is pushed, scraped, queried and imported."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, rfc3339
from gpuwatch.core.model import Points, Rejects

FIRST_US, LAST_US = 978_307_200_000_000, 253_402_300_799_000_000
"""2001, and the last second that can be printed: outside, the unit of the time is wrong."""
AHEAD_US_LIVE = 10 * MINUTE_US
"""How far a live reading may lie ahead of this machine's clock."""
AHEAD_US_HISTORY = 24 * HOUR_US
"""The same for files, whose clock nobody can correct any more."""

BAD_TIME = "the time of the sample is not of 2001 or later: check its unit"
TOO_OLD = (
    "the time of the sample is older than raw samples are kept: bring history with `gpuwatch backfill` or "
    "`gpuwatch import`"
)
TOO_NEW = "the time of the sample lies in the future: check the clocks of sender and server, and its unit"
RETIRED = "the raw samples of the day of the sample are already deleted: if that was a mistake, run `gpuwatch repair`"


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
