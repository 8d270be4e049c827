"""Answers of the OpenCost API: allocations, summaries, one total, and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuwatch.billing.opencost.allocation import BUCKETS, IDLE, Allocations, Row
from gpuwatch.billing.opencost.objects import RowObjects, span
from gpuwatch.billing.opencost.subject import Subject
from gpuwatch.core.clock import rfc3339
from gpuwatch.output.listing import Listing


def _paged(found: Allocations, rows: Sequence[Row]) -> Sequence[Row]:
    query = found.query
    return rows[query.offset : None if query.limit is None else query.offset + query.limit]


def envelope(data: Any, warning: str | None) -> dict[str, Any]:
    """An answer as OpenCost wraps it."""
    return {"code": 200, "status": "success", "data": data} | ({} if warning is None else {"warning": warning})


def refusal(message: str, status: int = 400) -> dict[str, Any]:
    """An error as OpenCost wraps it."""
    return {"code": status, "message": f"Error: {message}"}


def allocation_answer(found: Allocations) -> dict[str, Any]:
    """`/allocation`: a map by name for each set."""
    objects = RowObjects(found)
    data = [
        {row.name: objects.allocation(row, window, number) for row in _paged(found, rows)}
        for number, (window, rows) in enumerate(found.sets)
    ]
    return envelope(data, found.warning)


def summary_answer(found: Allocations) -> dict[str, Any]:
    """`/allocation/summary`: sets with their windows."""
    objects = RowObjects(found)
    sets = [
        {"allocations": {row.name: objects.summary(row, window) for row in _paged(found, rows)}, "window": span(window)}
        for window, rows in found.sets
    ]
    step_ns = found.query.sets.step_us * 1000
    return envelope({"step": step_ns, "sets": sets, "window": span(found.query.window)}, found.warning)


def topline_answer(found: Allocations) -> dict[str, Any]:
    """`/allocation/summary/topline`: the number of rows, and their sum as one row."""
    window, rows = found.query.window, [row for _, rows in found.sets for row in rows]
    counted = [row for row in rows if not row.idle] or rows
    total = Row(
        "total",
        Subject(),
        min((row.first_us for row in rows), default=window.start_us),
        max((row.last_us for row in rows), default=window.end_us),
        **_sums(counted, "units", "priced_units"),
        **_sums(rows, "amount", "shared_idle_amount", "shared_amount"),
        idle_amount=sum(row.amount if row.idle else row.idle_amount for row in rows),
        buckets={name: sum(row.buckets[name] for row in rows) for name in BUCKETS},
    )
    combined = {"allocations": {"total": RowObjects(found).summary(total, window)}, "window": span(window)}
    return envelope({"numResults": len({row.name for row in rows}), "combined": combined}, found.warning)


def _sums(rows: Sequence[Row], *names: str) -> dict[str, Any]:
    return {name: sum(getattr(row, name) for row in rows) for name in names}


COLUMNS = (
    "Date", "Namespace", "ControllerKind", "ControllerName", "Pod", "Container", "CPUCoreUsageAverage",
    "CPUCoreRequestAverage", "RAMBytesUsageAverage", "RAMBytesRequestAverage", "NetworkReceiveBytes",
    "NetworkTransferBytes", "GPUs", "PVBytes", "CPUCost", "RAMCost", "NetworkCost", "PVCost", "GPUCost", "TotalCost",
    "Name", "Start", "End", "Cluster", "Node", "GPUHours", "GPUCostIdle", "SharedCost", "Currency", "Team",
)  # fmt: skip
"""The columns of OpenCost's CSV export, and further ones that identify the row."""


def listing(found: Allocations) -> Listing:
    """The rows of all sets under COLUMNS; what is unknown is empty."""
    objects, items = RowObjects(found), []
    for number, (window, rows) in enumerate(found.sets):
        for row in _paged(found, rows):
            item, about = objects.allocation(row, window, number), row.subject
            values = (
                rfc3339(window.start_us)[:10], IDLE if row.idle else about.namespace, about.controller_kind,
                about.controller, about.pod, about.container, 0, 0, 0, 0, 0, 0, item["gpuCount"], 0, 0, 0, 0, 0,
                item["gpuCost"], item["totalCost"], row.name, item["start"], item["end"], about.cluster, about.node,
                item["gpuHours"], item["gpuCostIdle"], item["sharedCost"], found.currency, about.team,
            )  # fmt: skip
            items.append(dict(zip(COLUMNS, values, strict=True)))
    return Listing(COLUMNS, items)
