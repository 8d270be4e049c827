"""What the store was told of a cluster's pods, nodes and other objects, so that only news is written. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.collectors.kubernetes.custom_objects import News, Things, identity
from gpuwatch.collectors.kubernetes.dra import Allocations, Drawn, Key
from gpuwatch.collectors.kubernetes.events import event_row
from gpuwatch.collectors.kubernetes.files import DRA_UNKNOWN
from gpuwatch.collectors.kubernetes.kinds import Kind
from gpuwatch.collectors.kubernetes.nodes import NodeSaid, bare_node, node_said, with_inventory
from gpuwatch.collectors.kubernetes.pods import asks_for_gpus, by_job, claims, gpu_resources, held_of, pending, spell
from gpuwatch.collectors.shared.changes import HEARTBEAT_US, NO_LONGER_WAITS, LastWritten, differs
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, moment, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.model import Rejects

MAX_PODS = 500_000
MAX_NODES = 100_000
MAX_REQUESTS = 1_000_000
MAX_EVENTS = 100_000
MAX_REFUSED = 10_000

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

    def __init__(self, nodes: bool = True) -> None:
        """`nodes`: whether nodes will be told too; else what ResourceSlices say of them is all there is."""
        self._expects_nodes = nodes
        self._pods: dict[str, _Pod] = {}
        self._names: dict[tuple[str | None, str | None], str] = {}
        self._jobs: dict[str, set[str]] = {}
        """Pods of a job that wait."""
        self._dirty: set[str] = set()
        self._requests = LastWritten(MAX_REQUESTS)
        self._asked: dict[str, set[str | None]] = {}
        """Profiles that a job was last said to wait for."""
        self._nodes: dict[str, NodeSaid] = {}
        self._told_nodes = LastWritten(MAX_NODES)
        self._events: OrderedDict[str, tuple[Any, Any]] = OrderedDict()
        self._drawn = Allocations()
        self._waits: dict[Key, dict[str, Object]] = {}
        """Pods by UID whose claim, or the slice of whose device, has not come yet."""
        self._waiting: dict[str, list[Key]] = {}
        self._things = Things()
        self._news: Tables = {}
        self._refused: set[tuple[str, str]] = set()
        self._beat: tuple[str, int] = ("", 0)
        self.rejects = Rejects()
        self.rows = 0
        """Rows of news that wait to be taken."""

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

    def remember_things(self, table: str, rows: Iterable[Columns]) -> int | None:
        """Takes the rows of `queue` or `workload` that the store has open; returns when (µs) the newest was said."""
        return self._things.remember(table, rows)

    # Pods --------------------------------------------------------------------------------------------------------

    def pod(self, item: Object, at_us: int) -> str | None:
        """Takes a pod as it is now; returns its UID where it asks for GPUs, None for others."""
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid")
        drawn = self._drawn.drawn(item)
        known = self._pods.get(uid or "")
        if uid is None or (known is None and drawn is None and not asks_for_gpus(item)):
            return uid if known else None
        self._await(uid, drawn, item)
        rows, waiting = self._rows(item, drawn, known), list(pending(item, drawn))
        if known is None and not rows and not waiting:
            self._tell_unknown(drawn, item)
            return None
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
        known = self._pods.pop(uid, None)
        try:
            rows = self._rows(item, self._drawn.drawn(item), known)
            deleted = moment(metadata, "deletionTimestamp")
        except Malformed as error:
            self._refuse(f"Pod: {error}", item)
            rows, deleted = [], None
        self._await(uid, None, item)
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
                self._await(uid, None, {})
                self._close(uid, pod, at_us if alive_us is None else min(alive_us, at_us))

    # Claims and slices of dynamic resource allocation ------------------------------------------------------------

    def claim(self, item: Object, at_us: int) -> str | None:
        """Takes a ResourceClaim; pods that waited for it are looked at again. Returns its "namespace/name"."""
        key = self._drawn.take_claim(item)
        if key is None:
            return None
        self._again(key, at_us)
        return "/".join(key[1:])

    def claim_deleted(self, item: Object) -> None:
        """A claim is gone; the pods that held its devices say themselves when they end."""
        self._drawn.drop_claim(item)

    def claims_listed(self, names: Collection[str], namespace: str | None) -> None:
        """Claims of a namespace (None: of all) that a whole list does not have are gone."""
        self._drawn.keep_claims(names, namespace)

    def slice(self, item: Object, at_us: int) -> str | None:
        """Takes a ResourceSlice: its node has these devices, and pods that hold them are looked at again."""
        found = self._drawn.take_slice(item)
        if found is None:
            return None
        key, nodes = found
        self._inventory(nodes, at_us)
        self._again(key, at_us)
        return string(mapping(item, "metadata"), "name")

    def slice_deleted(self, name: str | None, at_us: int) -> None:
        """A slice is gone, and its devices unless another one has them."""
        self._inventory(self._drawn.drop_slice(name or ""), at_us)

    def slices_listed(self, names: Collection[str], at_us: int) -> None:
        """Slices that a whole list does not have are gone."""
        for name in [name for name in self._drawn.slices if name not in names]:
            self.slice_deleted(name, at_us)

    # Nodes -------------------------------------------------------------------------------------------------------

    def node(self, item: Object, at_us: int) -> str | None:
        """Takes a node as it is now; returns its name."""
        said = node_said(item, at_us)
        name: str = said.row["node"]
        if name in self._nodes or len(self._nodes) < MAX_NODES:
            self._nodes[name] = said
        self._node_news(name, said, at_us)
        return name

    def node_deleted(self, name: str | None, at_us: int) -> None:
        """A node that is gone is down from then on."""
        self._nodes.pop(name or "", None)
        told = self._told_nodes.forget(name)
        if told is not None:
            gone = {"state": "down", "reason": "deleted from the cluster", "since_us": at_us, "observed_us": at_us}
            self._add("node", told | gone)

    def nodes_listed(self, names: Collection[str], at_us: int) -> None:
        """Nodes that a whole list does not have are gone."""
        for name in [name for name in self._nodes if name not in names]:
            self.node_deleted(name, at_us)

    # Events and registered kinds ---------------------------------------------------------------------------------

    def event(self, item: Object) -> None:
        """Takes an event about a pod, node or other object that is known here."""
        row = event_row(item)
        if not self._concerns(row["object_kind"], row["namespace"], row["name"]):
            return
        said = row["count"], row["last_us"]
        if self._events.get(row["event_id"]) != said:
            self._events[row["event_id"]] = said
            self._events.move_to_end(row["event_id"])
            if len(self._events) > MAX_EVENTS:
                self._events.popitem(last=False)
            self._add("event", row)

    def thing(self, kind: Kind, item: Object, at_us: int) -> str | None:
        """Takes an object of a registered kind; returns its UID."""
        self._tell(self._things.take(kind, item, at_us))
        return identity(item)[0]

    def thing_deleted(self, kind: Kind, uid: str, at_us: int) -> None:
        """An object is gone: its workloads ended, its queues are no more."""
        self._tell(self._things.deleted(kind, uid, at_us, at_us))

    def things_listed(
        self, kind: Kind, uids: Collection[str], alive_us: int | None, at_us: int, namespace: str | None
    ) -> None:
        """Objects that a whole list does not have are gone, since they were last known to be there."""
        end_us = at_us if alive_us is None else min(alive_us, at_us)
        self._tell(self._things.listed(kind, uids, end_us, at_us, namespace))

    # What is handed over -----------------------------------------------------------------------------------------

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
        for row in self._requests.due(at_us):
            self._add("pending", row | {"evidence_us": at_us})
        self._tell(self._things.due(at_us))
        news, self._news, self.rows = self._news, {}, 0
        return news

    def refuse(self, error: Malformed, item: Object, kind: str) -> None:
        """Counts an object of the wrong shape."""
        self._refuse(f"{kind}: {error}", item)

    # -------------------------------------------------------------------------------------------------------------

    def _rows(self, item: Object, drawn: Drawn | None, known: _Pod | None) -> list[Columns]:
        """Claims of a pod; its devices as they were first known, where its DRA claims no longer tell them.

        A claim lets go of its devices when its pod has ended, and may be gone before the pod's last word.
        """
        silent = drawn is not None and (drawn.unknown is not None or not drawn.held)
        if silent and known is not None and known.claims and not gpu_resources(item):
            return list(spell(item, [held_of(row) for row in known.claims], known.claims[0]["kind"]))
        return list(claims(item, drawn))

    def _await(self, uid: str, drawn: Drawn | None, item: Object) -> None:
        """Keeps a pod while something that would say more of its claims may still come."""
        if drawn is None and uid not in self._waiting:
            return
        for key in self._waiting.pop(uid, ()):
            self._waits[key].pop(uid, None)
            if not self._waits[key]:
                del self._waits[key]
        if drawn is not None and drawn.waits and len(self._waiting) < MAX_PODS:
            self._waiting[uid] = list(dict.fromkeys(drawn.waits))
            for key in self._waiting[uid]:
                self._waits.setdefault(key, {})[uid] = item

    def _again(self, key: Key, at_us: int) -> None:
        for item in list(self._waits.get(key, {}).values()):
            try:
                self.pod(item, at_us)
            except Malformed as error:
                self.refuse(error, item, "Pod")

    def _tell_unknown(self, drawn: Drawn | None, item: Object) -> None:
        """A pod that runs on devices of which nothing is known; while it waits its claim may still come."""
        if drawn is not None and drawn.unknown is not None and string(mapping(item, "status"), "phase") != "Pending":
            self._refuse(DRA_UNKNOWN, item)

    def _inventory(self, node: str | None, at_us: int) -> None:
        said = self._nodes.get(node or "")
        if said is None and node and not self._expects_nodes:
            said = bare_node(node, at_us)
        if said is not None and node:
            self._node_news(node, said, at_us)

    def _node_news(self, name: str, said: NodeSaid, at_us: int) -> None:
        row = with_inventory(said, *self._drawn.inventory(name))
        if row is not None and self._told_nodes.update(name, row, at_us):
            self._add("node", row | {"observed_us": max(row["observed_us"] or 0, at_us)})

    def _concerns(self, kind: str | None, namespace: str | None, name: str | None) -> bool:
        if kind == "Pod":
            return (namespace, name) in self._names
        if kind == "Node":
            return name in self._told_nodes
        return self._things.knows(kind, namespace, name)

    def _hold(self, pod: _Pod, rows: list[Columns]) -> None:
        """Keeps profiles as first written: a node that is labelled anew must not make a second claim of a pod."""
        alike = len(pod.claims) == len(rows)
        for row in rows:
            if row["profile"] is None:
                kept = pod.claims[0].get("profile") if alike and len(rows) == 1 else None
                node = self._nodes.get(row["node"])
                row["profile"] = kept or (node.profile if node else None)
        if not alike or any(differs(old, new) for old, new in zip(pod.claims, rows, strict=True)):
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
        if not waiting and not pod.waiting:
            return
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
            if self._requests.update((job, row["profile"]), row, at_us):
                self._add("pending", row | {"evidence_us": at_us})
        profiles = {row["profile"] for row in rows}
        for profile in self._asked.pop(job, set()) - profiles:
            if told := self._requests.forget((job, profile)):
                self._add("pending", told | {"evidence_us": at_us, "reason": NO_LONGER_WAITS})
        if profiles:
            self._asked[job] = profiles

    def _tell(self, news: Iterable[News]) -> None:
        for table, row in news:
            self._add(table, row)

    def _add(self, table: str, row: Columns) -> None:
        self._news.setdefault(table, []).append(row)
        self.rows += 1

    def _refuse(self, reason: str, item: Object) -> None:
        metadata = item.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        text = f"{named.get('namespace')}/{named.get('name')}"
        # An object comes again with every change of it: it is counted once.
        if (reason, text) not in self._refused:
            if len(self._refused) < MAX_REFUSED:
                self._refused.add((reason, text))
            self.rejects.add(reason, "kubernetes", 0, text)
