"""Tracks objects of the registered kinds: which of their rows changed, and what their deletion means. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator

from gpuwatch.collectors.kubernetes.kinds import Kind
from gpuwatch.collectors.kubernetes.resume import IDENTITY as STORED
from gpuwatch.collectors.kubernetes.resume import StoredRows
from gpuwatch.collectors.shared.changes import NO_LONGER_WAITS, LastWritten
from gpuwatch.collectors.shared.json_fields import Object, mapping, string
from gpuwatch.collectors.shared.records import Columns

MAX_OBJECTS = 500_000
MAX_ROWS = 2_000_000
IDENTITY = STORED | {
    "reservation": ("name",),
    "pending": ("job_id", "profile"),
    "claim": ("job_id", "run_key", "pod_uid", "node", "profile"),
    "node": ("node",),
    "link": ("node", "a", "b"),
    "event": ("event_id",),
}
"""Columns that identify a row among those of one object."""
REFRESHED = ("queue", "workload", "reservation", "node", "link", "pending")
"""Tables whose rows have an observation time; other rows are not written again."""
TIME_COLUMNS = {"pending": "evidence_us"}
"""The observation time of a table, if it is not observed_us."""

Row = tuple[str, Columns]
RowKey = tuple[str, ...]


class CustomObjects:
    """Every object of the registered kinds that yielded rows."""

    def __init__(self) -> None:
        self._written: dict[str, LastWritten] = {}
        self._objects: dict[tuple[str, str], dict[str, tuple[str, str | None, tuple[RowKey, ...]]]] = {}
        """By (group, kind) and UID: name, namespace, keys of the rows."""
        self._names: set[tuple[str, str | None, str]] = set()
        self._stored = StoredRows()

    def remember(self, table: str, rows: Iterable[Columns]) -> int | None:
        """Takes the rows of `queue` or `workload` that are open in the store; returns when (µs) the newest was observed."""
        return self._stored.remember(table, rows)

    def knows(self, kind: str | None, namespace: str | None, name: str | None) -> bool:
        """Whether an object of that kind and name is tracked."""
        return (kind, namespace, name) in self._names

    def take(self, kind: Kind, item: Object, at_us: int) -> list[Row]:
        """The changed rows of an object as it is now. Raises Malformed."""
        uid, name, namespace = object_identity(item)
        rows = list(kind.read(item, at_us))
        known = self._objects.setdefault((kind.group, kind.kind), {})
        old = known[uid][2] if uid in known else ()
        changes, keys = [], []
        for table, row in rows:
            key = (table, kind.group, uid, *(str(row.get(column)) for column in IDENTITY.get(table, ("name",))))
            keys.append(key)
            if self._table(table).update(key, row, at_us):
                changes.append((table, row))
        for key in old:
            if key not in keys:
                changes += self._gone(key, at_us, at_us)
        if not keys:
            known.pop(uid, None)
            self._names.discard((kind.kind, namespace, name))
        elif uid in known or len(known) < MAX_OBJECTS:
            known[uid] = name, namespace, tuple(keys)
            self._names.add((kind.kind, namespace, name))
        return changes

    def deleted(self, kind: Kind, uid: str, end_us: int, at_us: int) -> list[Row]:
        """The last rows of an object that ended at `end_us`, observed at `at_us`."""
        name, namespace, keys = self._objects.get((kind.group, kind.kind), {}).pop(uid, ("", None, ()))
        self._names.discard((kind.kind, namespace, name))
        return [row for key in keys for row in self._gone(key, end_us, at_us)]

    def listed(self, kind: Kind, uids: Collection[str], end_us: int, at_us: int, namespace: str | None) -> list[Row]:
        """The last rows of all objects of a namespace (None: of all) that a complete list does not have."""
        known = self._objects.get((kind.group, kind.kind), {})
        listed = {(table, *identity) for _, _, keys in known.values() for table, _, _, *identity in keys}
        missing = self._stored.missing(kind, listed, uids, namespace)
        gone = [uid for uid, (_, where, _) in known.items() if uid not in uids and namespace in (None, where)]
        return [
            *(last for table, row in missing for last in _last(table, row, end_us, at_us)),
            *(last for uid in gone for last in self.deleted(kind, uid, end_us, at_us)),
        ]

    def due(self, at_us: int) -> Iterator[Row]:
        """Unchanged rows that are due to be written again, observed now."""
        for table, written in self._written.items():
            if table in REFRESHED:
                for row in written.due(at_us):
                    yield table, row | {TIME_COLUMNS.get(table, "observed_us"): at_us}

    def _table(self, table: str) -> LastWritten:
        return self._written.setdefault(table, LastWritten(MAX_ROWS))

    def _gone(self, key: RowKey, end_us: int, at_us: int) -> list[Row]:
        table = key[0]
        row = self._table(table).forget(key)
        return [] if row is None else _last(table, row, end_us, at_us)


def _last(table: str, row: Columns, end_us: int, at_us: int) -> list[Row]:
    """The last row of an object that was deleted at `end_us`, observed at `at_us`."""
    if table == "workload":
        ended = row.get("end_us")
        end_us = max(end_us, row.get("start_us") or end_us) if ended is None else ended
        return [(table, row | {"state": "deleted", "end_us": end_us, "observed_us": at_us})]
    if table == "queue":
        return [(table, row | {"state": "deleted", "observed_us": at_us})]
    if table == "link" and row.get("level") == "HYPERNODE":
        detail = json.loads(row["detail"]) | {"members": []}
        text = json.dumps(detail, sort_keys=True, separators=(",", ":"))
        return [(table, row | {"detail": text, "observed_us": at_us})]
    return [(table, row | {"evidence_us": end_us, "reason": NO_LONGER_WAITS})] if table == "pending" else []


def object_identity(item: Object) -> tuple[str, str, str | None]:
    """(UID, name, namespace) of an object; "namespace/name" stands for a missing UID. Raises Malformed."""
    metadata = mapping(item, "metadata")
    name, namespace = string(metadata, "name") or "", string(metadata, "namespace")
    return string(metadata, "uid") or f"{namespace}/{name}", name, namespace
