"""Which nodes a pod may use by its nodeSelector, its required node affinity and its tolerations. Pure."""

from __future__ import annotations

from typing import Any

from gpuwatch.collectors.shared.json_fields import Object, mapping, mappings, string
from gpuwatch.collectors.shared.resource_lists import json_or_none, non_empty

TERMS_MAX, VALUES_MAX, TAINTS_MAX = 32, 64, 64
"""Terms, expressions or tolerations of a pod, values of an expression, and taints of a node that are kept."""
KEEPS_AWAY = ("NoSchedule", "NoExecute")
TEMPORARY = "node.kubernetes.io/"
"""Taints for a state of the node, which is recorded as such."""


def node_rule(pod: Object) -> str | None:
    """The rule as JSON {"terms": [[[key, operator, values]]], "tolerations": [[key, operator, value, effect]]}.

    A node fits if all expressions of any term do. None for a pod without such a rule. Raises Malformed.
    """
    spec = mapping(pod, "spec")
    selected = [[key, "In", [str(value)]] for key, value in sorted(mapping(spec, "nodeSelector").items())]
    required = mapping(
        mapping(mapping(spec, "affinity"), "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = [
        selected + [_expression(one) for one in mappings(term, "matchExpressions")[:TERMS_MAX]]
        for term in mappings(required, "nodeSelectorTerms")[:TERMS_MAX]
    ]
    tolerations = [
        [string(one, "key"), string(one, "operator") or "Equal", string(one, "value") or "", string(one, "effect")]
        for one in mappings(spec, "tolerations")[:TERMS_MAX]
        if not (string(one, "key") or "").startswith(TEMPORARY)
    ]
    return json_or_none(non_empty(terms=terms or ([selected] if selected else []), tolerations=tolerations))


def taints_of(node: Object) -> str | None:
    """The taints of a node that keep pods away, as JSON [[key, value, effect]]. Raises Malformed."""
    found = [
        [string(one, "key") or "", string(one, "value") or "", string(one, "effect")]
        for one in mappings(mapping(node, "spec"), "taints")
        if string(one, "effect") in KEEPS_AWAY and not (string(one, "key") or "").startswith(TEMPORARY)
    ]
    return json_or_none(found[:TAINTS_MAX])


def _expression(one: Object) -> list[Any]:
    values = one.get("values")
    listed = [str(value) for value in values[:VALUES_MAX]] if isinstance(values, list) else []
    return [string(one, "key"), string(one, "operator"), listed]
