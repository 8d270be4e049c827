"""Tracks nodes, the devices that their ResourceSlices offer and what their pods have, so that a node is written when it changes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from gpuwatch.collectors.kubernetes.allocations import Allocations
from gpuwatch.collectors.kubernetes.node_rule import ENDED, ROOM_COLUMNS, pod_room
from gpuwatch.collectors.kubernetes.nodes import NodeState, node_without_object, parse_node, with_inventory
from gpuwatch.collectors.kubernetes.pod_facts import TrackedPod
from gpuwatch.collectors.shared.changes import LastWritten
from gpuwatch.collectors.shared.json_fields import Object, mapping, string
from gpuwatch.collectors.shared.records import Columns
from gpuwatch.core.clock import MINUTE_US, SECOND_US

MAX_NODES = 100_000
MAX_PODS = 200_000
"""Pods of a cluster that are kept; Kubernetes itself supports 150,000."""
QUIET_US = 5 * MINUTE_US
"""A node is written again because of its pods at most this often."""
LOOK_US = 15 * SECOND_US
"""How often it is seen which nodes these are."""

Amounts = tuple[int | None, ...]
"""Of each of ROOM_COLUMNS; None: not known."""


class NodeChanges:
    """The nodes of a cluster as they are now and as they were last written."""

    def __init__(
        self, allocations: Allocations, expects_nodes: bool, used: Callable[[str, int], dict[str, Any]]
    ) -> None:
        """Without `expects_nodes` no Node object will come, and a node is known from its ResourceSlices alone. `used`: the columns of
        what the pods of a node have at an instant.
        """
        self._allocations, self._expects_nodes, self._used = allocations, expects_nodes, used
        self._nodes: dict[str, NodeState] = {}
        self._written = LastWritten(MAX_NODES)

    def __contains__(self, name: object) -> bool:
        return name in self._written

    def profile(self, name: str | None) -> str | None:
        """The MIG profile that `nvidia.com/gpu: 1` means on a node."""
        node = self._nodes.get(name or "")
        return node.profile if node else None

    def update(self, item: Object, at_us: int) -> tuple[str, list[Columns]]:
        """Takes a Node as it is now; returns its name and the rows to write. Raises Malformed."""
        node = parse_node(item, at_us)
        name: str = node.row["node"]
        if name in self._nodes or len(self._nodes) < MAX_NODES:
            self._nodes[name] = node
        return name, list(self._changed(name, node, at_us))

    def update_inventory(self, name: str | None, at_us: int) -> Iterator[Columns]:
        """The rows to write after the ResourceSlices of a node changed."""
        if not name:
            return
        node = self._nodes.get(name)
        if node is None and not self._expects_nodes:
            node = node_without_object(name, at_us)
        if node is not None:
            yield from self._changed(name, node, at_us)

    def delete(self, name: str | None, end_us: int, at_us: int) -> Iterator[Columns]:
        """A node that was deleted at `end_us` is down from then on."""
        self._nodes.pop(name or "", None)
        last = self._written.forget(name)
        if last is not None:
            gone = {"state": "down", "reason": "deleted from the cluster", "since_us": end_us, "observed_us": at_us}
            yield last | gone

    def keep(self, names: Collection[str], at_us: int) -> Iterator[Columns]:
        """Deletes the nodes that a complete list does not have."""
        for name in [name for name in self._nodes if name not in names]:
            yield from self.delete(name, at_us, at_us)

    @property
    def written(self) -> Collection[str]:
        """The nodes with GPUs that have an object."""
        return [name for name in self._nodes if name in self._written]

    def again(self, names: Collection[str], at_us: int) -> Iterator[Columns]:
        """The rows of nodes whose pods have other CPUs or memory than before."""
        for name in names:
            row = with_inventory(self._nodes[name], *self._allocations.inventory(name))
            if row is not None:
                yield self._row(name, row, at_us)

    def _changed(self, name: str, node: NodeState, at_us: int) -> Iterator[Columns]:
        row = with_inventory(node, *self._allocations.inventory(name))
        if row is not None and self._written.update(name, row, at_us):
            yield self._row(name, row, at_us)

    def _row(self, name: str, row: Columns, at_us: int) -> Columns:
        return row | {"observed_us": max(row["observed_us"] or 0, at_us)} | self._used(name, at_us)


class PodRoom:
    """The pods of a cluster by node. Nothing is known before a complete list of all namespaces, or where pods are too many."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[str, Amounts | None]] = {}
        """UID -> node and requests; no requests of a pod with GPUs: its claims have them."""
        self._on: dict[str, set[str]] = defaultdict(set)
        self._listed = self._overflowed = False
        self._changed: set[str] = set()
        self._written: dict[str, tuple[Amounts, int]] = {}
        """What was last written of the pods without GPUs, and when."""
        self._looked_us: int | None = None

    def take(self, item: Object, own: bool) -> None:
        """Takes a pod as it is now; `own`: its GPUs are recorded, and its requests with them. Raises Malformed."""
        uid, node = string(mapping(item, "metadata"), "uid"), string(mapping(item, "spec"), "nodeName")
        if uid is None:
            return
        if not node or string(mapping(item, "status"), "phase") in ENDED:
            self.drop(uid)
            return
        amounts = pod_room(item)
        known = node, None if own else tuple(amounts.get(column) for column in ROOM_COLUMNS)
        if self._pods.get(uid) == known:
            return
        self.drop(uid)
        if len(self._pods) >= MAX_PODS:
            self._overflowed = True
            return
        self._pods[uid] = known
        self._on[node].add(uid)
        self._changed.add(node)

    def drop(self, uid: str) -> None:
        """Forgets a pod that is gone or has ended."""
        node, _ = self._pods.pop(uid, (None, None))
        if node is not None:
            self._changed.add(node)
            self._on[node].discard(uid)
            if not self._on[node]:
                del self._on[node]

    def listed(self, uids: Collection[str]) -> None:
        """Forgets the pods that a complete list of all namespaces does not have. From now on the sums are known."""
        for uid in [uid for uid in self._pods if uid not in uids]:
            self.drop(uid)
        self._listed, self._overflowed = True, len(uids) > MAX_PODS

    def of(self, node: str, tracked: Mapping[str, TrackedPod], at_us: int) -> dict[str, Any]:
        """The columns of a node: what its pods have at an instant, those with GPUs by their open claims."""
        others = self._others(node)
        if others is None:
            return {}
        self._written[node] = others, at_us
        claims = [tracked[uid].claims[0] for uid in self._on.get(node, ()) if uid in tracked and tracked[uid].open]
        running = [row for row in claims if row["start_us"] is not None and row["start_us"] <= at_us]
        return {
            f"{column}_used": amount + sum(row.get(column) or 0 for row in running)
            for column, amount in zip(ROOM_COLUMNS, others, strict=True)
            if amount is not None
        }

    def due(self, nodes: Collection[str], at_us: int) -> list[str]:
        """Of these nodes those whose pods without GPUs have other requests than were last written, some minutes ago or never."""
        if not self._listed or (self._looked_us is not None and 0 <= at_us - self._looked_us < LOOK_US):
            return []
        self._looked_us = at_us
        self._changed.intersection_update(nodes)
        for gone in self._written.keys() - set(nodes):
            del self._written[gone]
        found = []
        for node in nodes:
            last, written_us = self._written.get(node, (None, at_us))
            if last is None or (node in self._changed and not 0 <= at_us - written_us < QUIET_US):
                self._changed.discard(node)
                if self._others(node) not in (last, None):
                    found.append(node)
        return found

    def _others(self, node: str) -> Amounts | None:
        """The requests of the pods without GPUs; None where these are not known."""
        if not self._listed or self._overflowed:
            return None
        known = (self._pods[uid][1] for uid in self._on.get(node, ()))
        pods = [amounts for amounts in known if amounts is not None]
        columns = [[amounts[n] for amounts in pods] for n in range(len(ROOM_COLUMNS))]
        return tuple(None if None in column else sum(one or 0 for one in column) for column in columns)
