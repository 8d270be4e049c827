"""Which nodes a waiting request of Slurm may use: by its partitions, its constraint and reservations of others. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gpuwatch.topology.node_fit import Place

MAINT = "MAINT"
RESERVATIONS_MAX = 20
"""Reservations that one wait is compared with."""

_feature = re.compile(r"[\w.:-]+")
_part = re.compile(r"(?:\([^()]*\)|[^&()])+")

Span = tuple[int, int, frozenset[str]]
"""Start, end and the nodes that are reserved for others meanwhile."""


def partition_places(queue: str | None, places: Collection[Place]) -> list[Place]:
    """Of places with suitable models, those in any of the partitions that a request names (`a,b`); none where that is unknown.

    A node is in all the partitions of its record, or in that of its pool. A name that no place has may be a partition of those
    without a record: then nothing is certain, unless the places are one pool.
    """
    named = frozenset((queue or "").split(",")) - {""}
    unrecorded = [place for place in places if not named or not place.partitions]
    if named and (not unrecorded or named <= frozenset[str]().union(*map(_partitions, places))):
        return [place for place in places if named & _partitions(place)]
    if not named and (without := [place for place in places if place.pool is None]):
        return without
    one_pool = len({place.pool for place in places}) == 1
    return unrecorded if one_pool and len(unrecorded) == len(places) else []


def _partitions(place: Place) -> frozenset[str]:
    return place.partitions or frozenset([place.pool] if place.pool else ())


def constraint_places(constraint: str | None, places: Collection[Place]) -> list[Place]:
    """Places with all features that every node of a job certainly needs (`ib&(h100|h200)`: ib).

    A feature that no place has is not recorded and does not count. A place without a record is not excluded.
    """
    needed = required_features(constraint) & frozenset[str]().union(*(place.features for place in places))
    return [place for place in places if not place.partitions or needed <= place.features]


def required_features(constraint: str | None) -> frozenset[str]:
    """Features that each node of a job has, whatever the rest of its constraint means: none where `|`, `[` or `*` decides."""
    text = constraint or ""
    parts = _part.findall(text)
    if "&".join(parts) != text or any(sign in text for sign in "*[],"):
        return frozenset()
    if any("|" in re.sub(r"\([^()]*\)", "", part) for part in parts):
        return frozenset()
    return frozenset(part for part in parts if _feature.fullmatch(part))


@dataclass(frozen=True)
class Reservation:
    """Whole nodes that some users have to themselves for some time."""

    start_us: int
    end_us: int
    nodes: frozenset[str]
    users: frozenset[str]


def reservations_of(rows: Iterable[Mapping[str, Any]]) -> list[Reservation]:
    """The rows of capacity/reserved that certainly keep others away.

    Whose they are is certain where only users are named: an account has sub-accounts. That no part of the nodes is left to others
    is certain for maintenance and where all their GPUs are reserved.
    """
    found = []
    for row in rows:
        users = frozenset((row["users"] or "").split(",")) - {""}
        whole = MAINT in (row["flags"] or "").split(",") or (row["device_count"] or 0) >= row["node_gpus"] > 0
        if whole and users and not row["accounts"] and not any(user[0] in "-+" for user in users):
            nodes = frozenset(row["nodes"].split(","))
            found.append(Reservation(row["start_us"], row["end_us"], nodes, users))
    return found


def reserved_spans(user: str | None, start_us: int, end_us: int, reservations: Iterable[Reservation]) -> Iterator[Span]:
    """The parts of a wait of a user, each with the nodes that are reserved for others all the time."""
    others = [
        one
        for one in reservations
        if user is not None and user not in one.users and one.start_us < end_us and one.end_us > start_us
    ][:RESERVATIONS_MAX]
    edges = {edge for one in others for edge in (one.start_us, one.end_us) if start_us < edge < end_us}
    bounds = sorted({start_us, end_us} | edges)
    for begin, end in pairwise(bounds):
        kept = (one.nodes for one in others if one.start_us <= begin and one.end_us >= end)
        yield begin, end, frozenset[str]().union(*kept)
