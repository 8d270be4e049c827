"""Fragmentation over time, and the jobs that stranded free GPUs, with what that cost."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, Window, rfc3339
from gpuwatch.core.money import CENT_PLACES, largest_remainder
from gpuwatch.store.database import Store

PLACES, RATIO_PLACES = 3, 6
SLOTS = (1, 2, 4, 8)
"""Slot sizes that are reported."""
GANGS = ("2x8", "4x8")
"""Gangs over several nodes that are reported."""
JOBS_MAX = 10_000
"""Jobs and prices of one answer: those that stranded most."""

Row = dict[str, Any]


def history(
    store: Store, window: Window, step_us: int, *, cluster: str | None = None, limit: int | None = None, offset: int = 0
) -> Row:
    """Rows by step, cluster, pool and model, with `next_offset`: GPUs free and stranded on average (a slice counts its share),
    the largest gang that one node could have taken at some moment, and slots of k GPUs on one node on average.

    Whole hours that begin in the window. `requests` None: no requests were known to evaluate the free time of that day.
    """
    rows = store.rows(
        "capacity/history",
        cluster=cluster,
        start_us=-(-window.start_us // HOUR_US) * HOUR_US,
        end_us=window.end_us,
        step_us=step_us,
        limit=None if limit is None else limit + 1,
        offset=offset,
    )
    more = limit is not None and len(rows) > limit
    items = [
        {
            "start": rfc3339(row["step_us"]),
            "cluster": row["cluster"],
            "pool": row["pool"],
            "gpu_model": row["gpu_model"],
            "free_gpus": round(float(row["free_gpus"]), PLACES),
            "stranded_gpus": round(float(row["stranded_gpus"]), PLACES),
            "rate": round(float(row["stranded_gpus"]) / float(row["free_gpus"]), RATIO_PLACES),
            "largest_gang": row["largest_gang"],
            "slots": {str(k): round(float(row[f"slots_{k}"]), PLACES) for k in SLOTS},
            "gangs": {shape: round(float(row[f"gangs_{shape}"]), PLACES) for shape in GANGS},
            "requests": row["requests"] or None,
        }
        for row in rows[:limit]
    ]
    return {"items": items, "next_offset": offset + len(items) if more else None}


def by_job(
    store: Store, window: Window, *, cluster: str | None = None, limit: int | None = None, offset: int = 0
) -> Row:
    """Jobs that held a part of nodes whose rest was stranded, with the GPU-hours of it, their cost, and `next_offset`; job
    None: no part of the node was held.

    Only what requests lost because free GPUs did not lie together, so it is less than the ledger's `stranded`, which also has
    free GPUs of a model or MIG mode that no request wants. `cost` None: no price. Those that stranded most first; at most JOBS_MAX. Who
    stranded less than the reported precision, in hours and in money, is left out.
    """
    rows = store.rows(
        "capacity/stranded_by_job", cluster=cluster, start_us=window.start_us, end_us=window.end_us, limit=JOBS_MAX
    )
    amounts: dict[str | None, list[tuple[int, Fraction]]] = defaultdict(list)
    for number, row in enumerate(rows):
        amounts[row["currency"]].append((number, Fraction(row["us"], HOUR_US) * Fraction(row["price"] or 0)))
    cents: dict[int, Decimal] = {}
    for currency, some in amounts.items():
        if currency is not None:
            rounded = largest_remainder([amount for _, amount in some], CENT_PLACES, [str(n) for n, _ in some])
            cents.update(zip((n for n, _ in some), rounded, strict=True))
    items = [
        {
            "cluster": row["cluster"],
            "pool": row["pool"],
            "gpu_model": row["gpu_model"],
            "job": row["job_id"],
            "team": row["team"],
            "user": row["user"],
            "stranded_gpu_hours": hours,
            "cost": f"{cents[number]:f}" if number in cents else None,
            "currency": row["currency"],
        }
        for number, row in enumerate(rows)
        if (hours := round(row["us"] / HOUR_US, PLACES)) or cents.get(number)
    ]
    end = len(items) if limit is None else offset + limit
    return {"items": items[offset:end], "next_offset": end if end < len(items) else None}
