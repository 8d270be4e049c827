"""Import kind `k8s-json`: Kubernetes objects of every supported kind, as printed by `kubectl get ... -o json`."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

from gpuwatch.collectors.kubernetes.allocations import Allocations, released_rows
from gpuwatch.collectors.kubernetes.cross_file import RelatedObjects, related_objects
from gpuwatch.collectors.kubernetes.dra import ClaimName, PodDevices, claim_names
from gpuwatch.collectors.kubernetes.events import event_row
from gpuwatch.collectors.kubernetes.kinds import find_kind
from gpuwatch.collectors.kubernetes.node_rule import Used
from gpuwatch.collectors.kubernetes.nodes import NodeState, node_without_object, parse_node, with_inventory
from gpuwatch.collectors.kubernetes.objects import iter_objects, read_json_text
from gpuwatch.collectors.kubernetes.pod_facts import newest_change
from gpuwatch.collectors.kubernetes.pods import (
    asks_for_gpus,
    claim_rows,
    holds_devices,
    pending_rows,
    require_complete,
    sum_by_job,
)
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, string
from gpuwatch.collectors.shared.other_accelerators import uncounted_requests
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_DRA_PODS = 500_000
DRA_UNKNOWN = (
    "incomplete: pod uses a DRA claim with unknown devices; import the files of pods, claims and slices together"
)
"""A file with an incomplete object is read again when it is imported again, together with the others."""

OWN_TIMES = ("node", "claim", "pending", "event")
"""Tables whose rows keep the times of their objects."""
TIMES = (("claim", "evidence_us"), ("event", "last_us"), ("workload", "observed_us"), ("queue", "observed_us"))
"""Times of the last known change of an object: the newest of all objects is at most that of the dump."""

Tables = dict[str, list[dict[str, Any]]]
Scope = dict[str, str | None]


@importer(
    "k8s-json",
    "Kubernetes objects: kubectl get pods,nodes,events,workloads.kueue.x-k8s.io,... -A -o json",
    suffixes=(".json", ".json.gz", ".ndjson", ".ndjson.gz"),
)
def read_objects(source: Source, rejects: Rejects) -> Rows:
    """Reads one file of Kubernetes objects into batches of claims, requests, nodes, events, queues, workloads.

    Unsupported kinds are counted as `ignored: kind X`; an object of the wrong shape is refused with its kind and
    name and the rest is kept. Nothing is yielded before the whole file has been read. Raises UnreadableInput.
    """
    tables = parse_objects(read_json_text(source.path), source, rejects)
    for table, rows in tables.items():
        yield from table_batches(table, rows, source.cluster)


def parse_objects(text: str, source: Source, rejects: Rejects) -> Tables:
    """Rows by store table of a text of Kubernetes objects; the caller adds `cluster`.

    Raises UnreadableInput if the text is not JSON or has no Kubernetes object.
    """
    reader = ObjectReader(source.observed_us, related_objects(source.beside, source.observed_us))
    seen, with_kind = 0, 0
    for line, item in iter_objects(text, source.path, rejects):
        seen += 1
        kind = item.get("kind")
        if not isinstance(kind, str) or not kind:
            rejects.add("object has no kind", source.path, line, ", ".join(list(item)[:5]))
            continue
        with_kind += 1
        try:
            if not reader.take(item, line):
                rejects.add(f"ignored: kind {kind}", source.path, line, display_name(item))
        except Malformed as error:
            reader.pod_list.lacks(kind)
            rejects.add(f"{kind}: {error}", source.path, line, display_name(item))
    if not with_kind and (seen or rejects.total):
        raise UnreadableInput(f"{source.path}: no Kubernetes object (none has a kind); give kubectl get ... -o json")
    for reason, line, name in reader.finish():
        rejects.add(reason, source.path, line, name)
    return reader.tables


class PodList:
    """Which pods a file lists: all of the cluster, those of a namespace or a node, or a choice. Takes those without GPUs too.

    `kubectl get pods` does not print what it was asked for, so that is seen from the pods: a list of several namespaces has those of
    all (names can be given within one namespace only), pods of one node may be those of a field selector, and pods that have a
    label in common may be those of a label selector.
    """

    def __init__(self) -> None:
        self._pods = 0
        self._namespaces: set[str] = set()
        self._nodes: set[str] = set()
        self._labels: set[tuple[str, str]] | None = None
        self._complete = True

    def take(self, pod: Object) -> None:
        """Takes a pod. Raises Malformed."""
        metadata = mapping(pod, "metadata")
        self._pods += 1
        self._namespaces.add(string(metadata, "namespace") or "default")
        node = string(mapping(pod, "spec"), "nodeName")
        if node is not None:
            self._nodes.add(node)
        if self._labels is None or self._labels:
            labels = {(name, str(value)) for name, value in mapping(metadata, "labels").items()}
            self._labels = labels if self._labels is None else self._labels & labels

    def lacks(self, kind: str) -> None:
        """Notes that an object could not be read: a pod that is missing may be that one."""
        self._complete = self._complete and kind != "Pod"

    def scope(self, alone: bool) -> Scope | None:
        """The namespace and the node whose pods are all listed (None: any); no scope where that is not certain.

        `alone`: the file has no nodes, so that its pods may have been asked for by name.
        """
        one_namespace = len(self._namespaces) == 1
        if not self._pods or not self._complete or self._labels or (one_namespace and alone and self._pods < 2):
            return None
        return {
            "namespace": next(iter(self._namespaces)) if one_namespace else None,
            "node": next(iter(self._nodes)) if len(self._nodes) == 1 else None,
        }


class ObjectReader:
    """Takes objects one by one; `finish` joins those that belong together, also with those of the other files."""

    def __init__(self, observed_us: int | None = None, others: RelatedObjects | None = None) -> None:
        self.tables: Tables = {"node": [], "claim": [], "pending": [], "event": []}
        self._observed_us = observed_us
        self._others = others or RelatedObjects()
        self._own = RelatedObjects(Allocations(self._others.allocations))
        self._requests: list[dict[str, Any]] = []
        self._pods: list[tuple[int, Object]] = []
        """Pods with DRA claims, which may come after them."""
        self.pod_list, self._used = PodList(), Used()
        self._newest = ""
        """The newest time in the metadata and status of any pod, also of those without GPUs, as text."""
        self._uncounted: list[tuple[str, int, str]] = []

    def take(self, item: Object, line: int = 0) -> bool:
        """Takes one object; False for an unsupported kind. Raises Malformed."""
        kind, group = item.get("kind"), str(item.get("apiVersion") or "").rpartition("/")[0]
        if kind == "Pod" and not group:
            require_complete(item)
            self.pod_list.take(item)
            self._used.take(item)
            self._newest = max(self._newest, newest_change(item))
            self._uncounted += [(reason, line, display_name(item)) for reason in uncounted_requests(item)]
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
        elif (known := find_kind(item)) is not None:
            for table, row in list(known.read(item, self._observed_us)):
                self.tables.setdefault(table, []).append(row)
        else:
            return False
        return True

    def finish(self) -> list[tuple[str, int, str]]:
        """Joins pods with their claims, nodes with their ResourceSlices, claims with the profile of their node, and
        the requests of a job. Returns (reason, line, name) of refused pods and of those with uncounted devices."""
        refused, self._uncounted = self._uncounted, []
        shared = Counter(name for _, pod in self._pods for name in _claims_of(pod))
        for line, pod in self._pods:
            try:
                dra = self._own.allocations.devices_of(pod)
                if dra is not None and dra.unknown is not None and not asks_for_gpus(pod, dra):
                    # Refused only here, once it is certain that no file has its claim, e.g. one of a network card.
                    refused.append((DRA_UNKNOWN, line, f"{display_name(pod)}: {dra.unknown}"))
                    if not self._released(pod, dra, shared):
                        self.pod_list.lacks("Pod")
                else:
                    self._pod(pod, dra)
                    if dra is not None and not dra.held and not holds_devices(pod):
                        self._released(pod, dra, shared)
            except Malformed as error:
                self.pod_list.lacks("Pod")
                refused.append((f"Pod: {error}", line, display_name(pod)))
        self._pods.clear()
        for name in (*self._own.nodes, *sorted(self._own.allocations.nodes - self._own.nodes.keys())):
            node = self._node(name) or node_without_object(name, self._observed_us)
            if row := with_inventory(node, *self._own.allocations.inventory(name)):
                self.tables["node"].append(row)
        scope = self.pod_list.scope(alone=not self._own.nodes)
        if scope is not None and scope["namespace"] is None:  # all pods of the cluster, or of a node
            for row in self.tables["node"]:
                if scope["node"] in (None, row["node"]):
                    row |= self._used.of(row["node"])
        for row in self.tables["claim"]:
            known = self._node(row["node"])
            row["profile"] = row["profile"] or (known.profile if known else None)
        self._set_dump_time()
        self.tables["pending"] += sum_by_job(self._requests)
        return refused

    def _released(self, pod: Object, dra: PodDevices, shared: Counter[ClaimName]) -> bool:
        """Adds the rows of a pod whose claims were released; False if it has none."""
        rows = list(released_rows(pod, dra, all(shared[name] == 1 for name in _claims_of(pod))))
        if dra.taken and any(row["end_us"] is None for row in rows):
            return True  # it cannot run without them: it is gone
        self.tables["claim"] += rows
        return bool(rows)

    def _set_dump_time(self) -> None:
        """Dates open rows to the dump: objects only have the time of their last change."""
        if self._observed_us is not None:
            return
        own = [row[name] or 0 for table, name in TIMES for row in self.tables.get(table, ())]
        own += [row["evidence_us"] or 0 for row in self._requests]
        newest_us = 0
        with suppress(ValueError):  # February 30
            newest_us = parse_rfc3339(self._newest)
        dumped_us = max(self._own.dumped_us or 0, self._others.dumped_us or 0, newest_us, *own)
        if dumped_us and (scope := self.pod_list.scope(alone=not self._own.nodes)) is not None:
            self.tables["pod_list"] = [{"at_us": dumped_us} | scope]
        for claim in self.tables["claim"]:
            if claim["end_us"] is None:
                claim["evidence_us"] = max(claim["evidence_us"], dumped_us)
        for request in self._requests:
            request["evidence_us"] = max(request["evidence_us"], dumped_us)
        for table, rows in self.tables.items():
            for row in rows if dumped_us and table not in OWN_TIMES else ():
                if "observed_us" in row:
                    row["observed_us"] = max(row["observed_us"] or dumped_us, dumped_us)

    def _node(self, name: str) -> NodeState | None:
        return self._own.nodes.get(name) or self._others.nodes.get(name)

    def _pod(self, pod: Object, dra: PodDevices | None) -> None:
        claims = list(claim_rows(pod, dra))  # all rows or none, if the pod is malformed
        self._requests += list(pending_rows(pod, dra))
        self.tables["claim"] += claims


def _claims_of(pod: Object) -> list[ClaimName]:
    """The ResourceClaims of a pod, none of one that cannot be read."""
    with suppress(Malformed):
        namespace = string(mapping(pod, "metadata"), "namespace") or "default"
        return [(namespace, name) for name in claim_names(pod) if name]
    return []


def finish_pushed(tables: Tables, profiles: dict[str, str]) -> None:
    """Completes pushed objects: the MIG profile of a node's GPUs, and one request per job."""
    for row in tables["claim"]:
        row["profile"] = row["profile"] or profiles.get(row["node"])
    tables["pending"] = sum_by_job(tables["pending"])


def add_pushed_object(
    kind: str, item: Object, tables: Tables, profiles: dict[str, str], observed_us: int | None
) -> bool:
    """Adds the rows of one pushed Pod, Node or Event; False for other kinds. Raises Malformed."""
    if kind == "Pod":
        require_complete(item)
        if claim_names(item) and not asks_for_gpus(item):
            return False
        tables["claim"].extend(list(claim_rows(item)))
        tables["pending"].extend(list(pending_rows(item)))
    elif kind == "Node":
        node = parse_node(item, observed_us)
        if row := with_inventory(node, {}, None):
            tables["node"].append(row)
            if node.profile:
                profiles[row["node"]] = node.profile
    elif kind == "Event":
        tables["event"].append(event_row(item))
    else:
        return False
    return True


def display_name(item: Object) -> str:
    """`namespace/name`, for messages."""
    try:
        metadata = mapping(item, "metadata")
    except Malformed:
        return "(no metadata)"
    parts = [metadata.get("namespace"), metadata.get("name")]
    return "/".join(str(part) for part in parts if part) or "(no name)"
