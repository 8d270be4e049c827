"""Pod placements of Kueue's topology-aware scheduling: both forms of `topologyAssignment`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, mappings

HOSTNAME = "kubernetes.io/hostname"
MAX_DOMAINS = 20_000
"""Domains of one workload; the compressed form can expand to far more than its size."""
MAX_LEVELS = 16

Placement = dict[str, Any]


def placements(assignment: Object, pod_set: str | None = None) -> list[Placement]:
    """`{"node" | "domain", "count", "levels"}` per domain, in the given order; `levels` are pairs (node label, value).

    A domain whose lowest level is the host name is a node. Raises Malformed if the parts do not match, or for more
    than MAX_DOMAINS domains.
    """
    levels = assignment.get("levels")
    if levels is None:
        levels = []
    if not isinstance(levels, list) or len(levels) > MAX_LEVELS or not all(isinstance(v, str) for v in levels):
        raise Malformed("topologyAssignment.levels is not a list of node labels")
    found: list[Placement] = []
    for values, count in _domains(assignment, len(levels)):
        if len(found) >= MAX_DOMAINS:
            raise Malformed(f"topologyAssignment names more than {MAX_DOMAINS} domains")
        lowest = "node" if levels and levels[-1] == HOSTNAME else "domain"
        placement = {lowest: values[-1], "count": count, "levels": list(map(list, zip(levels, values, strict=True)))}
        found.append(placement | ({"pod_set": pod_set} if pod_set else {}))
    return found


def _domains(assignment: Object, depth: int) -> Iterator[tuple[list[str], int]]:
    """(value of each level, pods) per domain: v1beta1 lists domains, v1beta2 has compressed slices of them."""
    for domain in mappings(assignment, "domains"):
        values = domain.get("values")
        if not isinstance(values, list) or len(values) != depth or not depth:
            raise Malformed("topologyAssignment.domains: expected one value per level")
        yield [_text(value) for value in values], _count(domain.get("count"))
    for part in mappings(assignment, "slices"):
        size = _count(part.get("domainCount"))
        if size > MAX_DOMAINS:
            raise Malformed(f"topologyAssignment names more than {MAX_DOMAINS} domains")
        levels = mappings(part, "valuesPerLevel")
        if len(levels) != depth or not depth:
            raise Malformed("topologyAssignment.slices: expected one entry of valuesPerLevel per level")
        columns = [_values(level, size) for level in levels]
        counts = _counts(mapping(part, "podCounts"), size)
        for place in range(size):
            yield [column[place] for column in columns], counts[place]


def _values(level: Object, size: int) -> list[str]:
    """The value of a level in each domain of a slice: one for all, or prefix + root + suffix."""
    if level.get("universal") is not None:
        return [_text(level["universal"])] * size
    individual = mapping(level, "individual")
    roots = individual.get("roots")
    if not isinstance(roots, list) or len(roots) != size:
        raise Malformed("topologyAssignment.slices: expected one root per domain")
    prefix, suffix = (_text(individual.get(key) or "") for key in ("prefix", "suffix"))
    return [f"{prefix}{_text(root)}{suffix}" for root in roots]


def _counts(pod_counts: Object, size: int) -> list[int]:
    if pod_counts.get("universal") is not None:
        return [_count(pod_counts["universal"])] * size
    counts = pod_counts.get("individual")
    if not isinstance(counts, list) or len(counts) != size:
        raise Malformed("topologyAssignment.slices: expected one of podCounts per domain")
    return [_count(count) for count in counts]


def _text(value: object) -> str:
    """YAML turns names that look like numbers into numbers."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Malformed("topologyAssignment: a value is not a text")
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise Malformed("topologyAssignment: a count is not a whole number")
    return value
