"""Nodes, ResourceClaims and ResourceSlices from the other files of an import, which complete the objects of one file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache

from gpuwatch.collectors.kubernetes.allocations import Allocations
from gpuwatch.collectors.kubernetes.nodes import NodeState, parse_node
from gpuwatch.collectors.kubernetes.objects import iter_objects, read_json_text
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_NODES = 100_000
WORDS = ('"Node', "ResourceClaim", "ResourceSlice")
"""A file without any of these words needs no parsing here."""

Stamp = tuple[str, int, int]


@dataclass
class RelatedObjects:
    """Nodes, claims and slices, in any order."""

    allocations: Allocations = field(default_factory=Allocations)
    nodes: dict[str, NodeState] = field(default_factory=dict)

    @property
    def dumped_us(self) -> int | None:
        """The newest time of any node, taken as that of the dump: files imported together are one dump."""
        times = (node.row.get("observed_us") for node in self.nodes.values())
        return max((at for at in times if at is not None), default=None)

    def take(self, item: Object, observed_us: int | None) -> bool:
        """Takes a Node, ResourceClaim or ResourceSlice; False for other objects. Raises Malformed."""
        kind, version = item.get("kind"), str(item.get("apiVersion") or "")
        if kind == "Node" and "/" not in version:
            node = parse_node(item, observed_us)
            name = node.row["node"]
            if name not in self.nodes and len(self.nodes) >= MAX_NODES:
                raise Malformed(f"more than {MAX_NODES} nodes")
            self.nodes[name] = node
        elif kind == "ResourceSlice":
            self.allocations.take_slice(item)
        elif kind == "ResourceClaim":
            self.allocations.take_claim(item)
        else:
            return False
        return True


def related_objects(paths: tuple[str, ...], observed_us: int | None) -> RelatedObjects | None:
    """The objects of all files of an import, None for a single file. Each file is parsed once per import.

    Unreadable files and objects are skipped here; they are reported when that file itself is imported.
    """
    if len(paths) < 2:
        return None
    return _objects_of(tuple(_stamp(path) for path in paths), observed_us)


@lru_cache(maxsize=1)
def _objects_of(stamps: tuple[Stamp, ...], observed_us: int | None) -> RelatedObjects:
    found = RelatedObjects()
    for path, *_ in stamps:
        try:
            text = read_json_text(path)
            if not any(word in text for word in WORDS):
                continue
            for _, item in iter_objects(text, path, Rejects()):
                _take(found, item, observed_us)
        except UnreadableInput:
            continue
    return found


def _take(found: RelatedObjects, item: Object, observed_us: int | None) -> None:
    try:
        found.take(item, observed_us)
    except Malformed:
        return


def _stamp(path: str) -> Stamp:
    """Identifies the content of a file: a replaced file is parsed again."""
    try:
        known = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, known.st_size, known.st_mtime_ns
