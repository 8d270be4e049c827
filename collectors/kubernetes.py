"""Import kind `k8s-json`: Pods, Nodes and Events as `kubectl get ... -o json` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from gpuwatch.collectors.kubernetes_events import event_row
from gpuwatch.collectors.kubernetes_json import Malformed, Object, mapping, objects, read_text
from gpuwatch.collectors.kubernetes_nodes import node_row, single_profile
from gpuwatch.collectors.kubernetes_pods import by_job, claims, pending, uses_dra_only
from gpuwatch.errors import UnreadableInput
from gpuwatch.model import TABLES, Records, Rejects, Rows, Source
from gpuwatch.registry import importer

BATCH_ROWS = 50_000

Tables = dict[str, list[dict[str, Any]]]


@importer(
    "k8s-json",
    "Kubernetes objects: kubectl get pods,nodes,events -A -o json",
    suffixes=(".json", ".json.gz", ".ndjson", ".ndjson.gz"),
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Reads one file of Kubernetes objects into claim, pending, node and event batches.

    Other kinds are counted as `ignored: kind X`; an object of the wrong shape is refused by kind and name and
    the rest is kept. Nothing is yielded before the whole file has been read. Raises UnreadableInput.
    """
    tables = parse(read_text(source.path), source, rejects)
    for table, rows in tables.items():
        yield from batches(table, rows, source.cluster)


def parse(text: str, source: Source, rejects: Rejects) -> Tables:
    """Rows by store table of a text of Kubernetes objects; `cluster` is left to the caller.

    Raises UnreadableInput where the text is not JSON or holds no Kubernetes object.
    """
    tables: Tables = {"node": [], "claim": [], "pending": [], "event": []}
    profiles: dict[str, str] = {}
    seen, kinds = 0, 0
    for line, item in objects(text, source.path, rejects):
        seen += 1
        kind = item.get("kind")
        if not isinstance(kind, str) or not kind:
            rejects.add("object has no kind", source.path, line, ", ".join(list(item)[:5]))
            continue
        kinds += 1
        try:
            if not take(kind, item, tables, profiles, source.observed_us):
                reason = "pod uses a DRA claim: its devices are not in the Pod object"
                rejects.add(reason if kind == "Pod" else f"ignored: kind {kind}", source.path, line, name_of(item))
        except Malformed as error:
            rejects.add(f"{kind}: {error}", source.path, line, name_of(item))
    if not kinds and (seen or rejects.total):
        raise UnreadableInput(f"{source.path}: no Kubernetes object (none has a kind); give kubectl get ... -o json")
    finish(tables, profiles)
    return tables


def finish(tables: Tables, profiles: dict[str, str]) -> None:
    """What needs all objects: the profile that a node's GPUs mean, and one request a job."""
    for row in tables["claim"]:
        row["profile"] = row["profile"] or profiles.get(row["node"])
    tables["pending"] = by_job(tables["pending"])


def take(kind: str, item: Object, tables: Tables, profiles: dict[str, str], observed_us: int | None) -> bool:
    """Adds the rows of one object; False for what is not read. Raises Malformed."""
    if kind == "Pod":
        if uses_dra_only(item):
            return False
        tables["claim"].extend(list(claims(item)))
        tables["pending"].extend(list(pending(item)))
    elif kind == "Node":
        if row := node_row(item, observed_us):
            tables["node"].append(row)
            if profile := single_profile(item):
                profiles[row["node"]] = profile
    elif kind == "Event":
        tables["event"].append(event_row(item))
    else:
        return False
    return True


def name_of(item: Object) -> str:
    """`namespace/name` for a person."""
    try:
        metadata = mapping(item, "metadata")
    except Malformed:
        return "(no metadata)"
    parts = [metadata.get("namespace"), metadata.get("name")]
    return "/".join(str(part) for part in parts if part) or "(no name)"


def batches(table: str, rows: list[dict[str, Any]], cluster: str) -> Iterator[Records]:
    """Rows as Arrow tables of their schema, at most BATCH_ROWS rows each, all of one cluster."""
    schema = TABLES[table]
    for at in range(0, len(rows), BATCH_ROWS):
        part = rows[at : at + BATCH_ROWS]
        columns: dict[str, list[Any]] = {name: [row.get(name) for row in part] for name in schema.names}
        columns["cluster"] = [cluster] * len(part)
        yield Records(table, pa.Table.from_pydict(columns, schema=schema))
