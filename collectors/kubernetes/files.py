"""Import kind `k8s-json`: Kubernetes objects of every kind that is read, as `kubectl get ... -o json` prints them."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.kubernetes import kinds as kubernetes_kinds
from gpuwatch.collectors.kubernetes.cross_file import Beside, beside
from gpuwatch.collectors.kubernetes.dra import Allocations, Drawn, claim_names
from gpuwatch.collectors.kubernetes.events import event_row
from gpuwatch.collectors.kubernetes.nodes import NodeSaid, bare_node, node_said, with_inventory
from gpuwatch.collectors.kubernetes.objects import objects, read_text
from gpuwatch.collectors.kubernetes.pods import asks_for_gpus, by_job, claims, pending, whole
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_DRA_PODS = 500_000
DRA_UNKNOWN = (
    "incomplete: pod uses a DRA claim whose devices are not told; name the files of pods, claims and slices together"
)
"""A file with an incomplete object is read again when it is named again: then with the others."""

OWN_TIMES = ("node", "claim", "pending", "event")
"""Tables whose rows keep the times that their objects tell."""

Tables = dict[str, list[dict[str, Any]]]


@importer(
    "k8s-json",
    "Kubernetes objects: kubectl get pods,nodes,events,workloads.kueue.x-k8s.io,... -A -o json",
    suffixes=(".json", ".json.gz", ".ndjson", ".ndjson.gz"),
)
def read(source: Source, rejects: Rejects) -> Rows:
    """Reads one file of Kubernetes objects into batches of claims, requests, nodes, events, queues, workloads.

    Kinds that nothing reads are counted as `ignored: kind X`; an object of the wrong shape is refused by kind and
    name and the rest is kept. Nothing is yielded before the whole file has been read. Raises UnreadableInput.
    """
    tables = parse(read_text(source.path), source, rejects)
    for table, rows in tables.items():
        yield from table_batches(table, rows, source.cluster)


def parse(text: str, source: Source, rejects: Rejects) -> Tables:
    """Rows by store table of a text of Kubernetes objects; `cluster` is left to the caller.

    Raises UnreadableInput where the text is not JSON or holds no Kubernetes object.
    """
    reader = Reader(source.observed_us, beside(source.beside, source.observed_us))
    seen, kinds = 0, 0
    for line, item in objects(text, source.path, rejects):
        seen += 1
        kind = item.get("kind")
        if not isinstance(kind, str) or not kind:
            rejects.add("object has no kind", source.path, line, ", ".join(list(item)[:5]))
            continue
        kinds += 1
        try:
            if not reader.take(item, line):
                rejects.add(f"ignored: kind {kind}", source.path, line, name_of(item))
        except Malformed as error:
            rejects.add(f"{kind}: {error}", source.path, line, name_of(item))
    if not kinds and (seen or rejects.total):
        raise UnreadableInput(f"{source.path}: no Kubernetes object (none has a kind); give kubectl get ... -o json")
    for reason, line, name in reader.finish():
        rejects.add(reason, source.path, line, name)
    return reader.tables


class Reader:
    """Takes objects one by one; what needs several of them is joined at the end, with those of files beside it too."""

    def __init__(self, observed_us: int | None = None, others: Beside | None = None) -> None:
        self.tables: Tables = {"node": [], "claim": [], "pending": [], "event": []}
        self._observed_us = observed_us
        self._others = others or Beside()
        self._own = Beside(Allocations(self._others.drawn))
        self._requests: list[dict[str, Any]] = []
        self._pods: list[tuple[int, Object]] = []
        """Pods with DRA claims: their claims may come after them."""

    def take(self, item: Object, line: int = 0) -> bool:
        """Takes one object; False for a kind that nothing reads. Raises Malformed."""
        kind, group = item.get("kind"), str(item.get("apiVersion") or "").rpartition("/")[0]
        if kind == "Pod" and not group:
            whole(item)
            if claim_names(item):
                if len(self._pods) >= MAX_DRA_PODS:
                    raise Malformed(f"more than {MAX_DRA_PODS} pods with DRA claims")
                self._pods.append((line, item))
            else:
                self._pod(item, None)
        elif kind == "Event" and group in ("", "events.k8s.io"):
            self.tables["event"].append(event_row(item))
        elif self._own.take(item, self._observed_us):
            pass
        elif (known := kubernetes_kinds.find(item)) is not None:
            for table, row in list(known.read(item, self._observed_us)):
                self.tables.setdefault(table, []).append(row)
        else:
            return False
        return True

    def finish(self) -> list[tuple[str, int, str]]:
        """Joins pods with their claims, nodes with their ResourceSlices, claims with the profile of their node, and
        the requests of a job. Returns (reason, line, name) of the pods that are refused."""
        refused: list[tuple[str, int, str]] = []
        for line, pod in self._pods:
            try:
                drawn = self._own.drawn.drawn(pod)
                if drawn is not None and drawn.unknown is not None and not asks_for_gpus(pod, drawn):
                    # Only now is it known that nothing names its claim: a network card's claim is known and holds none.
                    refused.append((DRA_UNKNOWN, line, f"{name_of(pod)}: {drawn.unknown}"))
                else:
                    self._pod(pod, drawn)
            except Malformed as error:
                refused.append((f"Pod: {error}", line, name_of(pod)))
        self._pods.clear()
        for name in (*self._own.nodes, *sorted(self._own.drawn.nodes - self._own.nodes.keys())):
            said = self._node(name) or bare_node(name, self._observed_us)
            if row := with_inventory(said, *self._own.drawn.inventory(name)):
                self.tables["node"].append(row)
        for row in self.tables["claim"]:
            node = self._node(row["node"])
            row["profile"] = row["profile"] or (node.profile if node else None)
        self._date()
        self.tables["pending"] += by_job(self._requests)
        return refused

    def _date(self) -> None:
        """What waits in a dump waited still when it was made: objects tell only when they changed last."""
        if self._observed_us is not None:
            return
        dumped_us = max(self._own.dumped_us or 0, self._others.dumped_us or 0)
        for request in self._requests:
            request["evidence_us"] = max(request["evidence_us"], dumped_us)
        for table, rows in self.tables.items():
            for row in rows if dumped_us and table not in OWN_TIMES else ():
                if "observed_us" in row:
                    row["observed_us"] = max(row["observed_us"] or dumped_us, dumped_us)

    def _node(self, name: str) -> NodeSaid | None:
        return self._own.nodes.get(name) or self._others.nodes.get(name)

    def _pod(self, pod: Object, drawn: Drawn | None) -> None:
        held = list(claims(pod, drawn))
        self._requests += list(pending(pod, drawn))
        self.tables["claim"] += held


def finish(tables: Tables, profiles: dict[str, str]) -> None:
    """What needs all objects: the profile that a node's GPUs mean, and one request a job."""
    for row in tables["claim"]:
        row["profile"] = row["profile"] or profiles.get(row["node"])
    tables["pending"] = by_job(tables["pending"])


def take(kind: str, item: Object, tables: Tables, profiles: dict[str, str], observed_us: int | None) -> bool:
    """Adds the rows of one Pod, Node or Event that comes alone; False for what is not read so. Raises Malformed."""
    if kind == "Pod":
        whole(item)
        if claim_names(item) and not asks_for_gpus(item):
            return False
        tables["claim"].extend(list(claims(item)))
        tables["pending"].extend(list(pending(item)))
    elif kind == "Node":
        said = node_said(item, observed_us)
        if row := with_inventory(said, {}, None):
            tables["node"].append(row)
            if said.profile:
                profiles[row["node"]] = said.profile
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
