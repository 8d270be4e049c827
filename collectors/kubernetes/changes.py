"""Turns the objects of a cluster into the rows that the store does not have yet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuwatch.collectors.kubernetes.allocations import Allocations, BlockedPods
from gpuwatch.collectors.kubernetes.custom_objects import CustomObjects, object_identity
from gpuwatch.collectors.kubernetes.dra import PodDevices, WaitKey
from gpuwatch.collectors.kubernetes.events import EventChanges, event_row
from gpuwatch.collectors.kubernetes.files import DRA_UNKNOWN
from gpuwatch.collectors.kubernetes.kinds import Kind
from gpuwatch.collectors.kubernetes.node_changes import NodeChanges, PodRoom
from gpuwatch.collectors.kubernetes.outbox import Outbox, Tables
from gpuwatch.collectors.kubernetes.pod_facts import PodEnds, TrackedPod
from gpuwatch.collectors.kubernetes.pods import (
    claim_rows,
    devices_of_row,
    gpu_resources,
    holds_devices,
    pending_rows,
    rows_of_devices,
)
from gpuwatch.collectors.kubernetes.request_changes import RequestChanges
from gpuwatch.collectors.shared.changes import HEARTBEAT_US, differs
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, moment, string
from gpuwatch.collectors.shared.records import Columns

MAX_PODS = 500_000


class ClusterChanges:
    """Takes objects as they come; `take` hands over the rows to write."""

    def __init__(self, nodes: bool = True) -> None:
        """`nodes`: whether Node objects will come too; otherwise only ResourceSlices describe the nodes."""
        self._pods: dict[str, TrackedPod] = {}
        self._names: dict[tuple[str | None, str | None], str] = {}
        self._requests = RequestChanges()
        self._events = EventChanges()
        self._ends = PodEnds()
        self._allocations = Allocations()
        self._room = PodRoom()
        self._nodes = NodeChanges(self._allocations, nodes, lambda name, at_us: self._room.of(name, self._pods, at_us))
        self._blocked = BlockedPods(MAX_PODS)
        self._objects = CustomObjects()
        self._heartbeat: tuple[str, int] = ("", 0)
        self.outbox = Outbox()

    def remember(self, open_claims: Iterable[Columns]) -> int | None:
        """Takes the claims that are open in the store; returns when (µs) their pods were last known alive.

        An end is written before any later heartbeat, so every open claim was alive at the newest evidence of any.
        """
        newest: int | None = None
        for row in open_claims:
            if row.get("pod_uid") and row.get("start_us") is not None:
                pod = self._pods.setdefault(row["pod_uid"], TrackedPod(row.get("namespace"), row.get("pod")))
                pod.claims.append(row)
                newest = max(newest or 0, row["start_us"], row.get("evidence_us") or 0)
        for pod in self._pods.values():
            pod.claims.sort(key=lambda row: row.get("profile") or "")
        return newest

    def remember_objects(self, table: str, rows: Iterable[Columns]) -> int | None:
        """Takes the open rows of `queue` or `workload` in the store; returns when (µs) the newest was observed."""
        return self._objects.remember(table, rows)

    # Pods

    def pod(self, item: Object, at_us: int) -> str | None:
        """Takes a pod as it is now; returns its UID if it asks for GPUs, otherwise None."""
        uid = self._pod(item, at_us)
        self._room.take(item, uid in self._pods and bool(self._pods[uid].claims))
        return uid

    def _pod(self, item: Object, at_us: int) -> str | None:
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid")
        devices = self._allocations.devices_of(item)
        known = self._pods.get(uid or "")
        if uid is None or (known is None and devices is None and not holds_devices(item)):
            return uid if known else None
        self._blocked.update(uid, item, devices.waits_for if devices else ())
        rows, waiting = self._claims(item, devices, known), list(pending_rows(item, devices))
        if known is None and not rows and not waiting:
            self._refuse_unknown_devices(devices, item)
            return None
        if known is None:
            if len(self._pods) >= MAX_PODS:
                self.outbox.refuse(f"more than {MAX_PODS} pods with GPUs", item)
                return None
            known = self._pods[uid] = TrackedPod(string(metadata, "namespace") or "default", string(metadata, "name"))
        self._names[known.namespace, known.name] = uid
        known.deletion_us = moment(metadata, "deletionTimestamp")
        known.had_grace |= bool(integer(metadata, "deletionGracePeriodSeconds"))
        self._set_waiting(uid, known, waiting)
        if rows:
            self._set_claims(known, rows)
        return uid

    def pod_deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Takes a pod's last state: it was deleted after `alive_us`, when it was last known to exist, and by `at_us`."""
        metadata = mapping(item, "metadata")
        uid = string(metadata, "uid") or ""
        known = self._pods.pop(uid, None)
        self._room.drop(uid)
        try:
            rows = self._claims(item, self._allocations.devices_of(item), known)
            deleted = moment(metadata, "deletionTimestamp")
        except Malformed as error:
            self.outbox.refuse(f"Pod: {error}", item)
            rows, deleted = [], known.deletion_us if known else None
        self._blocked.update(uid, item)
        if known is None and not rows:
            return
        pod = known or TrackedPod(string(metadata, "namespace"), string(metadata, "name"))
        if rows:
            self._set_claims(pod, rows)
        if deleted is not None and not pod.had_grace and integer(metadata, "deletionGracePeriodSeconds") == 0:
            alive_us = min(alive_us, deleted)  # it went at once, whenever the connection brought this
        pod.deletion_us = deleted
        self._close(uid, pod, alive_us, at_us)  # as last written, if no container reports its end

    def pods_listed(self, uids: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends the pods that a complete list of a namespace (None: of all) does not have.

        Their deletion was missed: each ends when it was deleted or stopped, as far as that is known, or when it was last
        known alive, or at the list.
        """
        if namespace is None:
            self._room.listed(uids)
        for uid in [uid for uid in self._pods if uid not in uids]:
            pod = self._pods[uid]
            if namespace is None or pod.namespace == namespace:
                del self._pods[uid]
                self._blocked.update(uid, {})
                self._close(uid, pod, at_us if alive_us is None else min(alive_us, at_us), at_us)

    # Claims and slices of dynamic resource allocation

    def claim(self, item: Object, at_us: int) -> str | None:
        """Takes a ResourceClaim and re-evaluates the pods that waited for it. Returns its "namespace/name"."""
        key = self._allocations.take_claim(item)
        if key is None:
            return None
        self._unblock(key, at_us)
        return "/".join(key[1:])

    def claim_deleted(self, item: Object) -> None:
        """Forgets a claim; the pods that held its devices report their own end."""
        self._allocations.drop_claim(item)

    def claims_listed(self, names: Collection[str], namespace: str | None) -> None:
        """Forgets the claims of a namespace (None: of all) that a complete list does not have."""
        self._allocations.keep_claims(names, namespace)

    def slice(self, item: Object, at_us: int) -> str | None:
        """Takes a ResourceSlice: its node has these devices, and pods that hold them are re-evaluated."""
        found = self._allocations.take_slice(item)
        if found is None:
            return None
        key, node = found
        self.outbox.add("node", *self._nodes.update_inventory(node, at_us))
        self._unblock(key, at_us)
        return string(mapping(item, "metadata"), "name")

    def slice_deleted(self, name: str | None, at_us: int) -> None:
        """Forgets a slice, and its devices unless another slice has them."""
        self.outbox.add("node", *self._nodes.update_inventory(self._allocations.drop_slice(name or ""), at_us))

    def slices_listed(self, names: Collection[str], at_us: int) -> None:
        """Forgets the slices that a complete list does not have."""
        for name in [name for name in self._allocations.slices if name not in names]:
            self.slice_deleted(name, at_us)

    # Nodes

    def node(self, item: Object, at_us: int) -> str | None:
        """Takes a node as it is now; returns its name."""
        name, rows = self._nodes.update(item, at_us)
        self.outbox.add("node", *rows)
        return name

    def node_deleted(self, name: str | None, end_us: int, at_us: int) -> None:
        """A node that was deleted at `end_us` is down from then on."""
        self.outbox.add("node", *self._nodes.delete(name, end_us, at_us))

    def nodes_listed(self, names: Collection[str], at_us: int) -> None:
        """Deletes the nodes that a complete list does not have."""
        self.outbox.add("node", *self._nodes.keep(names, at_us))

    # Events and registered kinds

    def event(self, item: Object) -> None:
        """Takes an event about a pod, node or other object that is known here."""
        row = event_row(item)
        self.outbox.add("claim", *self._ends.take_event(item, row, self._pods))
        if self._is_tracked(row["object_kind"], row["namespace"], row["name"]) and self._events.update(row):
            self.outbox.add("event", row)

    def object(self, kind: Kind, item: Object, at_us: int) -> str | None:
        """Takes an object of a registered kind; returns its UID."""
        self.outbox.add_rows(self._objects.take(kind, item, at_us))
        return object_identity(item)[0]

    def object_deleted(self, kind: Kind, uid: str, end_us: int, at_us: int) -> None:
        """Ends the workloads of an object that was deleted at `end_us`, and marks its queues as deleted."""
        self.outbox.add_rows(self._objects.deleted(kind, uid, end_us, at_us))

    def objects_listed(
        self, kind: Kind, uids: Collection[str], alive_us: int | None, at_us: int, namespace: str | None
    ) -> None:
        """Deletes the objects that a complete list does not have, as of when they were last known to exist."""
        end_us = at_us if alive_us is None else min(alive_us, at_us)
        self.outbox.add_rows(self._objects.listed(kind, uids, end_us, at_us, namespace))

    # What is handed over

    def heartbeat(self, alive_us: int) -> None:
        """Records once a minute that pods were alive at `alive_us`, on one claim that stands for all.

        The same claim is used while its pod runs, then that of another pod.
        """
        uid, written_us = self._heartbeat
        pod = self._pods.get(uid)
        if pod is not None and pod.open and alive_us - written_us < HEARTBEAT_US:
            return
        carrier = uid if pod is not None and pod.open else next((u for u, p in self._pods.items() if p.open), None)
        if carrier is not None:
            row = self._pods[carrier].claims[0]
            self._heartbeat = carrier, alive_us
            self.outbox.add("claim", row | {"evidence_us": max(row["evidence_us"] or 0, alive_us)})

    def take(self, at_us: int) -> Tables:
        """The rows to write since the last call, by store table."""
        self.outbox.add("pending", *self._requests.take(self._waiting_rows, at_us))
        self.outbox.add_rows(self._objects.due(at_us))
        self.outbox.add("node", *self._nodes.again(self._room.due(self._nodes.written, at_us), at_us))
        return self.outbox.take()

    def _claims(self, item: Object, devices: PodDevices | None, known: TrackedPod | None) -> list[Columns]:
        """Claim rows of a pod, with the devices first known once its ResourceClaims no longer name them.

        A ResourceClaim releases its devices when its pod has ended, and may be deleted before the pod's last update.
        """
        released = devices is not None and (devices.unknown is not None or not devices.held)
        if released and known is not None and known.claims and not gpu_resources(item):
            return list(rows_of_devices(item, [devices_of_row(row) for row in known.claims], known.claims[0]["kind"]))
        return list(claim_rows(item, devices))

    def _unblock(self, key: WaitKey, at_us: int) -> None:
        for item in self._blocked.waiting_for(key):
            try:
                self.pod(item, at_us)
            except Malformed as error:
                self.outbox.refuse(f"Pod: {error}", item)

    def _refuse_unknown_devices(self, devices: PodDevices | None, item: Object) -> None:
        """Refuses a pod that runs on unknown devices; while it is pending, its claim may still come."""
        unknown = devices is not None and devices.unknown is not None
        if unknown and string(mapping(item, "status"), "phase") != "Pending":
            self.outbox.refuse(DRA_UNKNOWN, item)

    def _is_tracked(self, kind: str | None, namespace: str | None, name: str | None) -> bool:
        if kind == "Pod":
            return (namespace, name) in self._names
        if kind == "Node":
            return name in self._nodes
        return self._objects.knows(kind, namespace, name)

    def _set_claims(self, pod: TrackedPod, rows: list[Columns]) -> None:
        """Keeps profile, job and run as first written: a new label of node or pod must not create a second claim for it."""
        alike = len(pod.claims) == len(rows)
        for row in rows:
            if pod.claims:
                row |= {name: pod.claims[0].get(name) or row[name] for name in ("job_id", "run_key")}
            if row["profile"] is None:
                kept = pod.claims[0].get("profile") if alike and len(rows) == 1 else None
                row["profile"] = kept or self._nodes.profile(row["node"])
        if not alike or any(differs(old, new) for old, new in zip(pod.claims, rows, strict=True)):
            for row in rows:
                self.outbox.add("claim", row)
        pod.claims = rows

    def _close(self, uid: str, pod: TrackedPod, alive_us: int, at_us: int) -> None:
        self._set_waiting(uid, pod, [])
        if self._names.get((pod.namespace, pod.name)) == uid:
            del self._names[pod.namespace, pod.name]
        self.outbox.add("claim", *self._ends.close(uid, pod, alive_us, at_us))

    def _set_waiting(self, uid: str, pod: TrackedPod, waiting: list[Columns]) -> None:
        self._requests.update_pod(uid, pod.waiting, waiting)
        pod.waiting = waiting

    def _waiting_rows(self, uid: str) -> list[Columns]:
        pod = self._pods.get(uid)
        return pod.waiting if pod else []
