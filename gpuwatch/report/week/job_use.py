"""How far some jobs used what they held: GPU-seconds by bucket, and what findings claim of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from gpuwatch.core.clock import Window
from gpuwatch.core.money import fraction_to_decimal
from gpuwatch.ledger import measures
from gpuwatch.ledger.hours import HELD_BUCKETS
from gpuwatch.report.facts import Amount
from gpuwatch.store.database import Store

Job = tuple[str | None, str | None, str | None, str | None]
"""(team, user, cluster, job)"""


@dataclass(frozen=True)
class Use:
    """GPU-seconds of a job by bucket, and how many of the below-peak ones findings claim."""

    buckets: Mapping[str, Amount] = field(default_factory=dict)
    claimed_gpu_seconds: Decimal = Decimal(0)


Uses = Mapping[Job, Use]

SECOND_PLACES = 6
_WANTED = pa.schema([("number", pa.int64()), *((n, pa.string()) for n in ("team", "user_name", "cluster", "job_id"))])


def job_uses(store: Store, window: Window, jobs: Sequence[Job]) -> dict[Job, Use]:
    """GPU-seconds by bucket of each of these jobs in a window of whole hours: no costs."""
    wanted = pa.Table.from_pylist(
        [dict(zip(_WANTED.names, (number, *job), strict=True)) for number, job in enumerate(jobs)], schema=_WANTED
    )
    measures.prepare(store)
    with store.view("report_job", wanted):
        rows = store.rows("report/job_use", start_us=window.start_us, end_us=window.end_us)
    found: dict[Job, Use] = {}
    for row in rows:
        names = (*HELD_BUCKETS, "claimed")
        seconds = {name: fraction_to_decimal(Decimal(str(row[name])), SECOND_PLACES) for name in names}
        claimed = seconds.pop("claimed")
        buckets = {bucket: Amount(amount) for bucket, amount in seconds.items() if amount}
        found[jobs[row["number"]]] = Use(buckets, claimed)
    return found
