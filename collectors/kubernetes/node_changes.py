"""Tracks nodes and the devices that their ResourceSlices offer, so that a node is written when it changes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpuwatch.collectors.kubernetes.allocations import Allocations
from gpuwatch.collectors.kubernetes.nodes import NodeState, node_without_object, parse_node, with_inventory
from gpuwatch.collectors.shared.changes import LastWritten
from gpuwatch.collectors.shared.json_fields import Object
from gpuwatch.collectors.shared.records import Columns

MAX_NODES = 100_000


class NodeChanges:
    """The nodes of a cluster as they are now and as they were last written."""

    def __init__(self, allocations: Allocations, expects_nodes: bool) -> None:
        """Without `expects_nodes` no Node object will come, and a node is known from its ResourceSlices alone."""
        self._allocations, self._expects_nodes = allocations, expects_nodes
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

    def _changed(self, name: str, node: NodeState, at_us: int) -> Iterator[Columns]:
        row = with_inventory(node, *self._allocations.inventory(name))
        if row is not None and self._written.update(name, row, at_us):
            yield row | {"observed_us": max(row["observed_us"] or 0, at_us)}
