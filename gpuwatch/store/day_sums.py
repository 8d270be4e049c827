"""Whole days of the ledger in few rows: which days lack them, and their computation."""

from __future__ import annotations

from gpuwatch.store.database import Store

WORK_KIND = ("views/session", "views/needs_steady", "views/work_kind")
"""What the macro work_kind needs, and itself."""


def roll(store: Store, cluster: str) -> int:
    """Rolls every day of a cluster whose segments or hours have changed since; returns how many.

    Each day is one transaction: an interrupted run leaves the other days unrolled, and they are read from segments and
    hours until the next one. Days with dirty hours wait for those. Needs the classes of cost.price.
    """
    days = [row["day_us"] for row in store.rows("store/day_sums/unrolled", cluster=cluster)]
    if not days:
        return 0
    with store.workspace() as work:
        for day_us in days:
            with work.transaction():
                work.run("store/day_sums/roll", cluster=cluster, day_us=day_us)
                sum_moved_days(work, cluster)
    return len(days)


def sum_moved_days(store: Store, cluster: str) -> None:
    """Recomputes the sums of a cluster's days in the temporary table `moved_day`, within the caller's transaction."""
    for view in WORK_KIND:
        store.run(view)
    store.run("store/day_sums/roll_sums", cluster=cluster)
