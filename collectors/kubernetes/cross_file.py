"""What files that are imported together say of each other's objects: nodes, ResourceClaims and ResourceSlices."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache

from gpuwatch.collectors.kubernetes.dra import Allocations
from gpuwatch.collectors.kubernetes.nodes import NodeSaid, node_said
from gpuwatch.collectors.kubernetes.objects import objects, read_text
from gpuwatch.collectors.shared.json_fields import Malformed, Object
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects

MAX_NODES = 100_000
WORDS = ('"Node', "ResourceClaim", "ResourceSlice")
"""A file without any of these in it is not parsed for what it says of others."""

Stamp = tuple[str, int, int]


@dataclass
class Beside:
    """Nodes, claims and slices, in whatever order they come."""

    drawn: Allocations = field(default_factory=Allocations)
    nodes: dict[str, NodeSaid] = field(default_factory=dict)

    @property
    def dumped_us(self) -> int | None:
        """The newest word of a node: files that are imported together are one dump. None where no node tells a time."""
        times = (said.row.get("observed_us") for said in self.nodes.values())
        return max((at for at in times if at is not None), default=None)

    def take(self, item: Object, observed_us: int | None) -> bool:
        """Takes a Node, ResourceClaim or ResourceSlice; False for other objects. Raises Malformed."""
        kind, version = item.get("kind"), str(item.get("apiVersion") or "")
        if kind == "Node" and "/" not in version:
            said = node_said(item, observed_us)
            name = said.row["node"]
            if name not in self.nodes and len(self.nodes) >= MAX_NODES:
                raise Malformed(f"more than {MAX_NODES} nodes")
            self.nodes[name] = said
        elif kind == "ResourceSlice":
            self.drawn.take_slice(item)
        elif kind == "ResourceClaim":
            self.drawn.take_claim(item)
        else:
            return False
        return True


def beside(paths: tuple[str, ...], observed_us: int | None) -> Beside | None:
    """What the files of one import say together, None where it is one file only. Each is parsed once an import.

    What cannot be read is left out here: it is told when that file itself is read.
    """
    if len(paths) < 2:
        return None
    return _beside(tuple(_stamp(path) for path in paths), observed_us)


@lru_cache(maxsize=1)
def _beside(stamps: tuple[Stamp, ...], observed_us: int | None) -> Beside:
    found = Beside()
    for path, *_ in stamps:
        try:
            text = read_text(path)
            if not any(word in text for word in WORDS):
                continue
            for _, item in objects(text, path, Rejects()):
                _take(found, item, observed_us)
        except UnreadableInput:
            continue
    return found


def _take(found: Beside, item: Object, observed_us: int | None) -> None:
    try:
        found.take(item, observed_us)
    except Malformed:
        return


def _stamp(path: str) -> Stamp:
    """A file as it is now: another one of its name is read anew."""
    try:
        known = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, known.st_size, known.st_mtime_ns
