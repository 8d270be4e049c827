"""Kubernetes events as rows, and what a FailedScheduling message counts."""

from __future__ import annotations

import re
from typing import Any

from gpuwatch.collectors.kubernetes_json import Malformed, Object, integer, mapping, moment, string

MAX_MESSAGE = 4000

_available = re.compile(
    r"(?:\d+/(?P<nodes>\d{1,9})|all) nodes are (?:un)?available:\s*(?P<reasons>.*?)(?:\.(?:\s.*)?)?$", re.DOTALL
)
"""The reasons end at the first full stop; behind it stands what preemption would do ("preemption: 0/7 nodes ...", since
1.31 "no new claims to deallocate, preemption: ..."). Volcano says that nodes are unavailable."""
_counted = re.compile(r"(?P<nodes>\d{1,9}) (?P<reason>\S.*)", re.DOTALL)
_preempted = re.compile(
    r"Preempted (?:in order to admit a workload \()?by (?P<by>[^)]*?)(?: on node (?P<node>\S+?))?\.?$"
)
_xid = re.compile(r"\bXid\s*(?:\(PCI:(?P<pci>[0-9A-Fa-f:.]{4,16})\))?:?\s*(?P<xid>\d{1,4})\b", re.IGNORECASE)


def event_row(event: Object) -> dict[str, Any]:
    """The event row of a v1 or an events.k8s.io Event: other names for the same fields. Raises Malformed."""
    metadata, series = mapping(event, "metadata"), mapping(event, "series")
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    created = _first_moment(event, "eventTime") or moment(metadata, "creationTimestamp")
    first = _first_moment(event, "firstTimestamp", "deprecatedFirstTimestamp") or created
    last = moment(series, "lastObservedTime") or _first_moment(event, "lastTimestamp", "deprecatedLastTimestamp")
    last = last or created or first
    namespace, name = string(metadata, "namespace"), string(metadata, "name")
    event_id = string(metadata, "uid") or (f"{namespace}/{name}" if name else None)
    if event_id is None:
        raise Malformed("metadata has no uid and no name")
    if last is None:
        raise Malformed("no time")
    message = string(event, "message") or string(event, "note")
    return {
        "event_id": event_id,
        "object_kind": string(about, "kind"),
        "namespace": string(about, "namespace") or namespace,
        "name": string(about, "name"),
        "reason": string(event, "reason"),
        "message": message[:MAX_MESSAGE] if message else None,
        "count": integer(series, "count") or integer(event, "count") or integer(event, "deprecatedCount") or 1,
        "first_us": first if first is not None else last,
        "last_us": last,
    }


def parse_failed_scheduling(message: str) -> dict[str, int]:
    """Nodes refused by reason, from the message of a FailedScheduling event or a PodScheduled condition.

    What stands behind the reasons repeats the same nodes and is left out. A reason without a count of its own
    (a volume that is not bound) is said of all nodes. Messages that count no nodes give {}.
    """
    match = _available.search(message)
    if not match:
        return {}
    counts: dict[str, int] = {}
    for part in re.split(r",\s+(?=\d+ )", match["reasons"].strip()):
        counted = _counted.fullmatch(part)
        reason, nodes = (counted["reason"], counted["nodes"]) if counted else (part, match["nodes"])
        if reason and nodes:
            counts[reason] = counts.get(reason, 0) + int(nodes)
    return counts


def parse_preempted(message: str) -> tuple[str, str | None] | None:
    """(who took the place, node) from the message of a Preempted event; None for other messages."""
    match = _preempted.search(message.strip())
    return (match["by"], match["node"]) if match else None


def parse_xids(message: str) -> list[tuple[str | None, int]]:
    """(PCI address, XID) of each GPU error that a message of node-problem-detector or the kernel log tells."""
    return [(match["pci"], int(match["xid"])) for match in _xid.finditer(message)]


def _first_moment(event: Object, *keys: str) -> int | None:
    return next((t for t in (moment(event, key) for key in keys) if t is not None), None)
