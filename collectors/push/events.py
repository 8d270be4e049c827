"""Receiver `events`: scheduler events pushed as NDJSON, a JSON list or one object.

An item is a Kubernetes object of any supported kind, as printed by kubectl (a List counts as its items), a watch event
`{"type", "object"}`, or a record `{"id", "type": "claim" | "node" | "pending" | "event", "cluster"?, ...}` (see
event_record.py).

Idempotent: the key of a row depends on its subject, never on when it arrived. A claim is a run of a job on a node
(job_id, run_key, pod_uid, node, profile), a node row one instant of its state, an event its id. Attribution merges rows
of one key, so a repeated item changes nothing, even after a restart. For that reason missing times are not taken from
the clock; the one exception, the end of a pod deleted without a time, is remembered here for repeats. Repeats are not
dropped at once: a sender repeats what was not confirmed, although it may be stored. Each id counts once in a body.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from gpuwatch.collectors.kubernetes.files import Tables, add_pushed_object, display_name, finish_pushed
from gpuwatch.collectors.kubernetes.kinds import find_kind
from gpuwatch.collectors.push.event_record import TYPES, check_times, record_row
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, moment, string
from gpuwatch.collectors.shared.json_size import MAX_PARSED_BYTES, parsed_bytes
from gpuwatch.collectors.shared.other_accelerators import uncounted_requests
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Records, Rejects
from gpuwatch.core.registry import Receive, receiver

FILE = "events"
"""The file name for refused items; their line is the position in the body, from 1."""
MAX_ITEMS = 50_000
MAX_WIDE_BYTES = 8 * 1024 * 1024
"""Limit of a body in UTF-16 or UTF-32."""
MAX_DELETED = 100_000
MAX_NODES = 100_000
WATCHED = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")

_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}")
_SPACE = re.compile(r"[ \t\r\n]*")

Item = tuple[int, Any]


@receiver("events")
def make() -> Receive:
    """A decoder with bounded memory of what later bodies need."""
    return Decoder()


class Decoder:
    """Decodes bodies of events; see registry.Receive."""

    def __init__(self) -> None:
        self._profiles: dict[str, str] = {}
        """MIG profile of nodes whose GPUs are all partitioned alike."""
        self._deleted: OrderedDict[str, int] = OrderedDict()
        """End times of pods deleted without a time."""

    def __call__(self, body: bytes, content_type: str, cluster: str, now_us: int, rejects: Rejects) -> list[Records]:
        """Batches of one body. Unreadable items are refused one by one; raises UnreadableInput for a bad body."""
        rows: list[Row] = []
        tables: Tables = {"node": [], "claim": [], "pending": [], "event": []}
        waiting: dict[str, list[dict[str, Any]]] = {}
        gangs: list[dict[str, Any]] = []
        seen: set[str] = set()
        for place, item in items_of(body, rejects):
            found: Tables = {table: [] for table in tables}
            try:
                if _is_record(item):
                    rows += self._record(item, cluster, now_us, seen)
                    continue
                if _is_watch_event(item):
                    item = self._watched(item["type"], item["object"], found, now_us)
                else:
                    self._object(item, found, now_us)
                for row in chain.from_iterable(found.values()):
                    check_times(row, now_us)
                uid = string(mapping(item, "metadata"), "uid") if item.get("kind") == "Pod" else None
                uncounted = uncounted_requests(item)
            except (Malformed, ValueError) as error:
                rejects.add(f"Pod: {error}" if isinstance(error, Malformed) else str(error), FILE, place, _shown(item))
                continue
            for reason in uncounted:
                rejects.add(reason, FILE, place, _shown(item))
            if uid is None:
                gangs += found.pop("pending")  # the request of a whole gang, from its queue object
            else:
                # The latest state of a pod counts; the request of a gang is the sum of its pods.
                waiting[uid] = found.pop("pending")
            for table, fresh in found.items():
                tables.setdefault(table, []).extend(fresh)
        tables["pending"] = [row for fresh in waiting.values() for row in fresh]
        self._finish(tables)
        tables["pending"] += gangs
        rows += [(table, row | {"cluster": cluster}) for table, fresh in tables.items() for row in fresh]
        return list(batches(rows))

    def _finish(self, tables: Tables) -> None:
        """Completes the rows of a body with the profiles of the nodes, of which the newest are remembered."""
        finish_pushed(tables, self._profiles)
        while len(self._profiles) > MAX_NODES:
            del self._profiles[next(iter(self._profiles))]

    def _record(self, item: Object, cluster: str, now_us: int, seen: set[str]) -> list[Row]:
        own_cluster = item.get("cluster", cluster)
        if not isinstance(own_cluster, str) or not _CLUSTER.fullmatch(own_cluster):
            raise ValueError("cluster is not a valid name: use at most 128 letters, digits and ._:/@-")
        table, row = record_row(item, now_us)
        check_times(row, now_us)
        if item["id"] in seen:
            return []
        seen.add(item["id"])
        return [(table, row | {"cluster": own_cluster})]

    def _object(self, item: Object, tables: Tables, now_us: int) -> None:
        kind = item.get("kind")
        if not isinstance(kind, str) or not kind:
            raise ValueError("neither a Kubernetes object (kind), a watch event (type, object) nor a record (id, type)")
        try:
            taken = add_pushed_object(kind, item, tables, self._profiles, None)
            if not taken and kind != "Pod" and (known := find_kind(item)) is not None:
                taken = True
                for table, row in known.read(item, now_us):
                    tables.setdefault(table, []).append(row)
        except Malformed as error:
            raise ValueError(f"{kind}: {error}") from error
        if not taken:
            dra = "pod uses a DRA claim: its devices are not in the Pod object"
            raise ValueError(dra if kind == "Pod" else f"ignored: kind {kind}")

    def _watched(self, word: str, item: Object, found: Tables, now_us: int) -> Object:
        """Adds the rows of a watch event; returns its object."""
        if word == "ERROR":
            raise ValueError("the forwarded watch failed: list and send everything again")
        if word != "BOOKMARK":
            self._object(item, found, now_us)
        if word == "DELETED":
            found["pending"].clear()  # a pod deleted while it waited is not a request
            for row in found["claim"]:
                if row["end_us"] is None:
                    row["end_us"] = row["evidence_us"] = max(self._gone_us(item, now_us), row["start_us"])
            for row in found["node"]:
                row |= {"state": "down", "reason": "deleted from the cluster"}
            for row in (*found.get("queue", ()), *found.get("workload", ())):
                row["state"] = "deleted"
            for row in found.get("workload", ()):
                row["end_us"] = now_us if row.get("end_us") is None else row["end_us"]
        return item

    def _gone_us(self, item: Object, now_us: int) -> int:
        """When a deleted pod ended: its deletionTimestamp if that has passed, otherwise now; the same for repeats."""
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid") or ""
        deletion_us = moment(metadata, "deletionTimestamp")
        end_us = self._deleted.setdefault(uid, now_us if deletion_us is None else min(deletion_us, now_us))
        while len(self._deleted) > MAX_DELETED:
            self._deleted.popitem(last=False)
        return end_us


def items_of(body: bytes, rejects: Rejects) -> Iterator[tuple[int, Object]]:
    """Objects of a body with their positions from 1; Lists are unpacked. Raises UnreadableInput if nothing is JSON."""
    count = 0
    for place, item in _documents(body, rejects):
        inner = item.get("items") if isinstance(item, dict) and str(item.get("kind")).endswith("List") else None
        listed = str(item["kind"]).removesuffix("List") if inner is not None else None
        for value in inner if isinstance(inner, list) else [item]:
            count += 1
            if count > MAX_ITEMS:
                raise UnreadableInput(f"events: more than {MAX_ITEMS} items; send several bodies")
            if isinstance(value, dict):
                yield place, value if value.get("kind") or not listed else {**value, "kind": listed}
            else:
                rejects.add("item is not an object", FILE, place, str(value))


def _documents(body: bytes, rejects: Rejects) -> Iterable[Item]:
    if not body.strip():
        raise UnreadableInput("events: the body is empty; send NDJSON or a JSON list")
    body = _utf8(body)
    if _of_lines(body):
        return _lines(body, rejects)
    try:
        return list(_elements(_text(body)))
    except RecursionError as error:
        raise UnreadableInput("events: JSON nested too deeply") from error
    except ValueError as error:
        found = list(_lines(body, rejects))
        if not found:
            raise UnreadableInput(f"events: neither JSON nor NDJSON: {error}") from error
        return found


def _utf8(body: bytes) -> bytes:
    """A body in UTF-8, the encoding in which lines are split. Raises UnreadableInput if it is not text."""
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body.removeprefix(codecs.BOM_UTF8)
    if len(body) > MAX_WIDE_BYTES:
        raise UnreadableInput(f"events: more than {MAX_WIDE_BYTES} bytes of {encoding.upper()}; send UTF-8")
    return _decoded(body, encoding).encode("utf-8", "replace")


def _of_lines(body: bytes) -> bool:
    """Whether the first line is complete by itself and others follow. Such a body is read line by line."""
    first, _, rest = body.lstrip().partition(b"\n")
    if not rest or rest.isspace():
        return False
    try:
        json.loads(_text(first))
    except (ValueError, RecursionError):
        return False
    return True


def _text(part: bytes) -> str:
    """A body or a line of it as text. Raises UnreadableInput if it takes too much memory when parsed, or is not text."""
    if parsed_bytes(part) > MAX_PARSED_BYTES:
        memory = f"parsed as a whole, the JSON would take more than {MAX_PARSED_BYTES >> 20} MiB of memory"
        raise UnreadableInput(f"events: {memory}; send NDJSON (jq -c '.items[]'), read line by line, or several bodies")
    return _decoded(part, "utf-8")


def _decoded(part: bytes, encoding: str) -> str:
    try:
        return part.decode(encoding)
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise UnreadableInput(f"events: the body is not text ({where}); send UTF-8") from error


def _elements(text: str) -> Iterator[Item]:
    """The elements of a JSON list, or the single value of a text, with their positions. Raises ValueError."""
    decoder = json.JSONDecoder()
    at = _past_space(text, 0)
    if text[at : at + 1] != "[":
        value, end = decoder.raw_decode(text, at)
        if _past_space(text, end) != len(text):
            raise ValueError("more than one JSON value")
        yield 1, value
        return
    at = _past_space(text, at + 1)
    place = 0
    while text[at : at + 1] != "]" or place:
        place += 1
        if place > MAX_ITEMS:
            raise UnreadableInput(f"events: more than {MAX_ITEMS} items; send several bodies")
        value, end = decoder.raw_decode(text, at)
        yield place, value
        at = _past_space(text, end)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise ValueError(f"no comma after item {place} of the list")
        at = _past_space(text, at + 1)
    if _past_space(text, at + 1) != len(text):
        raise ValueError("text after the list")


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _lines(body: bytes, rejects: Rejects) -> Iterator[Item]:
    """Lines that are JSON, with their numbers, one at a time; the others are refused if there is at least one."""
    if body.count(b"\n") > MAX_ITEMS:
        raise UnreadableInput(f"events: more than {MAX_ITEMS} lines; send several bodies")
    torn: list[tuple[int, str]] = []
    found = False
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            value = json.loads(_text(line))
        except (ValueError, RecursionError):
            torn.append((number, line[: Rejects.MAX_EXAMPLE].decode("utf-8", "replace")))
        else:
            found = True
            yield number, value
    for number, shown in torn if found else []:
        rejects.add("line is not JSON", FILE, number, shown)


def _is_record(item: Object) -> bool:
    return item.get("type") in TYPES and "object" not in item


def _is_watch_event(item: Object) -> bool:
    return item.get("type") in WATCHED and isinstance(item.get("object"), dict)


def _shown(item: Object) -> str:
    return str(item["id"]) if isinstance(item.get("id"), str) else display_name(item)
