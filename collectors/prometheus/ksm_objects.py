"""Rebuilds Kubernetes objects (pods, nodes, quotas, namespaces) from series of kube-state-metrics.

The objects go through the same code as those of an API server, so that the same rules apply to owners, counts, starts
and ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch.collectors.kubernetes.nodes import CORDON_TAINT
from gpuwatch.collectors.kubernetes.quota import TEAM_LABEL
from gpuwatch.collectors.prometheus.ksm_names import kubernetes_labels, resource_name
from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.core.clock import rfc3339

PHASES = ("Pending", "Unknown", "Running", "Failed", "Succeeded")
"""In order: if a pod had several phases within a span, the last one in this list counts."""
ENDED = ("Failed", "Succeeded")
INIT = "kube_pod_init_container_resource"
NO_OWNER = ("", "<none>")
TEAM_SERIES_LABEL = "label_gpuwatch_io_team"
"""The namespace label TEAM_LABEL as kube-state-metrics writes it."""
_LAST_S = 253_402_300_799

Fact = tuple[dict[str, str], float]
Facts = Mapping[str, Sequence[Fact]]
"""Series of one object by metric name."""


@dataclass(frozen=True)
class SeriesSpan:
    """A series in a span: its labels, last value, and the times of its first and last samples."""

    labels: dict[str, str]
    value: float
    first_us: int
    last_us: int

    @property
    def target(self) -> tuple[str, str]:
        """The scrape target of the series."""
        return self.labels.get("instance", ""), self.labels.get("job", "")


@dataclass
class Pod:
    """A pod that requests GPUs, from the series of its requests."""

    namespace: str
    name: str
    uid: str
    """The UID; `namespace/name` if kube-state-metrics is too old to report it."""
    node: str = ""
    first_us: int = 0
    last_us: int = 0
    """The last sample of any series."""
    waited_us: int | None = None
    """The last sample without a node."""
    target: tuple[str, str] = ("", "")
    """The scrape target of the last sample."""
    requests: dict[tuple[bool, str], dict[str, int]] = field(default_factory=dict)
    """Devices by resource, by (whether it is an init container, container)."""


def pods_of(series: Iterable[SeriesSpan]) -> dict[str, Pod]:
    """The pods of series of requests and limits, by UID. Bad counts and series without a pod are left out."""
    pods: dict[str, Pod] = {}
    for span in series:
        labels = span.labels
        namespace, name = labels.get("namespace", ""), labels.get("pod", "")
        if not name or not _whole(span.value):
            continue
        uid = labels.get("uid") or f"{namespace}/{name}"
        pod = pods.setdefault(uid, Pod(namespace, name, uid, first_us=span.first_us))
        node = labels.get("node", "")
        if node:
            pod.node = node
        else:
            pod.waited_us = max(pod.waited_us or 0, span.last_us)
        pod.first_us = min(pod.first_us, span.first_us)
        if span.last_us >= pod.last_us:
            pod.last_us, pod.target = span.last_us, span.target
        metric = labels.get("__name__", "")
        container = pod.requests.setdefault((metric.startswith(INIT), labels.get("container", "")), {})
        resource = resource_name(labels.get("resource", ""))
        container[resource] = max(container.get(resource, 0), int(span.value))
    for pod in pods.values():
        # The scheduler's metrics of whole pods count only without metrics of containers.
        if len(pod.requests) > 1:
            pod.requests.pop((False, ""), None)
    return pods


def pod_object(pod: Pod, facts: Facts, waiting: bool = False) -> Object:
    """The Pod object as far as it is known; with `waiting`, as it was before it had a node."""
    labels: dict[str, str] = {}
    for series, _ in facts.get("kube_pod_labels", ()):
        labels |= kubernetes_labels(series)
    requests = sorted(pod.requests.items())
    containers = [{"name": name, "resources": {"limits": limits}} for (init, name), limits in requests if not init]
    inits = [{"name": name, "resources": {"limits": limits}} for (init, name), limits in requests if init]
    for series, _ in facts.get("kube_pod_init_container_info", ()):
        for container in inits:
            if container["name"] == series.get("container") and series.get("restart_policy") == "Always":
                container["restartPolicy"] = "Always"
    metadata: Object = {
        "name": pod.name,
        "namespace": pod.namespace or "default",
        "uid": pod.uid,
        "labels": labels,
        "ownerReferences": _owners(pod, facts, labels),
    }
    if created := _time(facts, "kube_pod_created"):
        metadata["creationTimestamp"] = created
    spec: Object = {"containers": containers, "initContainers": inits}
    if waiting:
        status: Object = {"phase": "Pending", "conditions": [_unscheduled(facts, pod.waited_us or pod.last_us)]}
    else:
        spec["nodeName"] = pod.node
        if deleted := _time(facts, "kube_pod_deletion_timestamp"):
            metadata["deletionTimestamp"] = deleted
        status = _status(pod, facts)
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}


def phase_of(facts: Facts) -> str | None:
    """The latest phase of a pod."""
    phases = [series.get("phase", "") for series, value in facts.get("kube_pod_status_phase", ()) if value == 1]
    return max((phase for phase in phases if phase in PHASES), key=PHASES.index, default=None)


def _status(pod: Pod, facts: Facts) -> Object:
    phase = phase_of(facts)
    ended_at = _time(facts, "kube_pod_completion_time", last=True) if phase in ENDED else None
    started = _by_container(facts, "kube_pod_container_state_started")
    restarts = _by_container(facts, "kube_pod_container_status_restarts_total")
    waits = _reason_by_container(facts, "kube_pod_container_status_waiting_reason")
    ends = _reason_by_container(facts, "kube_pod_container_status_last_terminated_reason")
    codes = _by_container(facts, "kube_pod_container_status_last_terminated_exitcode")
    containers = []
    for name in sorted({*started, *restarts, *waits, *([""] if ended_at and not started else [])}):
        state = _container_state(started.get(name, math.nan), phase in ENDED, ended_at)
        if not state and name in waits:
            state = {"waiting": {"reason": waits[name]}}
        count = restarts.get(name, 0.0)
        code = codes.get(name, math.nan)
        last = {"reason": ends.get(name)} | ({"exitCode": int(code)} if _whole(code) else {})
        ended = {"lastState": {"terminated": last}} if name in ends else {}
        restarted = int(count) if _whole(count) else 0
        containers.append({"name": name, "state": state, "restartCount": restarted, **ended})
    status: Object = {"containerStatuses": containers}
    if phase:
        status["phase"] = phase
    if reason := next((s.get("reason") for s, value in facts.get("kube_pod_status_reason", ()) if value == 1), None):
        status["reason"] = reason
    start = _time(facts, "kube_pod_start_time")
    if start or (phase in (None, "Running") and not started):
        # Without any other start time, the first sample on its node counts.
        status["startTime"] = start or rfc3339(pod.first_us)
    return status


def _by_container(facts: Facts, metric: str) -> dict[str, float]:
    """The value of a metric by container."""
    return {series.get("container", ""): value for series, value in facts.get(metric, ())}


def _reason_by_container(facts: Facts, metric: str) -> dict[str, str | None]:
    """The reason that a metric has for each container; those of series with another value than 1 are past."""
    return {series.get("container", ""): series.get("reason") for series, value in facts.get(metric, ()) if value == 1}


def _container_state(started: float, ended: bool, ended_at: str | None) -> Object:
    """The state of a container, terminated or running; empty if it has not started."""
    times = {"startedAt": at} if (at := _text(started)) else {}
    if ended:
        return {"terminated": times | ({"finishedAt": ended_at} if ended_at else {})}
    return {"running": times} if times else {}


def _unscheduled(facts: Facts, at_us: int) -> Object:
    unschedulable = [series for series, value in facts.get("kube_pod_status_unschedulable", ()) if value == 1]
    condition: Object = {"type": "PodScheduled", "status": "False", "lastProbeTime": rfc3339(at_us)}
    return condition | ({"reason": "Unschedulable"} if unschedulable else {})


def _owners(pod: Pod, facts: Facts, labels: Mapping[str, str]) -> list[Object]:
    """The controller of a pod. Only labels of Jobs have its UID; otherwise its name stands for it."""
    pairs = [
        (series.get("owner_kind", ""), series.get("owner_name", ""))
        for series, _ in facts.get("kube_pod_owner", ())
        if series.get("owner_is_controller") == "true"
    ]
    pairs += [
        (series.get("created_by_kind", ""), series.get("created_by_name", ""))
        for series, _ in facts.get("kube_pod_info", ())
    ]
    for kind, name in pairs:
        if kind not in NO_OWNER and name not in NO_OWNER:
            uid = labels.get("batch.kubernetes.io/controller-uid") or labels.get("controller-uid")
            owner_uid = uid if kind == "Job" and uid else f"{kind}/{pod.namespace or 'default'}/{name}"
            return [{"kind": kind, "name": name, "uid": owner_uid, "controller": True}]
    return []


def node_object(name: str, facts: Facts, ready: bool | None, cordoned: bool, since_us: int | None) -> Object:
    """The Node object as far as it is known. `since_us` is when its state began, None if unknown."""
    labels: dict[str, str] = {}
    for series, _ in facts.get("kube_node_labels", ()):
        labels |= kubernetes_labels(series)
    status: Object = {}
    for metric, key in (("kube_node_status_capacity", "capacity"), ("kube_node_status_allocatable", "allocatable")):
        counts = {resource_name(s.get("resource", "")): int(v) for s, v in facts.get(metric, ()) if _whole(v)}
        if counts:
            status[key] = counts
    at = {"lastTransitionTime": rfc3339(since_us)} if since_us is not None else {}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False", **at}]
    taints: list[Object] = [
        {"key": series.get("key"), "effect": series.get("effect"), "value": series.get("value")}
        for series, value in facts.get("kube_node_spec_taint", ())
        if value == 1 and series.get("key") != CORDON_TAINT
    ]
    if cordoned:
        added = {"timeAdded": rfc3339(since_us)} if since_us is not None else {}
        taints.append({"key": CORDON_TAINT, "effect": "NoSchedule", **added})
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": status,
    }


def quota_objects(facts: Sequence[Fact]) -> list[Object]:
    """ResourceQuota objects of the series of kube_resourcequota about GPUs."""
    found: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for series, value in facts:
        key = series.get("namespace", ""), series.get("resourcequota", "")
        kind = series.get("type", "")
        if all(key) and kind in ("hard", "used") and _whole(value):
            found.setdefault(key, {}).setdefault(kind, {})[resource_name(series.get("resource", ""))] = int(value)
    return [
        {
            "kind": "ResourceQuota",
            "apiVersion": "v1",
            # kube-state-metrics has no UID of quotas, so the name stands for it, as for pods without UID.
            "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"},
            "spec": {},
            "status": status,
        }
        for (namespace, name), status in sorted(found.items())
    ]


def namespace_objects(seen: Sequence[SeriesSpan]) -> list[Object]:
    """Namespace objects with their team, of the newest series of kube_namespace_labels of each."""
    teams = {
        one.labels.get("namespace", ""): one.labels.get(TEAM_SERIES_LABEL, "")
        for one in sorted(seen, key=lambda one: (one.last_us, one.labels.get(TEAM_SERIES_LABEL, "")))
    }
    return [
        {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": name, "uid": name, "labels": {TEAM_LABEL: team}},
            "status": {"phase": "Active"},
        }
        for name, team in sorted(teams.items())
        if name and team
    ]


def _whole(value: float) -> bool:
    return math.isfinite(value) and 0 <= value < 1e9 and value == int(value)


def _text(seconds: float) -> str | None:
    """RFC 3339 of a metric's time in seconds; None for zero and invalid times."""
    return rfc3339(round(seconds * 1_000_000)) if math.isfinite(seconds) and 0 < seconds < _LAST_S else None


def _time(facts: Facts, metric: str, last: bool = False) -> str | None:
    values = [value for _, value in facts.get(metric, ()) if math.isfinite(value)]
    return _text((max if last else min)(values)) if values else None
