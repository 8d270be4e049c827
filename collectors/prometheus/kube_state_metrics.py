"""Scheduler records out of kube-state-metrics, where only its metrics in Prometheus are left of a Kubernetes cluster.

A span is judged by itself and the time before it: what is read twice gives the same rows. Times of requests and of node
conditions are those of raw samples; what does not change is asked for once a span.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuwatch.collectors.kubernetes.files import ObjectReader
from gpuwatch.collectors.kubernetes.nodes import parse_node, with_inventory
from gpuwatch.collectors.prometheus.chunking import Asker
from gpuwatch.collectors.prometheus.http import texts_of
from gpuwatch.collectors.prometheus.ksm_names import RESOURCES, plain
from gpuwatch.collectors.prometheus.ksm_objects import (
    ENDED,
    Fact,
    Pod,
    Seen,
    node_object,
    phase_of,
    pod_object,
    pods_of,
    quota_objects,
)
from gpuwatch.collectors.prometheus.metrics import Chunk
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Points, Rejects
from gpuwatch.core.model import Records as Batch

KIND = "ksm"
"""claim.kind: another source's word on the same pod goes before it."""
LOOK_BACK_US = 45 * MINUTE_US
"""How far before a span its series are read: a pod that went at the end of the span before ends here."""
GONE_US = 5 * MINUTE_US
"""What its own target has not told of for that long, while it went on, is gone."""
REPLACED_US = 30 * MINUTE_US
"""What a target that began when its own one ended has not told of for that long is gone too: shards start apart."""
STEP_S = 60
BATCH = 100
"""Objects that one query names."""
MAX_PODS = 200_000
MAX_NODES = 50_000

REQUESTS = ("kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests")
LIMITS = ("kube_pod_container_resource_limits", "kube_pod_init_container_resource_limits")
BY_SCHEDULER = ("kube_pod_resource_request", "kube_pod_resource_limit")
CAPACITY = ("kube_node_status_capacity", "kube_node_status_allocatable")
QUOTA = ("kube_resourcequota",)
POD_FACTS = (
    "kube_pod_info",
    "kube_pod_owner",
    "kube_pod_labels",
    "kube_pod_created",
    "kube_pod_start_time",
    "kube_pod_completion_time",
    "kube_pod_deletion_timestamp",
    "kube_pod_status_phase",
    "kube_pod_status_reason",
    "kube_pod_status_unschedulable",
    "kube_pod_container_state_started",
    "kube_pod_container_status_restarts_total",
    "kube_pod_init_container_info",
)
NODE_FACTS = (*CAPACITY, "kube_node_labels", "kube_node_spec_taint")
READY = 'condition="Ready",status="true"'

Row = dict[str, Any]
Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """What kube-state-metrics told of a span."""

    tables: dict[str, list[Row]]
    """Rows by store table, without their cluster."""
    pods: set[str]
    """UIDs of every pod that asks for GPUs."""
    bytes: int
    rejects: Rejects
    lacking: list[str]


