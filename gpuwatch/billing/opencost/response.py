"""OpenCost's words for allocations: the objects of its API, in its order, with one object of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuwatch.billing.chargeback import SEEN_PARTS_MIN
from gpuwatch.billing.opencost.allocation import BUCKETS, IDLE, UUIDS_MAX, Allocations, Row
from gpuwatch.billing.opencost.idle_share import MONTH_HOURS
from gpuwatch.billing.opencost.subject import Subject
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, Window, rfc3339
from gpuwatch.output.listing import Listing

PLACES = 5
"""Decimals of OpenCost's numbers."""
ENGINE = ("communication", "stalled", "below_roof", "memory_roof", "compute")
"""Buckets in which the graphics engine was active."""
SM_ACTIVE = ("below_roof", "memory_roof", "compute")
EFFECTIVE = ("memory_roof", "compute")
METRIC_US = {"hourly": HOUR_US, "daily": DAY_US, "monthly": MONTH_HOURS * HOUR_US}

Number = float | None


def _number(part: int, whole: int) -> Number:
    """A quotient of whole numbers as JSON has it; None where there is no whole. Only here numbers become floats."""
    return round(part / whole, PLACES) if whole else None


def _seen(row: Row) -> int:
    """Observed time of a row; none where it is too little to speak for the rest."""
    seen = sum(row.buckets.values())
    return seen if seen * SEEN_PARTS_MIN >= row.units else 0


def _span(window: Window) -> dict[str, str]:
    return {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}


