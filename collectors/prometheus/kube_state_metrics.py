"""Scheduler records from kube-state-metrics, for clusters that are known only through its metrics in Prometheus.

The rows of a span depend only on that span and the time before it, so reading it twice gives the same rows. Times of
requests and node conditions come from raw samples; constant metrics are queried once per span.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuwatch.collectors.kubernetes.files import ObjectReader
from gpuwatch.collectors.kubernetes.nodes import parse_node, with_inventory
from gpuwatch.collectors.prometheus.chunking import QueryRunner
from gpuwatch.collectors.prometheus.ksm_names import RESOURCES
from gpuwatch.collectors.prometheus.ksm_objects import (
    ENDED,
    TEAM_SERIES_LABEL,
    Fact,
    Pod,
    namespace_objects,
    node_object,
    phase_of,
    pod_object,
    pods_of,
    quota_objects,
)
from gpuwatch.collectors.prometheus.ksm_window import STEP_S, Window, any_of, node_states
from gpuwatch.collectors.prometheus.metrics import Chunk
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.collectors.shared.records import Columns, table_batches
from gpuwatch.core.clock import MINUTE_US, SECOND_US
from gpuwatch.core.model import Points, Rejects
from gpuwatch.core.model import Records as Batch

KIND = "ksm"
"""claim.kind: claims of another source for the same pod take precedence."""
LOOK_BACK_US = 45 * MINUTE_US
"""How far before a span its series are read, to end pods that disappeared at the end of the previous span."""
GONE_US = 5 * MINUTE_US
"""An object is gone after its own scrape target has gone on without it for this long."""
REPLACED_US = 30 * MINUTE_US
"""It is gone, too, after a target that replaced its own has gone on without it for this long: shards start apart."""
BATCH = 100
"""Objects per query."""
MAX_PODS = 200_000
MAX_NODES = 50_000

REQUESTS = ("kube_pod_container_resource_requests", "kube_pod_init_container_resource_requests")
LIMITS = ("kube_pod_container_resource_limits", "kube_pod_init_container_resource_limits")
BY_SCHEDULER = ("kube_pod_resource_request", "kube_pod_resource_limit")
CAPACITY = ("kube_node_status_capacity", "kube_node_status_allocatable")
QUOTA = ("kube_resourcequota",)
NAMESPACE = ("kube_namespace_labels",)
"""Read for the team of a namespace; kube-state-metrics has labels only where --metric-labels-allowlist names them."""
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
    "kube_pod_container_status_waiting_reason",
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_container_status_last_terminated_exitcode",
    "kube_pod_init_container_info",
)
NODE_FACTS = (*CAPACITY, "kube_node_labels", "kube_node_spec_taint")
READY = 'condition="Ready",status="true"'

FactsOf = dict[str, dict[str, list[Fact]]]
"""Series with their values, by object and metric; objects and metrics are made on first use."""


@dataclass(frozen=True)
class SpanRecords:
    """The scheduler records of a span."""

    tables: dict[str, list[Columns]]
    """Rows by store table, without the cluster."""
    pods: set[str]
    """UIDs of all pods that request GPUs."""
    bytes: int
    rejects: Rejects
    lacking: list[str]


class SchedulerRecords:
    """The scheduler records of one server and cluster, by span of time. Spans may be read by many threads at a time."""

    def __init__(self, asker: QueryRunner, cluster: str) -> None:
        self.name = asker.client.access.url
        self.cluster = cluster
        self._asker = asker
        self._metrics: list[str] = []

    def find(self, start_us: int, end_us: int) -> list[str]:
        """The metrics of a span that concern GPUs. Raises Refused, UnreadableInput."""
        wanted = (*REQUESTS, *LIMITS, *BY_SCHEDULER, *CAPACITY, *QUOTA)
        match = self._asker.selector(wanted, f'resource=~"(?:requests.|limits.)?(?:{RESOURCES})"')
        span = start_us // SECOND_US, -(-end_us // SECOND_US)
        found = set(self._asker.with_retries(lambda: self._asker.client.names(match, *span)))
        self._metrics = [name for name in wanted if name in found]
        return self._metrics

    def chunk(self, start_us: int, end_us: int) -> Chunk:
        """Claims, requests, nodes and quotas of a span. Raises Refused, UnreadableInput."""
        records = self.read(start_us - LOOK_BACK_US, end_us)
        found: list[Batch | Points] = [
            batch
            for table, rows in records.tables.items()
            if rows
            for batch in table_batches(table, rows, self.cluster)
        ]
        return Chunk(found, sum(b.rows.num_rows for b in found), records.bytes, records.rejects, records.lacking)

    def read(self, start_us: int, end_us: int) -> SpanRecords:
        """The records of [start_us, end_us). Raises Refused, UnreadableInput."""
        window = Window(self._asker, start_us, end_us)
        reader, rejects = ObjectReader(end_us), Rejects()
        nodes = list(self._nodes(window, reader, rejects))
        pods = self._pods(window, reader, rejects)
        if QUOTA[0] in self._metrics:
            quotas = window.facts(QUOTA, f'resource=~"(?:requests.|limits.)?(?:{RESOURCES})"')
            for item in quota_objects(quotas):
                self._take(reader, item, rejects)
        if self._metrics:
            for item in namespace_objects(window.spans(NAMESPACE, f'{TEAM_SERIES_LABEL}!=""')):
                self._take(reader, item, rejects)
        for reason, _, name in reader.finish():
            rejects.add(reason, self.name, 0, name)
        tables = dict(reader.tables)
        tables["claim"] = list(close_claims(tables["claim"], pods, window.targets()))
        tables["node"] = nodes
        return SpanRecords(tables, set(pods), window.bytes, rejects, list(window.lacking))

    def _pods(self, window: Window, reader: ObjectReader, rejects: Rejects) -> dict[str, Pod]:
        """Passes the pods of a span to the reader; returns them by UID."""
        names = next((group for group in (REQUESTS, LIMITS, BY_SCHEDULER) if set(group) & set(self._metrics)), ())
        if not names:
            return {}
        pods = pods_of(window.spans([n for n in names if n in self._metrics], f'resource=~"{RESOURCES}"'))
        if len(pods) > MAX_PODS:
            rejects.add(f"more than {MAX_PODS} pods with GPUs", self.name, 0, count=len(pods) - MAX_PODS)
        kept = list(pods.values())[:MAX_PODS]
        for by_uid in (True, False):  # an old kube-state-metrics has UIDs in few metrics: then pods are found by name
            group = [pod for pod in kept if (pod.uid != f"{pod.namespace}/{pod.name}") is by_uid]
            for at in range(0, len(group), BATCH):
                self._read_pods(window, group[at : at + BATCH], by_uid, reader, rejects)
        return pods

    def _read_pods(
        self, window: Window, pods: Sequence[Pod], by_uid: bool, reader: ObjectReader, rejects: Rejects
    ) -> None:
        """Reads all metrics of some pods and passes them to the reader."""
        facts_of = _facts_by_uid(window, pods) if by_uid else _facts_by_name(window, pods)
        untimed = [pod for pod in pods if _ended_without_time(facts_of[pod.uid])]
        if untimed and by_uid:
            self._add_end_times(window, untimed, facts_of)
        for pod in pods:
            self._take_pod(reader, pod, facts_of[pod.uid], rejects)

    def _take_pod(self, reader: ObjectReader, pod: Pod, facts: dict[str, list[Fact]], rejects: Rejects) -> None:
        """Passes a pod to the reader, as it waited and as it ran."""
        if not pod.node:
            pod.node = next((s["node"] for s, _ in facts.get("kube_pod_info", ()) if s.get("node")), "")
        if pod.waited_us is not None and not (pod.node and pod.waited_us >= pod.last_us):
            self._take(reader, pod_object(pod, facts, waiting=True), rejects)
        if pod.node and not _ended_without_time(facts):
            self._take(reader, pod_object(pod, facts), rejects)

    def _add_end_times(self, window: Window, pods: Sequence[Pod], facts_of: FactsOf) -> None:
        """Adds the end of pods without a finished container (evicted ones): the first sample of their final phase.

        Pods that had ended before the span were handled then.
        """
        phases = "|".join(ENDED)
        selector = self._asker.selector(
            ("kube_pod_status_phase",), f'phase=~"{phases}",uid=~"{any_of(pod.uid for pod in pods)}"'
        )
        query = f"min by (uid) (min_over_time(timestamp({selector} == 1)[{window.seconds}s:{STEP_S}s]))"
        for labels, value in window.vector(query):
            if value * SECOND_US > window.start_us + 2 * GONE_US:
                facts_of[labels.get("uid", "")]["kube_pod_completion_time"].append((labels, value))

    def _nodes(self, window: Window, reader: ObjectReader, rejects: Rejects) -> Iterator[Columns]:
        """Rows of the nodes with GPUs: at their first and last samples, and at each change of their state."""
        metrics = [name for name in CAPACITY if name in self._metrics]
        if not metrics:
            return
        facts_of = _no_facts()
        for labels, value in window.facts(metrics, f'resource=~"{RESOURCES}"'):
            facts_of[labels.get("node", "")][labels.get("__name__", "")].append((labels, value))
        facts_of.pop("", None)
        names = sorted(facts_of)[:MAX_NODES]
        for at in range(0, len(names), BATCH):
            some = names[at : at + BATCH]
            node = "exported_node" if window.moved_nodes else "node"
            more = f'{node}=~"{any_of(some)}"'
            for labels, value in window.facts(NODE_FACTS[len(CAPACITY) :], more):
                facts_of[labels.get("node", "")][labels.get("__name__", "")].append((labels, value))
            ready = window.states(("kube_node_status_condition",), f"{more},{READY}")
            cordoned = window.states(("kube_node_spec_unschedulable",), more)
            for name in some:
                for at_us, up, out, since_us in node_states(ready.get(name), cordoned.get(name), window.end_us):
                    item = node_object(name, facts_of[name], up, out, since_us)
                    try:
                        row = with_inventory(parse_node(item, at_us), {}, None)
                    except Malformed as error:
                        rejects.add(f"Node: {error}", self.name, 0, name)
                        continue
                    if row is not None:
                        yield row | {"observed_us": at_us}
                self._take(reader, node_object(name, facts_of[name], None, False, None), rejects)

    def _take(self, reader: ObjectReader, item: Object, rejects: Rejects) -> None:
        try:
            reader.take(item)
        except Malformed as error:
            metadata = item["metadata"]
            rejects.add(f"{item['kind']}: {error}", self.name, 0, f"{metadata.get('namespace')}/{metadata['name']}")


def _facts_by_uid(window: Window, pods: Sequence[Pod]) -> FactsOf:
    """All metrics of some pods, by UID."""
    facts_of = _no_facts()
    for labels, value in window.facts(POD_FACTS, f'uid=~"{any_of(pod.uid for pod in pods)}"'):
        facts_of[labels.get("uid", "")][labels.get("__name__", "")].append((labels, value))
    return facts_of


def _facts_by_name(window: Window, pods: Sequence[Pod]) -> FactsOf:
    """All metrics of some pods, by `namespace/name`."""
    prefix = "exported_" if window.moved else ""
    more = f'{prefix}namespace=~"{any_of(p.namespace for p in pods)}",{prefix}pod=~"{any_of(p.name for p in pods)}"'
    facts_of = _no_facts()
    for labels, value in window.facts(POD_FACTS, more):
        key = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
        facts_of[key][labels.get("__name__", "")].append((labels, value))
    return facts_of


def _no_facts() -> FactsOf:
    return defaultdict(lambda: defaultdict(list))


def close_claims(
    rows: Iterable[Columns], pods: dict[str, Pod], targets: dict[tuple[str, str], tuple[int, int]]
) -> Iterator[Columns]:
    """Claims held until the last sample of their pod. That is the end of a pod whose samples stopped while its own scrape
    target, or a replacement, went on."""
    newest = max((pod.last_us for pod in pods.values()), default=0)
    for row in rows:
        pod = pods[row["pod_uid"]]
        updates: Columns = {"kind": KIND, "evidence_us": max(row["evidence_us"] or 0, pod.last_us)}
        if row["end_us"] is None and _gone(pod, targets, newest):
            end_us = max(pod.last_us, row["start_us"] + 1)
            updates |= {"end_us": end_us, "evidence_us": end_us}
        elif row["end_us"] is not None:
            updates["evidence_us"] = row["end_us"]
        if pod.uid == f"{pod.namespace}/{pod.name}":
            updates |= {"pod_uid": None, "run_key": f"{row['run_key']}@{row['submit_us'] or row['start_us']}"}
        yield row | updates


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
