"""Topologies of Kubernetes schedulers: Kueue's Topology, Volcano's HyperNode. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.kubernetes.kinds import object_kind
from gpuwatch.collectors.shared.json_fields import Malformed, Object, integer, mapping, mappings, string
from gpuwatch.collectors.shared.records import Columns

MAX_LEVELS = 64
MAX_MEMBERS = 100_000
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@object_kind("Topology", "kueue.x-k8s.io", "topologies", ("v1beta2", "v1beta1", "v1alpha1"), namespaced=False)
def topology_rows(item: Object, observed_us: int | None) -> Iterator[tuple[str, Columns]]:
    """One `link` row per level: `a` is the Topology, `b` the node label, `level` LEVEL.

    `detail` is JSON {"order": 0 is outermost, "levels": all labels in order}. Every row has the complete list, so
    a change of one level changes all rows.
    """
    name = _name(item)
    labels = [string(level, "nodeLabel") for level in mappings(mapping(item, "spec"), "levels")]
    if not labels or len(labels) > MAX_LEVELS or None in labels:
        raise Malformed(f"Topology {name} has no levels, more than {MAX_LEVELS}, or one without nodeLabel")
    for order, label in enumerate(labels):
        yield "link", _row(name, label, "LEVEL", {"order": order, "levels": labels}, observed_us)


@object_kind("HyperNode", "topology.volcano.sh", "hypernodes", ("v1alpha1",), namespaced=False)
def hypernode_rows(item: Object, observed_us: int | None) -> Iterator[tuple[str, Columns]]:
    """One `link` row: `a` is the HyperNode, `level` HYPERNODE, `detail` JSON with tier, tier_name and members.

    A member has a "type" (Node or HyperNode) and one selector: "name", "regex" (RE2, matched anywhere in the name),
    or "expressions", which must all match a node's labels. They are resolved later, when the nodes are known.
    """
    name, spec = _name(item), mapping(item, "spec")
    tier = integer(spec, "tier")
    if tier is None:
        raise Malformed(f"HyperNode {name} has no tier")
    members = mappings(spec, "members")
    if len(members) > MAX_MEMBERS:
        raise Malformed(f"HyperNode {name} has more than {MAX_MEMBERS} members")
    detail = {"tier": tier, "tier_name": string(spec, "tierName"), "members": [_member(one) for one in members]}
    yield "link", _row(name, None, "HYPERNODE", detail, observed_us)


def _member(member: Object) -> dict[str, Any]:
    kind = string(member, "type") or "Node"
    if kind not in ("Node", "HyperNode"):
        raise Malformed(f"member of type {kind}")
    selector = mapping(member, "selector")
    exact, pattern, labels = (mapping(selector, key) for key in ("exactMatch", "regexMatch", "labelMatch"))
    # Older versions have plain names instead of selectors.
    if name := string(exact, "name") or string(member, "name"):
        return {"type": kind, "name": name}
    if regex := string(pattern, "pattern"):
        return {"type": kind, "regex": regex}
    if expressions := _expressions(labels):
        return {"type": kind, "expressions": expressions}
    raise Malformed("member without a selector")


def _expressions(selector: Object) -> list[dict[str, Any]]:
    """matchLabels and matchExpressions as one list."""
    found = [
        {"key": str(key), "operator": "In", "values": [str(value)]}
        for key, value in sorted(mapping(selector, "matchLabels").items())
    ]
    for one in mappings(selector, "matchExpressions"):
        key, operator, values = string(one, "key"), string(one, "operator"), one.get("values") or []
        if key is None or operator not in OPERATORS or not isinstance(values, list):
            raise Malformed("matchExpressions with an expression that is none")
        found.append({"key": key, "operator": operator, "values": [str(value) for value in values]})
    return found


def _name(item: Object) -> str:
    name = string(mapping(item, "metadata"), "name")
    if not name:
        raise Malformed("metadata has no name")
    return name


def _row(a: str, b: str | None, level: str, detail: dict[str, Any], observed_us: int | None) -> Columns:
    text = json.dumps(detail, sort_keys=True, separators=(",", ":"))
    return {"observed_us": observed_us, "node": None, "a": a, "b": b, "level": level, "detail": text}