class Words:
    """Turns the rows of one answer into objects."""

    def __init__(self, found: Allocations) -> None:
        self._found = found
        self._hour_units = found.scale.shares * HOUR_US

    def allocation(self, row: Row, window: Window, number: int) -> dict[str, Any]:
        """A row as OpenCost's Allocation, all of it; CPU, memory, disks and network are zero: we do not watch them.

        `gpuCostIdle` is a part of `gpuCost`: that of held time in which nothing ran, and the idle that it shares.
        Hours and cost have the shared idle in them, `gpuRequestAverage` has not.
        """
        length_us = row.last_us - row.first_us
        all_units = row.units + row.shared_idle_units
        cost, shared = self._costs(row, window)
        request, usage = self._averages(row)
        idle = self._money(self._idle(row), row, window)
        zero = 0.0
        known = [self._found.devices[device] for device in sorted(row.devices) if device in self._found.devices]
        return {
            "name": row.name,
            "properties": self._properties(row),
            "window": _span(window),
            "start": rfc3339(row.first_us),
            "end": rfc3339(row.last_us),
            "minutes": _number(length_us, MINUTE_US),
            **dict.fromkeys(CPU, zero),
            "gpuCount": _number(all_units, length_us * self._found.scale.shares),
            "gpuRequestAverage": request,
            "gpuUsageAverage": usage,
            "gpuHours": _number(all_units, self._hour_units),
            "gpuCost": cost,
            "gpuCostAdjustment": zero,
            "gpuCostIdle": idle,
            "gpuEfficiency": self._efficiency(row),
            **dict.fromkeys(NETWORK, zero),
            **dict.fromkeys(BALANCER, zero),
            "pvBytes": zero,
            "pvByteHours": zero,
            "pvCost": zero,
            "pvs": None,
            "pvCostAdjustment": zero,
            **dict.fromkeys(RAM, zero),
            "externalCost": zero,
            "sharedCost": shared,
            "totalCost": self._money(row.total, row, window),
            "totalEfficiency": zero,
            **self._proportional(row, number),
            "lbAllocations": None,
            "gpuAllocation": {
                "gpuDevice": _only(f"nvidia{d.index}" for d in known if d.index is not None),
                "gpuModel": _only(d.model or "" for d in known),
                "gpuUUID": _only(d.uuid for d in known),
                "isGPUShared": row.is_shared,
                "gpuUsageAverage": usage,
                "gpuRequestAverage": request,
            },
            "x_gpuwatch": self._own(row) | self._facts(row, window),
        }

    def summary(self, row: Row, window: Window) -> dict[str, Any]:
        """A row as OpenCost's SummaryAllocation."""
        cost, shared = self._costs(row, window)
        request, usage = self._averages(row)
        zero = 0.0
        return {
            "name": row.name,
            "start": rfc3339(row.first_us),
            "end": rfc3339(row.last_us),
            "cpuCoreRequestAverage": zero,
            "cpuCoreUsageAverage": zero,
            "cpuCost": zero,
            "cpuCostIdle": zero,
            "gpuRequestAverage": request,
            "gpuUsageAverage": usage,
            "gpuCost": cost,
            "gpuCostIdle": self._money(self._idle(row), row, window),
            "networkCost": zero,
            "loadBalancerCost": zero,
            "pvCost": zero,
            "ramByteRequestAverage": zero,
            "ramByteUsageAverage": zero,
            "ramCost": zero,
            "ramCostIdle": zero,
            "sharedCost": shared,
            "externalCost": zero,
            "totalEfficiency": zero,
            "totalCost": self._money(row.total, row, window),
        }

    def _money(self, amount: int, row: Row, window: Window) -> Number:
        """None where nothing of the row has a price: then nobody knows."""
        if row.units and not row.priced_units:
            return None
        length_us = METRIC_US.get(self._found.query.metric)
        if length_us is None:
            return _number(amount, self._found.scale.hour)
        return _number(amount * length_us, self._found.scale.hour * (window.end_us - window.start_us))

    def _costs(self, row: Row, window: Window) -> tuple[Number, Number]:
        gpu = self._money(row.amount + row.shared_idle_amount, row, window)
        return gpu, self._money(row.shared_amount, row, window)

    def _idle(self, row: Row) -> int:
        return row.amount if row.idle else row.idle_amount + row.shared_idle_amount

    def _averages(self, row: Row) -> tuple[Number, Number]:
        """(GPUs held on average, GPUs whose engine was active on average); None where nothing was observed."""
        length = (row.last_us - row.first_us) * self._found.scale.shares
        if row.idle or not length:
            return 0.0, 0.0
        active, seen = sum(row.buckets[name] for name in ENGINE), _seen(row)
        return _number(row.units, length), _number(active * row.units, seen * length)

    def _efficiency(self, row: Row) -> Number:
        """OpenCost's use over request: the engine's active part of the time that was observed."""
        return 0.0 if row.idle else _number(sum(row.buckets[name] for name in ENGINE), _seen(row))

    def _properties(self, row: Row) -> dict[str, Any]:
        subject, query = row.subject, self._found.query
        labels = dict(subject.labels)
        if not query.metadata and {a.field for a in query.aggregates}.isdisjoint({"pod", "container"}):
            asked = {a.key for a in query.aggregates if a.field == "label"}
            labels = {name: value for name, value in labels.items() if name in asked}
        return {
            name: value
            for name, value in {
                "cluster": subject.cluster,
                "node": subject.node,
                "container": subject.container,
                "controller": subject.controller,
                "controllerKind": subject.controller_kind,
                "namespace": subject.namespace,
                "pod": subject.pod,
                "providerID": subject.node,
                "labels": labels,
            }.items()
            if value
        }

    def _own(self, row: Row) -> dict[str, Any]:
        known = [self._found.devices[device] for device in sorted(row.devices) if device in self._found.devices]
        uuids = sorted({device.id for device in known})
        return {
            "currency": self._found.currency,
            "team": row.subject.team,
            "migProfile": _only(d.profile or "" for d in known) or None,
            "gpuModel": _only(d.model or "" for d in known) or None,
            "gpuDevices": len(uuids),
            "gpuUUIDs": uuids[:UUIDS_MAX],
        }

    def _facts(self, row: Row, window: Window) -> dict[str, Any]:
        """Ratios are of the time in which the GPUs were observed, `observed` that of the time they were held."""
        seen, hour = sum(row.buckets.values()), self._hour_units
        length = (row.last_us - row.first_us) * self._found.scale.shares

        def of(names: Sequence[str]) -> Number:
            return _number(sum(row.buckets[name] for name in names), _seen(row))

        waste = None if row.idle else self._money(row.waste_amount, row, window)
        held = {} if row.idle else {"unobserved": max(row.units - seen, 0), **row.buckets}
        return {
            "gpuCount": _number(row.units, length),
            "gpuHours": _number(row.units, hour),
            "unpricedGpuHours": _number(row.units - row.priced_units, hour),
            "smActive": of(SM_ACTIVE),
            "effectiveUtil": of(EFFECTIVE),
            "falseUtil": of(("stalled",)),
            "observed": None if row.idle else _number(min(seen, row.units), row.units),
            "wasteCost": waste,
            "wasteUSD": waste if self._found.currency == "USD" else None,
            "heldIdleCost": None if row.idle else self._money(row.idle_amount, row, window),
            "sharedIdleCost": self._money(row.shared_idle_amount, row, window),
            "bucketHours": {name: _number(units, hour) for name, units in held.items()},
        }

    def _proportional(self, row: Row, number: int) -> dict[str, Any]:
        if not self._found.query.proportional or row.idle:
            return {}
        parts = {}
        for pool, amount in sorted(row.pools.items(), key=str):
            cluster, node = pool
            part = _number(amount, self._found.pools[number, pool]) or 0.0
            zero = dict.fromkeys(("cpuPercentage", "ramPercentage", "loadBalancerPercentage", "pvPercentage"), 0.0)
            about = {"cluster": cluster} | ({} if node is None else {"name": node, "type": "Node", "providerID": node})
            key = cluster if node is None else f"{cluster},{node}"
            parts[key] = about | zero | {"gpuPercentage": part, "nodeResourceCostPercentage": part}
        return {"proportionalAssetResourceCosts": parts}


