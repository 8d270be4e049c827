"""Rows of YuniKorn's partitions, queues, users, groups and events, and its units of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import Rows
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, mappings, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.collectors.shared.resource_lists import Devices, devices_of, json_or_none, non_empty, shortened
from gpuwatch.core.model import hash64

MAX_QUEUES = 100_000
"""The most queues in one tree."""
DEFAULT = "default"
EARLIEST_S, LATEST_S = 946_684_800, 4_102_444_800
"""2000 to 2100: a number outside, in any unit, is not a valid time."""
OBJECTS = {1: "Request", 2: "Application", 3: "Node", 4: "Queue", 5: "UserGroup"}
CHANGES = {0: "NONE", 1: "SET", 2: "ADD", 3: "REMOVE"}
DETAILS = {
    100: "REQUEST_CANCEL", 101: "REQUEST_ALLOC", 102: "REQUEST_TIMEOUT", 200: "APP_ALLOC", 201: "APP_REQUEST",
    202: "APP_REJECT", 203: "APP_NEW", 204: "APP_ACCEPTED", 205: "APP_STARTING", 206: "APP_RUNNING",
    207: "APP_COMPLETING", 208: "APP_COMPLETED", 209: "APP_FAILING", 210: "APP_FAILED", 211: "APP_RESUMING",
    212: "APP_EXPIRED", 300: "NODE_DECOMISSION", 301: "NODE_READY", 302: "NODE_SCHEDULABLE", 303: "NODE_ALLOC",
    304: "NODE_CAPACITY", 305: "NODE_OCCUPIED", 306: "NODE_RESERVATION", 400: "QUEUE_CONFIG", 401: "QUEUE_DYNAMIC",
    402: "QUEUE_TYPE", 403: "QUEUE_MAX", 404: "QUEUE_GUARANTEED", 405: "QUEUE_APP", 406: "QUEUE_ALLOC",
    500: "ALLOC_CANCEL", 501: "ALLOC_PREEMPT", 502: "ALLOC_TIMEOUT", 503: "ALLOC_REPLACED",
    504: "ALLOC_NODEREMOVED",
}  # fmt: skip
"""The names of YuniKorn's codes; an unknown code is kept as a number."""


