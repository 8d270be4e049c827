"""What would let a request for MIG slices start: free instances of its profile, or why those that are free do not serve it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpuwatch.capacity.make_room import listed
from gpuwatch.capacity.waiting_requests import Wait
from gpuwatch.hardware.mig_packing import own_name
from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import model_key, profile_name
from gpuwatch.rules.rule import count

NOT_STARTED = "Its scheduler has not started it: CPU, memory or a rule that is not recorded may keep it away."
"""About a request for which devices seem to be free: its scheduler knows something that the records of gpuwatch lack."""
NODES_MAX = 3
"""Nodes in a sentence."""

Row = Mapping[str, Any]


def words(wait: Wait, devices: Collection[Row]) -> str:
    """One sentence or two. `devices`: the rows of capacity/gpu of the cluster."""
    slices = [one for one in devices if one["gi"] >= 0 and one["profile"]]
    same = [one for one in slices if _name(str(one["profile"])) == wait.profile]
    ready = [one for one in same if _free(one)]
    usable = [one for one in ready if _may_use(wait, one)]
    if len(usable) >= wait.members:
        return f"It fits now: {_counted(usable, wait)} free on {_nodes(usable)}. {NOT_STARTED}"
    need = f"It needs {_instances(wait.members, wait)}. " if wait.members > 1 else ""
    if usable:
        return f"{need}{_counted(usable, wait)} free on nodes that it may use."
    if ready:
        return f"{need}{_counted(ready, wait)} free on {_nodes(ready)}, which it may not use: {_why_not(wait, ready)}."
    own = [one for one in same if _may_use(wait, one)]
    larger = _larger(wait, slices)
    held = f"All {len(own)} instances of {wait.profile}" if len(own) > 1 else f"The only instance of {wait.profile}"
    kept = (
        f"{held} that it may use {'are' if len(own) > 1 else 'is'} in use."
        if own
        else f"No GPU that it may use has an instance of {wait.profile}."
    )
    if not larger:
        return f"{need}{kept}"
    other = f"{count(len(larger), 'larger instance')} {'is' if len(larger) == 1 else 'are'} free on {_nodes(larger)}"
    return f"{need}{kept} {other}, but schedulers give out only the size that was asked for: another layout would serve it."


def _name(profile: str) -> str:
    return profile_name(profile) or profile


def _free(one: Row) -> bool:
    return not one["held"] and not one["out_of_service"]


def _may_use(wait: Wait, one: Row) -> bool:
    model = wait.models is None or one["model"] in wait.models
    return model and one["pool"] in wait.pools and _placed(wait, one)


def _placed(wait: Wait, one: Row) -> bool:
    return wait.places is None or (one["node"] or one["gpu"]) in wait.places


def _why_not(wait: Wait, ready: Sequence[Row]) -> str:
    """What keeps a request from free instances."""
    if all(wait.models is not None and one["model"] not in wait.models for one in ready):
        return "it asks for another model"
    if any(_placed(wait, one) for one in ready):
        return "its queue is that of another pool"
    belong = "it belongs" if len(ready) == 1 else "they belong"
    return f"{belong} to another scheduler, or its partitions, selectors, affinity or tolerations do not fit"


def _larger(wait: Wait, slices: Sequence[Row]) -> list[Row]:
    """Free instances that it may use and that have at least the memory and compute of its profile."""
    return [one for one in slices if _free(one) and _may_use(wait, one) and _exceeds(one, wait.profile or "")]


def _exceeds(one: Row, profile: str) -> bool:
    geometry = GEOMETRIES.get(model_key(one["model"]) or "")
    if geometry is None:
        return False
    mine, asked = own_name(geometry, str(one["profile"])), own_name(geometry, profile)
    if mine is None or asked is None or mine == asked:
        return False
    has, needs = geometry.profiles[mine], geometry.profiles[asked]
    return has.memory_slices >= needs.memory_slices and has.compute_slices >= needs.compute_slices


def _counted(some: Sequence[Row], wait: Wait) -> str:
    return f"{_instances(len(some), wait)} {'is' if len(some) == 1 else 'are'}"


def _instances(number: int, wait: Wait) -> str:
    return f"{count(number, 'instance')} of {wait.profile}"


def _nodes(some: Sequence[Row]) -> str:
    return listed(sorted({str(one["node"] or one["gpu"]) for one in some}), NODES_MAX)
