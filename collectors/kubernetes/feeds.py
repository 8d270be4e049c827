"""Feeds: one per kind of object, passing the objects of a watch to the change tracker."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.kubernetes.dra import GROUP as DRA_GROUP
from gpuwatch.collectors.kubernetes.dra import VERSIONS as DRA_VERSIONS
from gpuwatch.collectors.kubernetes.kinds import Kind
from gpuwatch.collectors.kubernetes.pod_facts import end_of_deleted
from gpuwatch.collectors.kubernetes.pods import require_complete
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, require_metadata, string
from gpuwatch.collectors.shared.other_accelerators import uncounted_requests


class Feed(Protocol):
    """Takes the objects of one kind."""

    kind: str
    group: str
    plural: str
    versions: tuple[str, ...]
    namespaced: bool

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an object as it is now; returns its tracking key. Raises Malformed."""

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Takes the last state of an object that was deleted between the two times. Raises Malformed."""

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends all other objects of a namespace (None: of all) after a complete list; they last existed at `alive_us`."""


class _Core:
    group = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced = True

    def __init__(self, changes: ClusterChanges) -> None:
        self._changes = changes


class Pods(_Core):
    """Pods, which hold or wait for GPUs."""

    kind, plural = "Pod", "pods"

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a pod; its key is the UID, also of one without GPUs: its node has to know which pods are still there."""
        require_complete(item)
        for reason in uncounted_requests({"kind": self.kind, **item}):
            self._changes.outbox.refuse(reason, item)
        self._changes.pod(item, at_us)
        return string(mapping(item, "metadata"), "uid")

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Ends a pod; its UID is enough."""
        require_metadata(item, "uid")
        self._changes.pod_deleted(item, alive_us, at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends the pods that are missing."""
        self._changes.pods_listed(known, alive_us, at_us, namespace)


class Nodes(_Core):
    """Nodes, which have the GPUs."""

    kind, plural, namespaced = "Node", "nodes", False

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a node; its key is the name."""
        return self._changes.node(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Marks a node as down."""
        name = string(mapping(item, "metadata"), "name")
        self._changes.node_deleted(name, end_of_deleted(item, alive_us, at_us), at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Marks the missing nodes as down."""
        self._changes.nodes_listed(known, at_us)


class Events(_Core):
    """Events; a deleted event still happened."""

    kind, plural = "Event", "events"

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an event; it has no key."""
        self._changes.event(item)
        return None

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Ignored."""

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ignored."""


class Claims(_Core):
    """ResourceClaims: which devices are allocated to which pods."""

    kind, plural, group, versions = "ResourceClaim", "resourceclaims", DRA_GROUP, DRA_VERSIONS

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a claim; its key is "namespace/name"."""
        return self._changes.claim(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Forgets a claim."""
        self._changes.claim_deleted(item)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Forgets the missing claims."""
        self._changes.claims_listed(known, namespace)


class Slices(_Core):
    """ResourceSlices: the devices by name."""

    kind, plural, group, versions, namespaced = "ResourceSlice", "resourceslices", DRA_GROUP, DRA_VERSIONS, False

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a slice; its key is the name."""
        return self._changes.slice(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Forgets a slice."""
        self._changes.slice_deleted(string(mapping(item, "metadata"), "name"), at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Forgets the missing slices."""
        self._changes.slices_listed(known, at_us)


class CustomObjectFeed:
    """Objects of a registered kind."""

    def __init__(self, changes: ClusterChanges, kind: Kind) -> None:
        self._changes, self._kind = changes, kind
        self.kind, self.group, self.plural = kind.kind, kind.group, kind.plural
        self.versions, self.namespaced = kind.versions, kind.namespaced

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an object; its key is the UID."""
        return self._changes.object(self._kind, item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Ends an object."""
        uid = string(mapping(item, "metadata"), "uid")
        end_us = end_of_deleted(item, alive_us, at_us)
        self._changes.object_deleted(self._kind, uid or tracking_key(item, self.kind) or "", end_us, at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends the missing objects."""
        self._changes.objects_listed(self._kind, known, alive_us, at_us, namespace)


def tracking_key(item: Any, kind: str) -> str | None:
    """The key by which an object is tracked, also for an object whose other fields cannot be read."""
    try:
        metadata = mapping(item, "metadata")
        uid, name = string(metadata, "uid"), string(metadata, "name")
        namespace = string(metadata, "namespace")
    except Malformed:
        return None
    if kind in ("Node", "ResourceSlice"):
        return name
    if kind == "ResourceClaim":
        return f"{namespace or 'default'}/{name}"
    return uid if uid or kind == "Pod" else f"{namespace}/{name}"


def collection_path(group: str, version: str, plural: str, namespace: str | None) -> str:
    """The API path of a collection."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