CPU = (
    "cpuCores", "cpuCoreRequestAverage", "cpuCoreLimitAverage", "cpuCoreUsageAverage", "cpuCoreHours", "cpuCost",
    "cpuCostAdjustment", "cpuCostIdle", "cpuEfficiency",
)  # fmt: skip
NETWORK = (
    "networkTransferBytes", "networkReceiveBytes", "networkCost", "networkCrossZoneCost", "networkCrossRegionCost",
    "networkInternetCost", "networkCostAdjustment",
)  # fmt: skip
BALANCER = ("loadBalancerCost", "loadBalancerCostAdjustment")
RAM = (
    "ramBytes", "ramByteRequestAverage", "ramByteLimitAverage", "ramByteUsageAverage", "ramByteHours", "ramCost",
    "ramCostAdjustment", "ramCostIdle", "ramEfficiency",
)  # fmt: skip


def _only(values: Iterable[str]) -> str:
    """The value that all have, or nothing."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


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
    words = Words(found)
    data = [
        {row.name: words.allocation(row, window, number) for row in _paged(found, rows)}
        for number, (window, rows) in enumerate(found.sets)
    ]
    return envelope(data, found.warning)


def summary_answer(found: Allocations) -> dict[str, Any]:
    """`/allocation/summary`: sets with their windows."""
    words = Words(found)
    sets = [
        {"allocations": {row.name: words.summary(row, window) for row in _paged(found, rows)}, "window": _span(window)}
        for window, rows in found.sets
    ]
    step_ns = found.query.sets.step_us * 1000
    return envelope({"step": step_ns, "sets": sets, "window": _span(found.query.window)}, found.warning)


def topline_answer(found: Allocations) -> dict[str, Any]:
    """`/allocation/summary/topline`: how many rows there are, and one that adds them up."""
    window, rows = found.query.window, [row for _, rows in found.sets for row in rows]
    counted = [row for row in rows if not row.idle] or rows
    total = Row(
        "total",
        Subject(),
        min((row.first_us for row in rows), default=window.start_us),
        max((row.last_us for row in rows), default=window.end_us),
        units=sum(row.units for row in counted),
        priced_units=sum(row.priced_units for row in counted),
        amount=sum(row.amount for row in rows),
        shared_idle_amount=sum(row.shared_idle_amount for row in rows),
        shared_amount=sum(row.shared_amount for row in rows),
        idle_amount=sum(row.amount if row.idle else row.idle_amount for row in rows),
        buckets={name: sum(row.buckets[name] for row in rows) for name in BUCKETS},
    )
    combined = {"allocations": {"total": Words(found).summary(total, window)}, "window": _span(window)}
    return envelope({"numResults": len({row.name for row in rows}), "combined": combined}, found.warning)


COLUMNS = (
    "Date", "Namespace", "ControllerKind", "ControllerName", "Pod", "Container", "CPUCoreUsageAverage",
    "CPUCoreRequestAverage", "RAMBytesUsageAverage", "RAMBytesRequestAverage", "NetworkReceiveBytes",
    "NetworkTransferBytes", "GPUs", "PVBytes", "CPUCost", "RAMCost", "NetworkCost", "PVCost", "GPUCost", "TotalCost",
    "Name", "Start", "End", "Cluster", "Node", "GPUHours", "GPUCostIdle", "SharedCost", "Currency", "Team",
)  # fmt: skip
"""OpenCost's CSV export, and behind it what says which row it is."""


def listing(found: Allocations) -> Listing:
    """The rows of all sets under COLUMNS; what is unknown is empty."""
    words, items = Words(found), []
    for number, (window, rows) in enumerate(found.sets):
        for row in _paged(found, rows):
            item, about = words.allocation(row, window, number), row.subject
            values = (
                rfc3339(window.start_us)[:10], IDLE if row.idle else about.namespace, about.controller_kind,
                about.controller, about.pod, about.container, 0, 0, 0, 0, 0, 0, item["gpuCount"], 0, 0, 0, 0, 0,
                item["gpuCost"], item["totalCost"], row.name, item["start"], item["end"], about.cluster, about.node,
                item["gpuHours"], item["gpuCostIdle"], item["sharedCost"], found.currency, about.team,
            )  # fmt: skip
            items.append(dict(zip(COLUMNS, values, strict=True)))
    return Listing(COLUMNS, items)
