"""Which nodes a pod may use by its nodeSelector, its required node affinity, its tolerations, and the CPUs and memory that it needs. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, mappings, string
from gpuwatch.collectors.shared.resource_lists import json_or_none, non_empty, quantity

TERMS_MAX, VALUES_MAX, TAINTS_MAX = 32, 64, 64
"""Terms, expressions or tolerations of a pod, values of an expression, and taints of a node that are kept."""
KEEPS_AWAY = ("NoSchedule", "NoExecute")
TEMPORARY = "node.kubernetes.io/"
"""Taints for a state of the node, which is recorded as such."""
MOST = 1 << 60
"""A larger amount is an error in the object."""
_COLUMNS = {"cpu": ("cpu_milli", 1000), "memory": ("memory_bytes", 1)}
ROOM_COLUMNS = tuple(column for column, _ in _COLUMNS.values())
ENDED = ("Succeeded", "Failed")

Amounts = dict[str, Fraction]


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


def pod_room(pod: Object) -> dict[str, int]:
    """The columns of CPUs and memory that a pod is given, as the scheduler counts them: what it asks for, 0 where it asks for none.

    Containers and sidecars run together; another init container runs alone with the sidecars started before it. Columns with an
    amount that cannot be read are left out.
    """
    spec = mapping(pod, "spec")
    found = {}
    for name, (column, unit) in _COLUMNS.items():
        try:
            amount = _asked(spec, name) + _amount(mapping(spec, "overhead"), name)
        except Malformed:
            continue
        if amount <= MOST:
            found[column] = -int(-amount * unit // 1)
    return found


def place_columns(pod: Object) -> dict[str, Any]:
    """The columns of a pod about which nodes it may use: CPUs, memory, and its rule where it has one. Raises Malformed."""
    return {**pod_room(pod), **non_empty(node_rule=node_rule(pod))}


def add_room(total: dict[str, Any], row: dict[str, Any]) -> None:
    """Adds the CPUs and memory of a pod to those of a job; those of one pod that are not known make the sum unknown."""
    for column, _ in _COLUMNS.values():
        own, more = total.get(column), row.get(column)
        total[column] = None if own is None or more is None else own + more


def node_room(node: Object) -> dict[str, int]:
    """The columns of CPUs and memory that a node has for pods, those that are known."""
    offered = mapping(mapping(node, "status"), "allocatable")
    found = {}
    for name, (column, unit) in _COLUMNS.items():
        if name in offered:
            try:
                amount = _amount(offered, name)
            except Malformed:
                continue
            if amount <= MOST:
                found[column] = int(amount * unit)
    return found


class Used:
    """What all pods of a complete list are given on each node, also those without GPUs."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, int]] = {}

    def take(self, pod: Object) -> None:
        """Takes a pod."""
        node = string(mapping(pod, "spec"), "nodeName")
        if node is not None and string(mapping(pod, "status"), "phase") not in ENDED:
            used = self._nodes.setdefault(node, {})
            for column, value in pod_room(pod).items():
                used[column] = used.get(column, 0) + value

    def of(self, node: str) -> dict[str, Any]:
        """The columns of a node."""
        return {f"{column}_used": self._nodes.get(node, {}).get(column, 0) for column, _ in _COLUMNS.values()}


def _asked(spec: Object, name: str) -> Fraction:
    together = peak = Fraction(0)
    for container in mappings(spec, "initContainers"):
        asked = _of_container(container, name)
        if container.get("restartPolicy") == "Always":
            together += asked
        else:
            peak = max(peak, together + asked)
    together += sum((_of_container(one, name) for one in mappings(spec, "containers")), Fraction(0))
    return max(peak, together)


def _of_container(container: Object, name: str) -> Fraction:
    """A limit without a request is one."""
    resources = mapping(container, "resources")
    requests = mapping(resources, "requests")
    return _amount(requests if name in requests else mapping(resources, "limits"), name)


def _amount(resources: Object, name: str) -> Fraction:
    return quantity(resources[name], name) if resources.get(name) is not None else Fraction(0)
