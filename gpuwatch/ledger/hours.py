"""The ledger: every microsecond of every GPU in one bucket with one owner, computed by whole hours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from math import lcm
from typing import Any

import pyarrow as pa

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, SECOND_US, day_floor, rfc3339
from gpuwatch.core.errors import LedgerDoesNotClose
from gpuwatch.ledger import workload_class
from gpuwatch.ledger.attribution import INTERVAL_US_MAX, traits
from gpuwatch.ledger.parts import BATCH_SAMPLES_MAX, HERE, Compute
from gpuwatch.ledger.stranding import Asked, asked, strand
from gpuwatch.settings import Settings
from gpuwatch.store import remembered
from gpuwatch.store.database import Store

FREE_BUCKETS = ("schedulable", "stranded", "out_of_service", "mig_remainder")
HELD_BUCKETS = (
    "unobserved",
    "hoarded",
    "gap",
    "communication",
    "stalled",
    "below_roof",
    "memory_roof",
    "compute",
)
BUCKETS = FREE_BUCKETS + HELD_BUCKETS
"""Every bucket of the ledger, in the order of cumulative rounding."""

BATCH_DAYS_MAX = 7
"""Days that are computed together, if they have few samples."""
IDLE_SPAN_US_MIN = 5 * MINUTE_US
"""Shorter idle spans are not kept: no rule asks for less than this."""
_HOUR = pa.schema([("hour_us", pa.int64())])


def recompute(
    store: Store,
    cluster: str,
    hours: Iterable[int],
    settings: Settings,
    requests: Mapping[int, Asked] | None = None,
    *,
    stored: bool = True,
) -> int:
    """Recomputes whole hours of a cluster from samples and segments; returns how many.

    `hours` are starts of UTC hours in microseconds. The hours of a UTC day, or of adjacent days with few samples, are one transaction. The rows of an hour
    depend on the samples of that hour and of the two on either side, on the requests of the four weeks before its day, and on
    nothing that was computed before. `requests`: of each of the days, where they are known. `stored`: False where nothing is
    stored of these hours yet.
    """
    wanted = sorted(set(hours))
    if requests is None:
        requests = asked(store, cluster, (day_floor(hour) for hour in wanted))
    devices = traits(store, cluster, settings)
    for batch in _batches(store, wanted, HERE):
        _recompute_batch(store, devices, cluster, batch, settings, requests, stored, HERE)
    return len(wanted)


def _recompute_batch(
    store: Store,
    devices: pa.Table,
    cluster: str,
    hours: list[int],
    settings: Settings,
    requests: Mapping[int, Asked],
    stored: bool,
    compute: Compute,
) -> None:
    with store.workspace() as work, work.view("device_trait", devices):
        _recompute_slice(work, cluster, hours, settings, requests, stored, compute)


def _batches(store: Store, hours: list[int], compute: Compute) -> list[list[int]]:
    """Hours by UTC day; adjacent days together, up to BATCH_DAYS_MAX with few samples: each batch has a fixed cost.

    Days that are read from elsewhere are not together with others.
    """
    days = [list(day) for _, day in groupby(hours, key=lambda hour: hour // DAY_US)]
    if len(days) < 2:
        return days
    query = "select observed_us // $day, count(*) from sample where observed_us >= $a and observed_us < $b group by 1"
    samples = dict(store.sql(query, day=DAY_US, a=day_floor(hours[0]), b=hours[-1] + HOUR_US)) | dict(compute.elsewhere)
    made: list[list[int]] = []
    begun = sum_of_batch = 0
    for day in days:
        number, last = day[0] // DAY_US, made[-1][-1] // DAY_US if made else None
        together = sum_of_batch + samples.get(number, 0)
        most = compute.batch_samples_max if number in compute.elsewhere else BATCH_SAMPLES_MAX
        alike = last == number - 1 and (number in compute.elsewhere) == (last in compute.elsewhere)
        if alike and number - begun < BATCH_DAYS_MAX and together <= most:
            made[-1] += day
            sum_of_batch = together
        else:
            made.append(day)
            begun, sum_of_batch = number, samples.get(number, 0)
    return made


def _recompute_slice(
    store: Store,
    cluster: str,
    hours: list[int],
    settings: Settings,
    requests: Mapping[int, Asked],
    stored: bool,
    compute: Compute,
) -> None:
    start_us, end_us = hours[0], hours[-1] + HOUR_US
    parameters = {
        "cluster": cluster,
        "slice_from_us": start_us,
        "slice_until_us": end_us,
        "piece_from_us": start_us - HOUR_US,
        "piece_until_us": end_us + HOUR_US,
        "read_from_us": start_us - 2 * HOUR_US,
        "read_until_us": end_us + 2 * HOUR_US,
        "default_interval_us": int(settings.default_interval_s * SECOND_US),
        "interval_us_max": INTERVAL_US_MAX,
        "idle_us_min": settings.idle_minutes * MINUTE_US,
        "idle_span_us_min": min(IDLE_SPAN_US_MIN, settings.idle_minutes * MINUTE_US),
    }
    with (
        store.view("slice_hour", pa.Table.from_pydict({"hour_us": hours}, schema=_HOUR)),
        store.transaction(),
    ):
        store.run("ledger/take_hours", **parameters)
        if stored:
            store.run("ledger/clear_hours", **parameters)
        workload_class.make_views(store, cluster, settings)
        compute(store, parameters)
        strand(store, cluster, hours, requests)
        store.run("ledger/unroll", cluster=cluster, from_us=hours[0], until_us=hours[-1])


def recompute_dirty(
    store: Store,
    cluster: str,
    settings: Settings,
    progress: Callable[[int, int], None] | None = None,
    compute: Compute = HERE,
) -> int:
    """Recomputes every dirty hour of a cluster that has segments, a day or some small ones at a time; returns how many hours.

    `progress(done, total)` is called after each. `compute` is where the samples are read. An interrupted run leaves the rest dirty. `stranding.refresh`,
    which runs before, handles the free time of other days whose requests have changed.
    """
    rows = store.rows("ledger/dirty_hours", cluster=cluster)
    empty = [row["hour_us"] for row in rows if not (row["reached"] or row["stored"])]
    if empty:  # Beyond the first and the last segment there is nothing to compute.
        query = "delete from dirty_hour where cluster = $c and list_contains($hours::bigint[], hour_us)"
        store.sql(query, c=cluster, hours=empty)
    hours = [row["hour_us"] for row in rows if row["reached"] or row["stored"]]
    requests = asked(store, cluster, (day_floor(hour) for hour in hours))
    done = len(empty)
    known = {row["hour_us"] for row in rows if row["stored"]}
    devices = traits(store, cluster, settings)
    for batch in _batches(store, hours, compute):
        stored = not known.isdisjoint(batch)
        _recompute_batch(store, devices, cluster, batch, settings, requests, stored, compute)
        done += len(batch)
        if done < len(rows):
            # Writers wait while the log is folded into the file: a little each day, not all of it at the end.
            store.checkpoint()
        if progress is not None:
            progress(done, len(rows))
    return done


def unclosed(store: Store, cluster: str, start_us: int, end_us: int) -> list[dict[str, Any]]:
    """The device-hours in the window whose buckets do not equal their capacity, in order of time."""
    dens = [
        row[0]
        for row in store.sql(
            "select share_den from ledger_hour where cluster = $c union select share_den from capacity where cluster = $c",
            c=cluster,
        )
    ]
    scale = lcm(1, *dens)
    return remembered.rows(store, "ledger/check", cluster=cluster, start_us=start_us, end_us=end_us, scale=scale)


def check(store: Store, cluster: str, start_us: int, end_us: int) -> None:
    """Raises LedgerDoesNotClose, naming the first device-hour in the window whose buckets do not equal its capacity."""
    found = unclosed(store, cluster, start_us, end_us)
    if found:
        row = found[0]
        raise LedgerDoesNotClose(
            f"the ledger of cluster {cluster!r} does not close: GPU {row['gpu']} in the hour of {rfc3339(row['hour_us'])} "
            f"has {row['capacity']} us of capacity and {row['recorded']} us recorded "
            f"({len(found)} such device-hours); run 'gpuwatch analyze' again, and report it if it stays"
        )
