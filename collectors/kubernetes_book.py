"""Which pods, requests and nodes of a Kubernetes cluster the store was told of, so that only news is written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.clock import HOUR_US, MINUTE_US
from gpuwatch.collectors.kubernetes_events import event_row
from gpuwatch.collectors.kubernetes_json import Malformed, Object, mapping, moment, string
from gpuwatch.collectors.kubernetes_nodes import node_row, single_profile
from gpuwatch.collectors.kubernetes_pods import by_job, claims, pending, uses_dra_only
from gpuwatch.model import Rejects

HEARTBEAT_US = MINUTE_US
"""Pods that run are held up to the newest evidence of any claim: one claim is written again this often."""
REFRESH_US = HOUR_US
"""Nodes and requests that do not change are written again this often."""
MAX_PODS = 500_000
MAX_EVENTS = 100_000
MAX_REFUSED = 10_000

Columns = dict[str, Any]
Tables = dict[str, list[Columns]]


@dataclass
class _Pod:
    """A pod that asks for GPUs, as it was last written."""

    namespace: str | None
    name: str | None
    claims: list[Columns] = field(default_factory=list)
    waiting: list[Columns] = field(default_factory=list)

    @property
    def open(self) -> bool:
        return bool(self.claims) and self.claims[0]["end_us"] is None


class Book:
    """Turns objects as they come into the rows that the store does not have; `take` hands them over."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}
        self._names: dict[tuple[str | None, str | None], str] = {}
        self._jobs: dict[str, set[str]] = {}
        """Pods of a job that wait."""
        self._dirty: set[str] = set()
        self._requests: dict[tuple[str, str | None], tuple[Columns, int]] = {}
        self._nodes: dict[str, tuple[Columns, int]] = {}
        self._profiles: dict[str, str] = {}
        self._events: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._news: Tables = {}
        self._refused: set[tuple[str, str]] = set()
        self._beat: tuple[str, int] = ("", 0)
        self.rejects = Rejects()

    def remember(self, open_claims: Iterable[Columns]) -> int | None:
        """Takes the claims that the store has open; returns when (µs) their pods were last known alive.

        An end is written before any later sign of life: what is open was alive when any other one was.
        """
        newest: int | None = None
        for row in open_claims:
            if row.get("pod_uid") and row.get("start_us") is not None:
                pod = self._pods.setdefault(row["pod_uid"], _Pod(row.get("namespace"), row.get("pod")))
                pod.claims.append(row)
                newest = max(newest or 0, row["start_us"], row.get("evidence_us") or 0)
        for pod in self._pods.values():
            pod.claims.sort(key=lambda row: row.get("profile") or "")
        return newest

    def pod(self, item: Object, at_us: int) -> str | None:
        """Takes a pod as it is now; returns its UID where it asks for GPUs, None for others."""
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid")
        if uses_dra_only(item):
            self._refuse("pod uses a DRA claim: its devices are not in the Pod object", item)
            return None
        rows, waiting = list(claims(item)), list(pending(item))
        known = self._pods.get(uid or "")
        if uid is None or (known is None and not rows and not waiting):
            return uid if known else None
        if known is None:
            if len(self._pods) >= MAX_PODS:
                self._refuse(f"more than {MAX_PODS} pods with GPUs", item)
                return None
            known = self._pods[uid] = _Pod(string(metadata, "namespace") or "default", string(metadata, "name"))
        self._names[known.namespace, known.name] = uid
        self._wait(uid, known, waiting)
        if rows:
            self._hold(known, rows)
        return uid

    def pod_deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Takes a pod's last state: it went after `alive_us`, when the server was last heard, and by `at_us`.

        Where no container says when it ended, the deletion does, as far as it lies between the two.
        """
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid") or ""
        try:
            rows = list(claims(item))
            deleted = moment(metadata, "deletionTimestamp")
        except Malformed as error:
            self._refuse(f"Pod: {error}", item)
            rows, deleted = [], None
        known = self._pods.pop(uid, None)
        if known is None and not rows:
            return
        pod = known or _Pod(string(metadata, "namespace"), string(metadata, "name"))
        if rows:
            self._hold(pod, rows)
        # The pod as the store knows it may lack what a torn object would have said.
        end_us = min(max(at_us if deleted is None else deleted, alive_us), at_us)
        self._close(uid, pod, end_us)

    def listed(self, uids: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends the pods that a whole list of a namespace (None: of all) does not have.

        They went unseen: each ends when it was last known alive, or at the list where nothing is known.
        """
        gone = [uid for uid in self._pods if uid not in uids]
        for uid in gone:
            pod = self._pods[uid]
            if namespace is None or pod.namespace == namespace:
                del self._pods[uid]
                self._close(uid, pod, at_us if alive_us is None else min(alive_us, at_us))

    def node(self, item: Object, at_us: int) -> str | None:
        """Takes a node as it is now; returns its name where it has GPUs."""
        row = node_row(item, at_us)
        if row is None:
            return None
        if profile := single_profile(item):
            self._profiles[row["node"]] = profile
        else:
            self._profiles.pop(row["node"], None)
        told, written_us = self._nodes.get(row["node"], ({}, 0))
        if _differs(told, row) or at_us - written_us >= REFRESH_US:
            self._add("node", row | {"observed_us": max(row["observed_us"] or 0, at_us)})
            written_us = at_us
        self._nodes[row["node"]] = row, written_us
        return str(row["node"])

    def node_deleted(self, name: str | None, at_us: int) -> None:
        """A node that is gone is down from then on."""
        told = self._nodes.pop(name or "", None)
        if told is not None:
            gone = {"state": "down", "reason": "deleted from the cluster", "since_us": at_us, "observed_us": at_us}
            self._add("node", told[0] | gone)

    def nodes_listed(self, names: Collection[str], at_us: int) -> None:
        """Nodes that a whole list does not have are gone."""
        for name in [name for name in self._nodes if name not in names]:
            self.node_deleted(name, at_us)

    def event(self, item: Object) -> None:
        """Takes an event about a pod or node that is known here."""
        row = event_row(item)
        place = (row["namespace"], row["name"])
        about = row["object_kind"]
        if not (about == "Pod" and place in self._names or about == "Node" and row["name"] in self._nodes):
            return
        said = row["count"], row["last_us"]
        if self._events.get(row["event_id"]) != said:
            self._events[row["event_id"]] = said
            self._events.move_to_end(row["event_id"])
            if len(self._events) > MAX_EVENTS:
                self._events.popitem(last=False)
            self._add("event", row)

    def heartbeat(self, alive_us: int) -> None:
        """Says once a minute that pods were alive at `alive_us`; by another pod where the last to say so ended."""
        uid, said_us = self._beat
        pod = self._pods.get(uid)
        if pod is not None and pod.open and alive_us - said_us < HEARTBEAT_US:
            return
        carrier = uid if pod is not None and pod.open else next((u for u, p in self._pods.items() if p.open), None)
        if carrier is not None:
            row = self._pods[carrier].claims[0]
            self._beat = carrier, alive_us
            self._add("claim", row | {"evidence_us": max(row["evidence_us"] or 0, alive_us)})

    def take(self, at_us: int) -> Tables:
        """The rows of everything that was news since the last call, by store table."""
        for job in self._dirty:
            self._request(job, at_us)
        self._dirty.clear()
        for key, (row, written_us) in self._requests.items():
            if at_us - written_us >= REFRESH_US:
                self._requests[key] = row, at_us
                self._add("pending", row | {"evidence_us": at_us})
        news, self._news = self._news, {}
        return news

    def refuse(self, error: Malformed, item: Object, kind: str) -> None:
        """Counts an object of the wrong shape."""
        self._refuse(f"{kind}: {error}", item)

    def _hold(self, pod: _Pod, rows: list[Columns]) -> None:
        """Keeps profiles as first written: a node that is labelled anew must not make a second claim of a pod."""
        alike = len(pod.claims) == len(rows)
        for row in rows:
            kept = pod.claims[0].get("profile") if alike and len(rows) == 1 else None
            row["profile"] = row["profile"] or kept or self._profiles.get(row["node"])
        if not alike or any(_differs(old, new) for old, new in zip(pod.claims, rows, strict=True)):
            for row in rows:
                self._add("claim", row)
        pod.claims = rows

    def _close(self, uid: str, pod: _Pod, end_us: int) -> None:
        self._wait(uid, pod, [])
        if self._names.get((pod.namespace, pod.name)) == uid:
            del self._names[pod.namespace, pod.name]
        if pod.open:
            for row in pod.claims:
                last_us = max(end_us, row["start_us"])
                self._add("claim", row | {"end_us": last_us, "evidence_us": last_us})

    def _wait(self, uid: str, pod: _Pod, waiting: list[Columns]) -> None:
        jobs = {row["job_id"] for row in (*pod.waiting, *waiting)}
        if waiting != pod.waiting:
            self._dirty |= jobs
        pod.waiting = waiting
        for job in jobs:
            members = self._jobs.setdefault(job, set())
            (members.add if waiting else members.discard)(uid)
            if not members:
                del self._jobs[job]

    def _request(self, job: str, at_us: int) -> None:
        """The request of a job as its waiting pods make it; its last word when none waits any more."""
        pods = [self._pods[uid] for uid in sorted(self._jobs.get(job, ())) if uid in self._pods]
        rows = by_job(row.copy() for pod in pods for row in pod.waiting)
        for row in rows:
            told, written_us = self._requests.get((job, row["profile"]), ({}, 0))
            if _differs(told, row):
                self._add("pending", row | {"evidence_us": at_us})
                written_us = at_us
            self._requests[job, row["profile"]] = row, written_us
        for profile in {p for j, p in self._requests if j == job} - {row["profile"] for row in rows}:
            row, written_us = self._requests.pop((job, profile))
            if at_us > written_us:
                self._add("pending", row | {"evidence_us": at_us})

    def _add(self, table: str, row: Columns) -> None:
        self._news.setdefault(table, []).append(row)

    def _refuse(self, reason: str, item: Object) -> None:
        metadata = item.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        text = f"{named.get('namespace')}/{named.get('name')}"
        # An object comes again with every change of it: it is counted once.
        if (reason, text) not in self._refused:
            if len(self._refused) < MAX_REFUSED:
                self._refused.add((reason, text))
            self.rejects.add(reason, "kubernetes", 0, text)


def _differs(told: Columns, said: Columns) -> bool:
    """Whether anything but the time of speaking differs; what is not named is NULL. `cluster` is the writer's."""
    names = (told.keys() | said.keys()) - {"evidence_us", "observed_us", "cluster"}
    return any(told.get(name) != said.get(name) for name in names)
