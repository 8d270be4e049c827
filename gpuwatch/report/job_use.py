"""How far some jobs used what they held: productive and idle GPU-seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa

from gpuwatch.core.clock import Window
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.report.facts import Amount
from gpuwatch.store.database import Store

Job = tuple[str | None, str | None, str | None, str | None]
"""(team, user, cluster, job)"""
Uses = Mapping[Job, Mapping[str, Amount]]

SECOND_PLACES = 6
_WANTED = pa.schema([("number", pa.int64()), *((n, pa.string()) for n in ("team", "user_name", "cluster", "job_id"))])


def job_uses(store: Store, window: Window, jobs: Sequence[Job]) -> dict[Job, dict[str, Amount]]:
    """GPU-seconds by bucket of each of these jobs in a window of whole hours: no costs."""
    wanted = pa.Table.from_pylist(
        [dict(zip(_WANTED.names, (number, *job), strict=True)) for number, job in enumerate(jobs)], schema=_WANTED
    )
    with store.view("report_job", wanted):
        rows = store.rows("report/job_use", start_us=window.start_us, end_us=window.end_us)
    found: dict[Job, dict[str, Amount]] = {}
    for row in rows:
        seconds = {bucket: fraction_to_decimal(Decimal(str(row[bucket])), SECOND_PLACES) for bucket in HELD_BUCKETS}
        found[jobs[row["number"]]] = {bucket: Amount(amount) for bucket, amount in seconds.items() if amount}
    return found
