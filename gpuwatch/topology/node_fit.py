"""Which nodes the pods of a waiting request may use, by labels and taints. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HOST = "kubernetes.io/hostname"
"""Kept among a node's labels only where it is not the node's name."""


@dataclass(frozen=True)
class Place:
    """A node, or a GPU without one."""

    name: str
    pool: str | None
    models: frozenset[str]
    labels: Mapping[str, str] | None
    """None: no record of Kubernetes describes it."""
    taints: tuple[tuple[str, str, str], ...]
    elsewhere: bool = False
    """Only other schedulers have a record of it, though Kubernetes' nodes are known: no pod can be placed there."""
    partitions: frozenset[str] = frozenset()
    """Of Slurm, all of them; empty where no record names them."""
    features: frozenset[str] = frozenset()
    """Of Slurm, those that it has or can be started with."""


def place_of(row: Mapping[str, Any]) -> Place:
    """A row of topology/placement/node_fit."""
    labels = {HOST: row["place"]} | json_object(row["labels"]) if row["recorded"] else None
    taints = tuple((str(key), str(value), str(effect)) for key, value, effect in json.loads(row["taints"] or "[]"))
    slurm = json_object(row["slurm_labels"])
    partitions, features, other = (_words(slurm.get(key)) for key in ("partitions", "features", "available_features"))
    models = frozenset[str](row["models"] or ())
    return Place(row["place"], row["pool"], models, labels, taints, row["elsewhere"], partitions, features | other)


def json_object(text: str | None) -> dict[str, Any]:
    """The object in a JSON column; empty where it is none."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _words(text: Any) -> frozenset[str]:
    return frozenset(str(text or "").split(",")) - {""}


def fitting_places(rule: str | None, places: Iterable[Place]) -> list[Place]:
    """Places that pods with such a rule (see collectors/kubernetes/node_rule.py) may use.

    A label that no place has is not recorded and does not count. A place without a record is not excluded.
    """
    found = list(places)
    known = json_object(rule)
    terms, tolerations = known.get("terms") or [], known.get("tolerations") or []
    keys = {key for place in found for key in place.labels or ()}
    return [
        place
        for place in found
        if not place.elsewhere
        and (
            place.labels is None
            or (
                (not terms or any(_term_fits(term, place.labels, keys) for term in terms))
                and all(_tolerated(taint, tolerations) for taint in place.taints)
            )
        )
    ]


def _term_fits(term: Iterable[Any], labels: Mapping[str, str], keys: Collection[str]) -> bool:
    return all(_fits(operator, values, labels.get(key)) for key, operator, values in term if key in keys)


def _fits(operator: str, values: list[str], label: str | None) -> bool:
    if operator == "In":
        return label in values
    if operator == "NotIn":
        return label not in values
    if operator == "Exists":
        return label is not None
    if operator == "DoesNotExist":
        return label is None
    if operator not in ("Gt", "Lt"):
        return True
    try:
        number, least = int(label or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > least if operator == "Gt" else number < least


def _tolerated(taint: tuple[str, str, str], tolerations: Iterable[Any]) -> bool:
    key, value, effect = taint
    return any(
        (name in (None, "", key) if operator == "Exists" else name == key and text == value)
        and kind in (None, "", effect)
        for name, operator, text, kind in tolerations
    )
