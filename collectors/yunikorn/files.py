"""Import kind `yunikorn-json`: what YuniKorn's REST API answers, saved in files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mappings, string
from gpuwatch.collectors.shared.json_stream import pieces
from gpuwatch.collectors.shared.records import Columns, table_batches
from gpuwatch.collectors.yunikorn.applications import application_row, claim_rows
from gpuwatch.collectors.yunikorn.rows import event_row, partition_row, queue_rows, usage_rows
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

LISTS = ("partitions", "queues", "applications", "nodes", "EventRecords", "users", "groups")
"""Members of a whole answer (a state dump, a batch of events) whose items are told one by one."""
UNTOLD = {
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
"""Answers of YuniKorn that say nothing of queues or GPUs, by a member that only they have."""
MAX_ITEMS = 5_000_000
"""Items of one file."""
IGNORED = "ignored"

Tables = dict[str, list[Columns]]


@importer(
    "yunikorn-json",
    "YuniKorn's REST answers: partitions, queues, applications, nodes, users, groups, events",
    suffixes=(".json", ".json.gz"),
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Reads one file into queue, workload, claim and event batches; what is ignored is counted by what it is.

    Nothing is yielded before the whole file has been read. Raises UnreadableInput.
    """
    tables: Tables = {}
    known, seen = 0, 0
    for line, item in documents(source.path, rejects):
        seen += 1
        if seen > MAX_ITEMS:
            raise UnreadableInput(f"{source.path}: more than {MAX_ITEMS} items; split it")
        try:
            said = take(item, tables, source.observed_us)
        except Malformed as error:
            rejects.add(f"{what(item)}: {error}", source.path, line, name_of(item))
            known += 1
            continue
        known += said is not None
        if said is None:
            rejects.add("not an answer of YuniKorn", source.path, line, ", ".join(list(item)[:5]))
        elif said:
            rejects.add(f"{IGNORED}: {said}", source.path, line, name_of(item))
    if seen and not known:
        raise UnreadableInput(
            f"{source.path}: no answer of YuniKorn; save what /ws/v1/partitions, .../queues, .../applications give"
        )
    for table, rows in tables.items():
        yield from table_batches(table, rows, source.cluster)


def documents(path: str, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    """(line, object) of every item: of a list at the top, of the lists of a whole answer, else the object itself.

    Raises UnreadableInput.
    """
    parts: Object = {}
    first = 1
    for line, key, value in pieces(path, rejects):
        if key is None:
            parts |= {name: [] for name in value if name not in parts and name not in LISTS}
            if parts and not set(parts) <= {"timestamp", "InstanceUUID", "LowestID", "HighestID"}:
                yield first, parts
            parts = {}
            continue
        if key == "" or (key in LISTS and isinstance(value, dict) and _alone(value)):
            if isinstance(value, dict):
                yield from ((line, item) for item in _unwrapped(value))
            else:
                rejects.add("item is not an object", path, line, str(value))
            continue
        first = first if parts else line
        if isinstance(parts.get(key), list):
            parts[key].append(value)
        else:
            parts[key] = [value] if key in _LISTED else value


def take(item: Object, tables: Tables, observed_us: int | None) -> str | None:
    """Adds the rows of one item; "" when it was read, what it is when it is ignored, None for what is none of these.

    Raises Malformed, having added nothing.
    """
    rows: list[tuple[str, Columns]] = []
    if "applicationID" in item and "applicationState" in item:
        own = string(item, "applicationID"), string(item, "queueName"), string(item, "user")
        rows.append(("workload", application_row(item, observed_us)))
        rows += [("claim", row) for row in claim_rows(mappings(item, "allocations"), observed_us, *own)]
    elif "queuename" in item:
        rows += queue_rows(item, observed_us)
    elif "nodeID" in item:
        rows += [("claim", row) for row in claim_rows(mappings(item, "allocations"), observed_us)]
    elif "userName" in item or "groupName" in item:
        rows += usage_rows(item, observed_us)
    elif "timestampNano" in item:
        rows.append(("event", event_row(item)))
    elif "totalNodes" in item or ("clusterId" in item and "capacity" in item):
        rows.append(("queue", partition_row(item, observed_us)))
    else:
        return next((word for key, word in UNTOLD.items() if key in item), None)
    for table, row in rows:
        tables.setdefault(table, []).append(row)
    return ""


def what(item: Object) -> str:
    """A word for an item, for people."""
    words = {
        "applicationID": "application", "queuename": "queue", "nodeID": "node", "userName": "user",
        "groupName": "group", "timestampNano": "event",
    }  # fmt: skip
    return next((word for key, word in words.items() if key in item), "partition")


def name_of(item: Object) -> str:
    """What an item is called, for people."""
    keys = ("applicationID", "queuename", "nodeID", "userName", "groupName", "objectID", "name", "partition")
    return next((str(item[key])[:200] for key in keys if item.get(key)), "(no name)")


_LISTED = frozenset(
    {
        "children", "allocations", "requests", "stateLog", "placeholderData", "foreignAllocations", "groups",
        "reservations", "allocatingAcceptedApps", "HealthChecks", "Partitions", "rules", "applications",
        "rmBuildInformation",
    }
)  # fmt: skip
"""Members that are lists, of an object that stands alone."""


def _unwrapped(value: Object) -> list[Object]:
    """A state dump has its nodes a partition at a time."""
    nodes = value.get("nodesInfo")
    return [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else [value]


def _alone(value: dict[str, Any]) -> bool:
    """Whether a member of a list is itself something that is told, not a part of the object round it."""
    keys = (
        "applicationID", "queuename", "nodeID", "nodesInfo", "userName", "groupName", "timestampNano", "totalNodes",
        "clusterId",
    )  # fmt: skip
    return any(key in value for key in keys)
