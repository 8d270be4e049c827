"""Matches lines of a bill with nodes, by names that both sides know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Node = tuple[str, str]
"""(cluster, node)."""

_SCALE_SET = re.compile(r"(.*vmss)(?:_[0-9]+|[0-9a-z]{6})")
MIN_NAME = 2
"""Shortest name that may match two things."""


def names_of(text: str | None) -> set[str]:
    """The forms in which other sources may write a resource id or host name, in lower case.

    `arn:aws:ec2:us-east-1:1:instance/i-0abc`, `aws:///us-east-1a/i-0abc` and `i-0abc` have `i-0abc` in common; a node of
    an Azure scale set (`aks-gpu-1-vmss00000a`) has the scale set's name too, which is what Azure bills.
    """
    if not text:
        return set()
    lower = text.strip().lower()
    last = re.split(r"[/:]", lower.rstrip("/:"))[-1]
    found = {lower, last}
    if match := _SCALE_SET.fullmatch(last):
        found.add(match[1])
    return {name for name in found if len(name) >= MIN_NAME}


class Units:
    """Groups of nodes and resources joined by a name, directly or through others (a scale set's nodes)."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        self.ambiguous: set[str] = set()
        """Node names that exist in several clusters and joined a resource to all of them."""
        self._parent: dict[str, str] = {}
        self._named: dict[str, list[Node]] = {}
        for row in nodes:
            node = row["cluster"], row["node"]
            for name in names_of(row["word"]):
                self._named.setdefault(name, []).append(node)

    def join(self, resource: Mapping[str, Any]) -> bool:
        """Joins a resource of the bill with the nodes that share a name with it; returns whether there are any.

        Its id takes precedence over its name and tags, which machines of several clusters may share.
        """
        for words in ((resource["resource"],), (resource["resource_name"], resource["tagged"])):
            found = [node for word in words for name in names_of(word) for node in self._named.get(name, ())]
            for node in found:
                self._union(resource_key(resource), node_key(node))
            if len({cluster for cluster, _ in found}) > 1:
                self.ambiguous.update(node for _, node in found)
            if found:
                return True
        return False

    def of_resource(self, resource: Mapping[str, Any]) -> str:
        """The unit of a resource; without a matching node it has its own."""
        return self._root(resource_key(resource))

    def of_node(self, node: Node) -> str:
        """The unit of a node."""
        return self._root(node_key(node))

    def _union(self, one: str, other: str) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        self._parent[second] = first

    def _root(self, key: str) -> str:
        path = []
        while (parent := self._parent.get(key, key)) != key:
            path.append(key)
            key = parent
        for each in path:
            self._parent[each] = key
        return key


def node_key(node: Node) -> str:
    """A node as one word."""
    return f"node\x1f{node[0]}\x1f{node[1]}"


def resource_key(resource: Mapping[str, Any]) -> str:
    """A resource of a bill as one word."""
    return f"bill\x1f{resource['provider']}\x1f{resource['resource'] or resource['resource_name'] or ''}"
