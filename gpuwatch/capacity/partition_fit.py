"""Which nodes a waiting request of Slurm may use, by its partitions. Pure."""

from __future__ import annotations

from collections.abc import Collection

from gpuwatch.capacity.node_fit import Place


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