class Records:
    """The scheduler records of one server and cluster, by span of time. Spans may be read by many threads at a time."""

    def __init__(self, asker: Asker, cluster: str) -> None:
        self.name = asker.client.access.url
        self.cluster = cluster
        self._asker = asker
        self._metrics: list[str] = []

    def find(self, start_us: int, end_us: int) -> list[str]:
        """The metrics of a span that tell of GPUs. Raises Refused, UnreadableInput."""
        wanted = (*REQUESTS, *LIMITS, *BY_SCHEDULER, *CAPACITY, *QUOTA)
        match = self._asker.selector(wanted, f'resource=~"(?:requests.|limits.)?(?:{RESOURCES})"')
        span = start_us // SECOND_US, -(-end_us // SECOND_US)
        found = set(self._asker.patient(lambda: self._asker.client.names(match, *span)))
        self._metrics = [name for name in wanted if name in found]
        return self._metrics

    def chunk(self, start_us: int, end_us: int) -> Chunk:
        """Claims, requests, nodes and quotas of a span. Raises Refused, UnreadableInput."""
        told = self.tell(start_us - LOOK_BACK_US, end_us)
        found: list[Batch | Points] = [
            batch for table, rows in told.tables.items() if rows for batch in table_batches(table, rows, self.cluster)
        ]
        return Chunk(found, sum(b.rows.num_rows for b in found), told.bytes, told.rejects, told.lacking)

    def tell(self, start_us: int, end_us: int) -> Told:
        """What is told in [start_us, end_us). Raises Refused, UnreadableInput."""
        window = Window(self._asker, start_us, end_us)
        reader, rejects = ObjectReader(end_us), Rejects()
        nodes = list(self._nodes(window, reader, rejects))
        pods = self._pods(window, reader, rejects)
        if QUOTA[0] in self._metrics:
            quotas = window.facts(QUOTA, f'resource=~"(?:requests.|limits.)?(?:{RESOURCES})"')
            for item in quota_objects(quotas):
                self._take(reader, item, rejects)
        for reason, _, name in reader.finish():
            rejects.add(reason, self.name, 0, name)
        tables = dict(reader.tables)
        tables["claim"] = list(ended(tables["claim"], pods, window.targets()))
        tables["node"] = nodes
        return Told(tables, set(pods), window.bytes, rejects, list(window.lacking))

    def _pods(self, window: Window, reader: ObjectReader, rejects: Rejects) -> dict[str, Pod]:
        """Gives the pods of a span to the reader; returns them by UID."""
        names = next((own for own in (REQUESTS, LIMITS, BY_SCHEDULER) if set(own) & set(self._metrics)), ())
        if not names:
            return {}
        pods = pods_of(window.seen([n for n in names if n in self._metrics], f'resource=~"{RESOURCES}"'))
        if len(pods) > MAX_PODS:
            rejects.add(f"more than {MAX_PODS} pods with GPUs", self.name, 0, count=len(pods) - MAX_PODS)
        kept = list(pods.values())[:MAX_PODS]
        for told in (True, False):  # an old kube-state-metrics tells UIDs in few metrics: there a pod is its name
            group = [pod for pod in kept if (pod.uid != f"{pod.namespace}/{pod.name}") is told]
            for at in range(0, len(group), BATCH):
                self._give(window, group[at : at + BATCH], told, reader, rejects)
        return pods

    def _give(self, window: Window, pods: Sequence[Pod], by_uid: bool, reader: ObjectReader, rejects: Rejects) -> None:
        """Gives pods with all that is told of them to the reader."""
        if by_uid:
            more = f'uid=~"{_any(pod.uid for pod in pods)}"'
        else:
            prefix = "exported_" if window.moved else ""
            more = f'{prefix}namespace=~"{_any(p.namespace for p in pods)}",{prefix}pod=~"{_any(p.name for p in pods)}"'
        told: dict[str, dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
        for labels, value in window.facts(POD_FACTS, more):
            key = labels.get("uid", "") if by_uid else f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
            told[key][labels.get("__name__", "")].append((labels, value))
        untimed = [pod for pod in pods if _ended_without_time(told[pod.uid])]
        if untimed and by_uid:
            self._time_ends(window, untimed, told)
        for pod in pods:
            facts = told[pod.uid]
            if not pod.node:
                pod.node = next((s["node"] for s, _ in facts.get("kube_pod_info", ()) if s.get("node")), "")
            if pod.waited_us is not None and not (pod.node and pod.waited_us >= pod.last_us):
                self._take(reader, pod_object(pod, facts, waiting=True), rejects)
            if pod.node and not _ended_without_time(facts):
                self._take(reader, pod_object(pod, facts), rejects)

    def _time_ends(self, window: Window, pods: Sequence[Pod], told: dict[str, dict[str, list[Fact]]]) -> None:
        """Pods that never ran a container to its end (evicted ones) ended when they were first told to have ended.

        Those that had ended when the span began were told of before.
        """
        phases = "|".join(ENDED)
        selector = self._asker.selector(
            ("kube_pod_status_phase",), f'phase=~"{phases}",uid=~"{_any(pod.uid for pod in pods)}"'
        )
        query = f"min by (uid) (min_over_time(timestamp({selector} == 1)[{window.seconds}s:{STEP_S}s]))"
        for labels, value in window.vector(query):
            if value * SECOND_US > window.start_us + 2 * GONE_US:
                told[labels.get("uid", "")]["kube_pod_completion_time"].append((labels, value))

    def _nodes(self, window: Window, reader: ObjectReader, rejects: Rejects) -> Iterator[Row]:
        """Rows of the nodes with GPUs: as they were first and last told, and at each change of their state."""
        metrics = [name for name in CAPACITY if name in self._metrics]
        if not metrics:
            return
        told: dict[str, dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
        for labels, value in window.facts(metrics, f'resource=~"{RESOURCES}"'):
            told[labels.get("node", "")][labels.get("__name__", "")].append((labels, value))
        told.pop("", None)
        names = sorted(told)[:MAX_NODES]
        for at in range(0, len(names), BATCH):
            some = names[at : at + BATCH]
            node = "exported_node" if window.moved_nodes else "node"
            more = f'{node}=~"{_any(some)}"'
            for labels, value in window.facts(NODE_FACTS[len(CAPACITY) :], more):
                told[labels.get("node", "")][labels.get("__name__", "")].append((labels, value))
            ready = window.states(("kube_node_status_condition",), f"{more},{READY}")
            cordoned = window.states(("kube_node_spec_unschedulable",), more)
            for name in some:
                for at_us, up, out, since_us in changes(ready.get(name), cordoned.get(name), window.end_us):
                    item = node_object(name, told[name], up, out, since_us)
                    try:
                        said = parse_node(item, at_us)
                        row = with_inventory(said, {}, None)
                    except Malformed as error:
                        rejects.add(f"Node: {error}", self.name, 0, name)
                        continue
                    if row is not None:
                        yield row | {"observed_us": at_us}
                self._take(reader, node_object(name, told[name], None, False, None), rejects)

    def _take(self, reader: ObjectReader, item: Object, rejects: Rejects) -> None:
        try:
            reader.take(item)
        except Malformed as error:
            metadata = item["metadata"]
            rejects.add(f"{item['kind']}: {error}", self.name, 0, f"{metadata.get('namespace')}/{metadata['name']}")


class Window:
    """One span of a server, asked for the series of some metrics."""

    def __init__(self, asker: Asker, start_us: int, end_us: int) -> None:
        self.start_us, self.end_us = start_us, end_us
        self.seconds = -(-(end_us - start_us) // SECOND_US)
        self.bytes = 0
        self.lacking: dict[str, None] = {}
        self.moved = self.moved_nodes = False
        """Whether labels of pods, or of nodes, were renamed to exported_...; known once such series were read."""
        self._asker = asker

    def series(self, names: Sequence[str], more: str) -> list[tuple[dict[str, str], Times, Values]]:
        """Series with their samples in the span, none of them empty."""
        parts: dict[bytes, list[tuple[Times, Values]]] = defaultdict(list)
        for answer, size in self._asker.raw(names, self.start_us, self.end_us, 0.0, more):
            self.bytes += size
            self.lacking |= dict.fromkeys(answer.warnings)
            ends = np.cumsum(answer.counts)
            for key, start, end in zip(answer.keys, ends - answer.counts, ends, strict=True):
                if end > start:
                    parts[key].append((answer.time_us[start:end], answer.value[start:end]))
        try:
            labels = self._named([texts_of(json.loads(key)) for key in parts])
        except (ValueError, RecursionError):
            raise UnreadableInput(f"{self._asker.client.access.url}: labels of a series are not text") from None
        return [
            (own, np.concatenate([times for times, _ in pieces]), np.concatenate([values for _, values in pieces]))
            for own, pieces in zip(labels, parts.values(), strict=True)
        ]

    def seen(self, names: Sequence[str], more: str) -> list[Seen]:
        """Series by their first and last samples."""
        return [
            Seen(labels, float(values[np.argmax(times)]), int(times.min()), int(times.max()))
            for labels, times, values in self.series(names, more)
        ]

    def states(self, names: Sequence[str], more: str) -> dict[str, tuple[Times, Values]]:
        """The samples of each node, of all its series, in order of time."""
        parts: dict[str, list[tuple[Times, Values]]] = defaultdict(list)
        for labels, times, values in self.series(names, more):
            parts[labels.get("node", "")].append((times, values))
        found = {}
        for node, pieces in parts.items():
            times = np.concatenate([own for own, _ in pieces])
            order = np.argsort(times, kind="stable")
            found[node] = times[order], np.concatenate([own for _, own in pieces])[order]
        return found

    def facts(self, names: Sequence[str], more: str) -> list[Fact]:
        """The last value of each series in the span."""
        rows = self.vector(f"last_over_time({self._asker.selector(names, more)}[{self.seconds}s])")
        labels = self._named([own for own, _ in rows])
        return [(own, value) for own, (_, value) in zip(labels, rows, strict=True)]

    def targets(self) -> dict[tuple[str, str], tuple[int, int]]:
        """First and last samples in the span of each kube-state-metrics, by (instance, job)."""
        selector = self._asker.selector(("kube_pod_info",))
        spans = f"timestamp({selector})[{self.seconds}s:{STEP_S}s]"
        found: dict[tuple[str, str], list[int]] = {}
        for function in ("min", "max"):
            for labels, value in self.vector(f"{function} by (instance, job) ({function}_over_time({spans}))"):
                key = labels.get("instance", ""), labels.get("job", "")
                found.setdefault(key, []).append(round(value * SECOND_US))
        return {key: (times[0], times[-1]) for key, times in found.items()}

    def vector(self, query: str) -> list[Fact]:
        """The answer to a query as of the end of the span."""
        at_s = -(-self.end_us // SECOND_US)
        return self._asker.patient(lambda: self._asker.client.vector(query, at_s))

    def _named(self, labels: list[dict[str, str]]) -> list[dict[str, str]]:
        self.moved |= any("exported_pod" in own for own in labels)
        self.moved_nodes |= any("exported_node" in own and "pod" not in own for own in labels)
        return plain(labels)


def changes(
    ready: tuple[Times, Values] | None, cordoned: tuple[Times, Values] | None, end_us: int
) -> list[tuple[int, bool | None, bool, int | None]]:
    """(time, ready, cordoned, since when or None) of a node: as first told, at each change, and as last told.

    A node that nothing tells the state of is known to be there at the end of the span.
    """
    if ready is None and cordoned is None:
        return [(end_us, None, False, None)]
    times = np.unique(np.concatenate([own[0] for own in (ready, cordoned) if own is not None]))
    up, out = _held(ready, times, 1.0), _held(cordoned, times, 0.0)
    changed = np.flatnonzero((up[1:] != up[:-1]) | (out[1:] != out[:-1])) + 1
    found: list[tuple[int, bool | None, bool, int | None]] = []
    since_us: int | None = None
    for place in sorted({0, *changed.tolist(), len(times) - 1}):
        if place in changed:
            since_us = int(times[place])
        found.append((int(times[place]), None if ready is None else bool(up[place]), bool(out[place]), since_us))
    return found


def ended(rows: Iterable[Row], pods: dict[str, Pod], targets: dict[tuple[str, str], tuple[int, int]]) -> Iterator[Row]:
    """Claims as kube-state-metrics tells them: known to hold until the pod was last told of, which is the end of a pod
    that was not told of any more while its own target, or one that took its place, went on."""
    newest = max((pod.last_us for pod in pods.values()), default=0)
    for row in rows:
        pod = pods[row["pod_uid"]]
        said: Row = {"kind": KIND, "evidence_us": max(row["evidence_us"] or 0, pod.last_us)}
        if row["end_us"] is None and _gone(pod, targets, newest):
            end_us = max(pod.last_us, row["start_us"] + 1)
            said |= {"end_us": end_us, "evidence_us": end_us}
        elif row["end_us"] is not None:
            said["evidence_us"] = row["end_us"]
        if pod.uid == f"{pod.namespace}/{pod.name}":
            said |= {"pod_uid": None, "run_key": f"{row['run_key']}@{row['submit_us'] or row['start_us']}"}
        yield row | said


def _gone(pod: Pod, targets: dict[tuple[str, str], tuple[int, int]], newest_us: int) -> bool:
    own = targets.get(pod.target, (0, newest_us))
    if own[1] - pod.last_us > GONE_US:
        return True
    return any(
        first >= own[1] - MINUTE_US and last - max(first, pod.last_us) > REPLACED_US
        for key, (first, last) in targets.items()
        if key != pod.target
    )


def _ended_without_time(facts: dict[str, list[Fact]]) -> bool:
    return phase_of(facts) in ENDED and not facts.get("kube_pod_completion_time")


def _held(told: tuple[Times, Values] | None, times: Times, default: float) -> NDArray[np.bool_]:
    """Whether a state was 1 at each time: as it was last told, or first."""
    if told is None:
        return np.full(len(times), default == 1.0)
    place = np.clip(np.searchsorted(told[0], times, side="right") - 1, 0, None)
    return np.asarray(told[1][place] == 1)


def _any(texts: Iterable[str]) -> str:
    """A regular expression of any of the texts, as a matcher writes it."""
    return "|".join(re.escape(text).replace("\\", "\\\\") for text in dict.fromkeys(texts))
