"""What is done with the objects of a watch, one feed a kind of object: each turns them over to the book."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from gpuwatch.collectors.kubernetes.changes import Book
from gpuwatch.collectors.kubernetes.dra import GROUP as DRA_GROUP
from gpuwatch.collectors.kubernetes.dra import VERSIONS as DRA_VERSIONS
from gpuwatch.collectors.kubernetes.kinds import Kind
from gpuwatch.collectors.kubernetes.pods import whole
from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, require_metadata, string


class Feed(Protocol):
    """Takes the objects of one kind."""

    kind: str
    group: str
    plural: str
    versions: tuple[str, ...]
    namespaced: bool

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an object as it is now; returns what it is known by. Raises Malformed."""

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Takes the last state of an object that went between the two times. Raises Malformed."""

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """A whole list of a namespace (None: of all) had only these; the others were last known to be at `alive_us`."""


class _Core:
    group = ""
    versions: tuple[str, ...] = ("v1",)
    namespaced = True

    def __init__(self, book: Book) -> None:
        self._book = book


class Pods(_Core):
    """Who holds and who waits for GPUs."""

    kind, plural = "Pod", "pods"

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a pod; known by its UID."""
        whole(item)
        return self._book.pod(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Ends a pod, also one of which no more is told than which it was."""
        require_metadata(item, "uid")
        self._book.pod_deleted(item, alive_us, at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Ends pods that went unseen."""
        self._book.listed(known, alive_us, at_us, namespace)


class Nodes(_Core):
    """What GPUs there are."""

    kind, plural, namespaced = "Node", "nodes", False

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a node; known by its name."""
        return self._book.node(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """A node is gone."""
        self._book.node_deleted(string(mapping(item, "metadata"), "name"), at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Nodes are gone."""
        self._book.nodes_listed(known, at_us)


class Events(_Core):
    """What happened; an event that is deleted has happened all the same."""

    kind, plural = "Event", "events"

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an event; known by nothing."""
        self._book.event(item)
        return None

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """Does nothing."""

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Does nothing."""


class Claims(_Core):
    """Which devices were given to which pods."""

    kind, plural, group, versions = "ResourceClaim", "resourceclaims", DRA_GROUP, DRA_VERSIONS

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a claim; known by namespace and name."""
        return self._book.claim(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """A claim is gone."""
        self._book.claim_deleted(item)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Claims are gone."""
        self._book.claims_listed(known, namespace)


class Slices(_Core):
    """Which devices there are by name."""

    kind, plural, group, versions, namespaced = "ResourceSlice", "resourceslices", DRA_GROUP, DRA_VERSIONS, False

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes a slice; known by its name."""
        return self._book.slice(item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """A slice is gone."""
        self._book.slice_deleted(string(mapping(item, "metadata"), "name"), at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Slices are gone."""
        self._book.slices_listed(known, at_us)


class Objects:
    """Objects of a registered kind."""

    def __init__(self, book: Book, kind: Kind) -> None:
        self._book, self._kind = book, kind
        self.kind, self.group, self.plural = kind.kind, kind.group, kind.plural
        self.versions, self.namespaced = kind.versions, kind.namespaced

    def take(self, item: Object, at_us: int) -> str | None:
        """Takes an object; known by its UID."""
        return self._book.thing(self._kind, item, at_us)

    def deleted(self, item: Object, alive_us: int, at_us: int) -> None:
        """An object is gone."""
        uid = string(mapping(item, "metadata"), "uid")
        self._book.thing_deleted(self._kind, uid or known_by(item, self.kind) or "", at_us)

    def listed(self, known: Collection[str], alive_us: int | None, at_us: int, namespace: str | None) -> None:
        """Objects are gone."""
        self._book.things_listed(self._kind, known, alive_us, at_us, namespace)


def known_by(item: Any, kind: str) -> str | None:
    """What the book knows an object by, also where the rest of it cannot be read: it is there."""
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


def path_of(group: str, version: str, plural: str, namespace: str | None) -> str:
    """Where an API server keeps a collection."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