def instant(value: object) -> int | None:
    """A time in nanoseconds, milliseconds or seconds, as a number or text, in microseconds; None if it is not valid.

    The unit follows from the size. A number far outside of this century (a mistake, or 0 for "not yet") is not valid.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        return None
    number = int(text)
    for unit in (1, 1000, 1_000_000, 1_000_000_000):
        if EARLIEST_S * unit <= number < LATEST_S * unit:
            return number * 1_000_000 // unit
    return None


def devices(parent: Object, key: str) -> tuple[Devices, dict[str, Any]]:
    """Devices of a resource map; see resource_lists.devices_of. Raises Malformed."""
    return devices_of(mapping(parent, key))


def qualified_name(partition: str | None, name: str) -> str:
    """A name with its partition, without the default partition, the only one on Kubernetes."""
    return name if partition in (None, "", DEFAULT) else f"[{partition}]{name}"


def integer_of(parent: Object, key: str) -> int | None:
    """The whole number under `key`, None when absent; raises Malformed for anything else."""
    value = parent.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise Malformed(f"{key} is not a whole number")
    return value


def partition_row(item: Object, observed_us: int | None) -> Columns:
    """A partition as the queue of everything in it. Raises Malformed."""
    name = string(item, "name")
    if name is None:
        raise Malformed("a partition has no name")
    capacity, applications = mapping(item, "capacity"), mapping(item, "applications")
    quota, other = devices(capacity, "capacity")
    waiting = [integer_of(applications, state) for state in ("New", "Accepted", "Pending")]
    return {
        "scheduler": "yunikorn",
        "kind": "partition",
        "name": name,
        "observed_us": observed_us,
        "state": string(item, "state"),
        "quota": json_or_none(quota),
        "quota_max": json_or_none(quota),
        "used": _used(capacity, "usedCapacity", quota),
        "pending_count": None if waiting == [None] * 3 else sum(n or 0 for n in waiting),
        "running_count": integer_of(applications, "Running"),
        "preemption": json_or_none(_kept(item, ("preemptionEnabled", "quotaPreemptionEnabled"))),
        "detail": json_or_none(
            non_empty(
                other=other,
                nodes=integer_of(item, "totalNodes"),
                containers=integer_of(item, "totalContainers"),
                applications=applications,
                node_sorting=string(mapping(item, "nodeSortingPolicy"), "type"),
                state_since_us=instant(item.get("lastStateTransitionTime")),
                cluster_id=string(item, "clusterId"),
            )
        ),
    }


def queue_rows(item: Object, observed_us: int | None) -> Rows:
    """One row per queue of the tree `item`. Usage beyond the guarantee counts as borrowed.

    Raises Malformed for the whole tree if one queue is invalid, because the sums would not add up.
    """
    remaining = [item]
    rows: list[tuple[str, Columns]] = []
    while remaining:
        queue = remaining.pop()
        remaining += mappings(queue, "children")[::-1]
        rows.append(("queue", _queue(queue, observed_us)))
        if len(rows) > MAX_QUEUES:
            raise Malformed(f"more than {MAX_QUEUES} queues in one tree")
    return rows


def usage_rows(item: Object, observed_us: int | None) -> Iterator[tuple[str, Columns]]:
    """One row per queue that a user or group uses. Raises Malformed."""
    user, group = string(item, "userName"), string(item, "groupName")
    remaining, count = [mapping(item, "queues")], 0
    while remaining:
        place = remaining.pop()
        remaining += mappings(place, "children")[::-1]
        path = string(place, "queuePath") or string(place, "queuename")
        if path is None:
            continue
        count += 1
        if count > MAX_QUEUES:
            raise Malformed(f"more than {MAX_QUEUES} queues in one tree")
        most, other = devices(place, "maxResources")
        used, other_used = devices(place, "resourceUsage")
        running = place.get("runningApplications")
        yield (
            "queue",
            {
                "scheduler": "yunikorn",
                "kind": "user" if user else "group",
                "name": user or group,
                "parent": path,
                "observed_us": observed_us,
                "quota_max": json_or_none(most),
                "used": json_or_none(used),
                "running_count": len(running) if isinstance(running, list) else None,
                "detail": json_or_none(
                    non_empty(
                        other=non_empty(quota_max=other, used=other_used),
                        applications_max=integer_of(place, "maxApplications"),
                    )
                ),
            },
        )


def event_row(item: Object) -> Columns:
    """The event row of an event record. Raises Malformed."""
    at_us = instant(item.get("timestampNano"))
    if at_us is None:
        raise Malformed("timestampNano is not a time")
    kind, change, detail = (integer_of(item, key) for key in ("type", "eventChangeType", "eventChangeDetail"))
    name, reference, message = string(item, "objectID"), string(item, "referenceID"), string(item, "message")
    what = DETAILS.get(detail or 0, str(detail) if detail else None)
    how = CHANGES.get(change or 0, str(change))
    identity = (str(item.get("timestampNano")), str(kind), name or "", reference or "", str(change), str(detail))
    return {
        "event_id": f"yunikorn-{hash64(*identity, message or '') & (1 << 64) - 1:016x}",
        "object_kind": f"YuniKorn{OBJECTS.get(kind or 0, 'Object')}",
        "name": name,
        "reason": f"{what} {how}" if what else how,
        "message": shortened(": ".join(part for part in (reference, message) if part) or None),
        "count": 1,
        "first_us": at_us,
        "last_us": at_us,
    }


def _queue(item: Object, observed_us: int | None) -> Columns:
    name, partition = string(item, "queuename"), string(item, "partition")
    if name is None:
        raise Malformed("a queue has no queuename")
    quota, other_quota = devices(item, "guaranteedResource")
    most, other_most = devices(item, "maxResource")
    pending, other_pending = devices(item, "pendingResource")
    used = devices(item, "allocatedResource")[0]
    parent = string(item, "parent") or name.rpartition(".")[0]
    accepted = item.get("allocatingAcceptedApps")
    return {
        "scheduler": "yunikorn",
        "kind": "queue",
        "name": qualified_name(partition, name),
        "parent": qualified_name(partition, parent) if parent else None,
        "observed_us": observed_us,
        "state": string(item, "status"),
        "priority": integer_of(item, "priorityOffset"),
        "quota": json_or_none(quota),
        "quota_max": json_or_none(most),
        "used": _used(item, "allocatedResource", quota | most),
        "borrowed": json_or_none({kind: max(0, n - quota[kind]) for kind, n in used.items() if kind in quota}),
        "running_count": integer_of(item, "runningApps"),
        "preemption": json_or_none(
            _kept(
                item,
                (
                    "preemptionEnabled", "isPreemptionFence", "preemptionDelay", "isPriorityFence",
                    "isQuotaPreemptionRunning",
                ),
            )
        ),
        "detail": json_or_none(
            non_empty(
                partition=partition,
                pending=pending,
                other=non_empty(quota=other_quota, quota_max=other_most, pending=other_pending),
                leaf=_flag(item.get("isLeaf")),
                managed=_flag(item.get("isManaged")),
                applications_max=integer_of(item, "maxRunningApps"),
                allocating=len(accepted) if isinstance(accepted, list) else None,
                sorting=string(item, "sortingPolicy"),
                properties=mapping(item, "properties"),
            )
        ),
    }  # fmt: skip


def _used(parent: Object, key: str, kinds: Devices) -> str | None:
    """The devices in use: 0 of a kind in `kinds` that is not listed, unknown without any list."""
    if parent.get(key) is None:
        return None
    return json_or_none(dict.fromkeys(sorted(kinds), 0) | devices(parent, key)[0])


def _flag(value: object) -> bool | None:
    """A flag, which YuniKorn sometimes writes as text."""
    return {"true": True, "false": False}.get(str(value).lower())


def _kept(item: Object, keys: tuple[str, ...]) -> dict[str, object]:
    return {key: item[key] for key in keys if isinstance(item.get(key), bool | str)}
