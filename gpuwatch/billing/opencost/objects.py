"""Rows of an OpenCost answer as the objects of its API, in its field order, with one object of our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuwatch.billing.funnel import SEEN_PARTS_MIN
from gpuwatch.billing.opencost.allocation import UUIDS_MAX, Allocations, Row
from gpuwatch.billing.opencost.idle_share import MONTH_HOURS
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US, Window, rfc3339
from gpuwatch.ledger.measures import AT_ROOF, WORKING

PLACES = 5
"""Decimals of OpenCost's numbers."""
ENGINE = ("communication", "stalled", "below_roof", "memory_roof", "compute")
"""Buckets in which the graphics engine was active."""
METRIC_US = {"hourly": HOUR_US, "daily": DAY_US, "monthly": MONTH_HOURS * HOUR_US}

Number = float | None


def _number(part: int, whole: int) -> Number:
    """A quotient as a float for JSON; None if the divisor is 0. Only here numbers become floats."""
    return round(part / whole, PLACES) if whole else None


def _seen(row: Row) -> int:
    """Observed time of a row; 0 if it is too little to represent the rest."""
    seen = sum(row.buckets.values())
    return seen if seen * SEEN_PARTS_MIN >= row.units else 0


def span(window: Window) -> dict[str, str]:
    return {"start": rfc3339(window.start_us), "end": rfc3339(window.end_us)}


class RowObjects:
    """Turns the rows of one answer into JSON objects."""

    def __init__(self, found: Allocations) -> None:
        self._found = found
        self._hour_units = found.scale.shares * HOUR_US

    def allocation(self, row: Row, window: Window, number: int) -> dict[str, Any]:
        """A row as OpenCost's Allocation. CPU, memory, disks and network are zero: gpuwatch does not measure them.

        `gpuCostIdle` is a part of `gpuCost`: held time in which nothing ran, and the row's share of idle cost. Hours and cost
        include that share, `gpuRequestAverage` does not.
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
            "window": span(window),
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
        """None if no time of the row has a price."""
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
            "teamInferred": None if row.subject.team is None else row.subject.team in self._found.inferred_teams,
            "migProfile": _only(d.profile or "" for d in known) or None,
            "gpuModel": _only(d.model or "" for d in known) or None,
            "gpuDevices": len(uuids),
            "gpuUUIDs": uuids[:UUIDS_MAX],
        }

    def _facts(self, row: Row, window: Window) -> dict[str, Any]:
        """Ratios are of the observed time; `observed` is that time as a ratio of the held time."""
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
            "smActive": of(WORKING),
            "effectiveUtil": of(AT_ROOF),
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
    """The common value, or an empty text."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""
