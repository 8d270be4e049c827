"""Usage of Slurm's partitions, QOS and reservations, from all jobs and nodes together. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.shares import SHARES_LABEL
from gpuwatch.collectors.slurm.text import expand_hostlist

Devices = Mapping[str, Mapping[str, int]]
"""Devices by node and MIG profile."""

MAX_COUNT = 2**31 - 1
"""The largest value of a count column; larger sums are capped."""


QueueKey = tuple[str, str]
"""("partition" or "qos", name)."""


@dataclass
class Usage:
    """What the jobs of a partition or QOS use and wait for."""

    used: dict[str, int] = field(default_factory=dict)
    running: int = 0
    pending: int = 0


def usage_by_queue(rows: Iterable[Row]) -> dict[QueueKey, Usage]:
    """Usage of each partition and QOS, from the rows of all jobs at one moment."""
    usage = defaultdict[QueueKey, Usage](Usage)
    for table, row in rows:
        if table == "claim" and row["end_us"] is None:
            _add_allocation(usage, row)
        elif table == "workload" and row["state"] != "finished":
            _add_job(usage, row)
    return dict(usage)


def _add_allocation(usage: defaultdict[QueueKey, Usage], row: dict[str, Any]) -> None:
    if SHARES_LABEL in (row.get("labels") or ""):
        return
    for key in (("partition", row["queue"] or ""), ("qos", row["qos"] or "")):
        used = usage[key].used
        used[row["profile"] or ""] = used.get(row["profile"] or "", 0) + row["device_count"]


def _add_job(usage: defaultdict[QueueKey, Usage], row: dict[str, Any]) -> None:
    partitions = (row["queue"] or "").split(",")  # a pending job takes the first of its partitions with free capacity
    for key in [*(("partition", name) for name in partitions), ("qos", row["priority_class"] or "")]:
        if row["state"] in ("running", "admitted"):
            usage[key].running += 1
        else:
            usage[key].pending += json.loads(row["detail"]).get("array_tasks", 1)


def with_totals(rows: Iterable[Row], devices: Devices, usage: Mapping[QueueKey, Usage] | None) -> Iterator[Row]:
    """Adds to queues and reservations what their own records lack.

    If their TRES lists no GPUs (at a site that does not account for them), the devices of their nodes are counted.
    A partition without any GPU is dropped.
    """
    for table, row in rows:
        if table not in ("queue", "reservation"):
            yield table, row
            continue
        nodes = row.get("_nodes")
        row = {name: value for name, value in row.items() if name != "_nodes"}
        if table == "queue" and row["kind"] == "partition" and row["quota"] is None:
            total = _total(nodes, devices)
            if not total:
                continue
            row["quota"] = row["quota_max"] = compact_json(total)
        if table == "queue" and usage is not None:
            own = usage.get((row["kind"], row["name"]), Usage())
            pending = min(own.pending, MAX_COUNT)
            row |= {"used": compact_json(own.used), "running_count": own.running, "pending_count": pending}
        if table == "reservation" and row["device_count"] is None and nodes and devices:
            row["device_count"] = min(sum(_total(nodes, devices).values()), MAX_COUNT)
        yield table, row


def _total(nodes: str | None, devices: Devices) -> dict[str, int]:
    total: dict[str, int] = {}
    for node in expand_hostlist(nodes or ""):
        for profile, count in devices.get(node, {}).items():
            total[profile] = total.get(profile, 0) + count
    return {profile: count for profile, count in total.items() if count}
