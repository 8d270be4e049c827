"""Import kind `yunikorn-json`: saved responses of YuniKorn's REST API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mappings, string
from gpuwatch.collectors.shared.json_stream import elements
from gpuwatch.collectors.shared.records import Columns, Row, table_batches
from gpuwatch.collectors.yunikorn.applications import application_row, claim_rows
from gpuwatch.collectors.yunikorn.rows import event_row, partition_row, queue_rows, usage_rows
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

LISTS = ("partitions", "queues", "applications", "nodes", "EventRecords", "users", "groups")
"""Members of a larger response (a state dump, a batch of events) that contain separate items."""
UNSUPPORTED = {
    "HealthChecks": "health check",
    "rmBuildInformation": "cluster information",
    "totalApplications": "history of counts",
    "totalContainers": "history of counts",
    "Checksum": "configuration",
    "Partitions": "configuration",
    "allowed": "validation of a configuration",
    "parameters": "placement rule",
    "rules": "placement rule",
}
"""Responses of YuniKorn without queues or GPUs, by a member that only they have."""
MAX_ITEMS = 5_000_000
"""The most items in one file."""
IGNORED = "ignored"

Tables = dict[str, list[Columns]]


@importer(
    "yunikorn-json",
    "YuniKorn's REST responses: partitions, queues, applications, nodes, users, groups, events",
    suffixes=(".json", ".json.gz"),
)
def read_yunikorn_json(source: Source, rejects: Rejects) -> Rows:
    """Reads a file into queue, workload, claim and event batches; ignored items are counted by kind.

    Rows are yielded once the whole file has been read. Raises UnreadableInput.
    """
    tables: Tables = {}
    known, seen = 0, 0
    for line, item in documents(source.path, rejects):
        seen += 1
        if seen > MAX_ITEMS:
            raise UnreadableInput(f"{source.path}: more than {MAX_ITEMS} items; split it")
        try:
            ignored = add_rows(item, tables, source.observed_us)
        except Malformed as error:
            rejects.add(f"{kind_of(item)}: {error}", source.path, line, name_of(item))
            known += 1
            continue
        known += ignored is not None
        if ignored is None:
            rejects.add("not a response of YuniKorn", source.path, line, ", ".join(list(item)[:5]))
        elif ignored:
            rejects.add(f"{IGNORED}: {ignored}", source.path, line, name_of(item))
    if seen and not known:
        raise UnreadableInput(
            f"{source.path}: no response of YuniKorn; save those of /ws/v1/partitions, .../queues and .../applications"
        )
    for table, rows in tables.items():
        yield from table_batches(table, rows, source.cluster)


def documents(path: str, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    """Yields (line, object) for every item of a list at the top or in a larger response, else for the object itself.

    Raises UnreadableInput.
    """
    members: Object = {}
    first = 1
    for line, key, value in elements(path, rejects):
        if key is None:
            members |= {name: [] for name in value if name not in members and name not in LISTS}
            if members and not set(members) <= _DUMP_MEMBERS:
                yield first, members
            members = {}
        elif key == "" or (key in LISTS and isinstance(value, dict) and _is_item(value)):
            if isinstance(value, dict):
                yield from ((line, item) for item in _unwrapped(value))
            else:
                rejects.add("item is not an object", path, line, str(value))
        else:
            first = first if members else line
            _add_member(members, key, value)


def _add_member(members: Object, key: str, value: Any) -> None:
    if isinstance(members.get(key), list):
        members[key].append(value)
    else:
        members[key] = [value] if key in _LIST_MEMBERS else value


def add_rows(item: Object, tables: Tables, observed_us: int | None) -> str | None:
    """Adds the rows of an item to the tables. Raises Malformed, having added nothing.

    Returns "" for a supported item, a description for one that is ignored, and None for anything else.
    """
    rows = _rows_of(item, observed_us)
    if rows is None:
        return next((description for key, description in UNSUPPORTED.items() if key in item), None)
    for table, row in rows:
        tables.setdefault(table, []).append(row)
    return ""


def _rows_of(item: Object, observed_us: int | None) -> list[Row] | None:
    """The rows of an item by its kind, None for an unsupported one. Raises Malformed."""
    if "applicationID" in item and "applicationState" in item:
        own = string(item, "applicationID"), string(item, "queueName"), string(item, "user")
        application: Row = ("workload", application_row(item, observed_us))
        return [application, *_allocations(item, observed_us, *own)]
    if "queuename" in item:
        return list(queue_rows(item, observed_us))
    if "nodeID" in item:
        return _allocations(item, observed_us)
    if "userName" in item or "groupName" in item:
        return list(usage_rows(item, observed_us))
    if "timestampNano" in item:
        return [("event", event_row(item))]
    if "totalNodes" in item or ("clusterId" in item and "capacity" in item):
        return [("queue", partition_row(item, observed_us))]
    return None


def _allocations(item: Object, observed_us: int | None, *own: str | None) -> list[Row]:
    return [("claim", row) for row in claim_rows(mappings(item, "allocations"), observed_us, *own)]


def kind_of(item: Object) -> str:
    """The kind of an item, for messages."""
    kinds = {
        "applicationID": "application", "queuename": "queue", "nodeID": "node", "userName": "user",
        "groupName": "group", "timestampNano": "event",
    }  # fmt: skip
    return next((kind for key, kind in kinds.items() if key in item), "partition")


def name_of(item: Object) -> str:
    """The name of an item, for messages."""
    keys = ("applicationID", "queuename", "nodeID", "userName", "groupName", "objectID", "name", "partition")
    return next((str(item[key])[:200] for key in keys if item.get(key)), "(no name)")


_DUMP_MEMBERS = frozenset({"timestamp", "InstanceUUID", "LowestID", "HighestID"})
"""Members around the lists of a larger response."""

_LIST_MEMBERS = frozenset(
    {
        "children", "allocations", "requests", "stateLog", "placeholderData", "foreignAllocations", "groups",
        "reservations", "allocatingAcceptedApps", "HealthChecks", "Partitions", "rules", "applications",
        "rmBuildInformation",
    }
)  # fmt: skip
"""Members of single objects that are lists."""


def _unwrapped(value: Object) -> list[Object]:
    """The nodes of a partition in a state dump, else the object itself."""
    nodes = value.get("nodesInfo")
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else [value]


def _is_item(value: dict[str, Any]) -> bool:
    """Whether an element of a list is an item of its own, not a part of the object around it."""
    keys = (
        "applicationID", "queuename", "nodeID", "nodesInfo", "userName", "groupName", "timestampNano", "totalNodes",
        "clusterId",
    )  # fmt: skip
    return any(key in value for key in keys)
