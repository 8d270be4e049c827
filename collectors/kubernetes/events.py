"""Kubernetes events as rows, and which of them are new."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, moment, string

MAX_MESSAGE = 4000
MAX_EVENTS = 100_000


def event_row(event: Object) -> dict[str, Any]:
    """The event row of a v1 or events.k8s.io Event, which name the same fields differently. Raises Malformed."""
    metadata, series = mapping(event, "metadata"), mapping(event, "series")
    about = mapping(event, "involvedObject") or mapping(event, "regarding")
    first, last = _first_and_last(event)
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


def _first_and_last(event: Object) -> tuple[int | None, int | None]:
    """When an event occurred first and last; an event without either occurred when it was created."""
    created = _first_moment(event, "eventTime") or moment(mapping(event, "metadata"), "creationTimestamp")
    first = _first_moment(event, "firstTimestamp", "deprecatedFirstTimestamp") or created
    series_end = moment(mapping(event, "series"), "lastObservedTime")
    last = series_end or _first_moment(event, "lastTimestamp", "deprecatedLastTimestamp") or created or first
    return first, last


def _first_moment(event: Object, *keys: str) -> int | None:
    return next((t for t in (moment(event, key) for key in keys) if t is not None), None)


class EventChanges:
    """The newest events and how often each has occurred, so that an event is written when its count rises."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, tuple[Any, Any]] = OrderedDict()

    def update(self, row: dict[str, Any]) -> bool:
        """Takes an event row; returns True if it must be written."""
        event_id, state = row["event_id"], (row["count"], row["last_us"])
        if self._events.get(event_id) == state:
            return False
        self._events[event_id] = state
        self._events.move_to_end(event_id)
        if len(self._events) > MAX_EVENTS:
            self._events.popitem(last=False)
        return True
