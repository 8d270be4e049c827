"""Room on partitioned GPUs: which MIG slices could be placed now, and which after idle ones are removed. Pure.

No source tells at which memory slice an instance begins. Every legal packing of a layout is looked at, and what is told is
what holds in each of them: the least of their counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.fgd import GPU_MILLI, Case, Fragmentation, Task
from gpuwatch.hardware.mig_profiles import GEOMETRIES, Geometry

LAYOUTS_MAX = 4096
"""Layouts whose room is remembered."""
PACKINGS_MAX = 4096
"""Legal packings of one layout that are looked at; of a layout with more, nothing is told."""

Slice = tuple[str, bool]
"""(profile, whether it is idle), in the order of GPU-instance ids: drivers place equal instances in that order."""
Placed = tuple[str, int]
"""(profile, first memory slice)."""


@dataclass(frozen=True, eq=False)
class Room:
    """What a partitioned GPU has left. Counts are by profile of its model, zeros included."""

    geometry: Geometry
    free_slices: int
    """Memory slices that nobody holds: those of idle instances, and those outside of all."""
    ready: Mapping[str, int]
    """Idle instances."""
    creatable: Mapping[str, int]
    """Instances that could be created beside all that exist."""
    reachable: Mapping[str, int]
    """Instances that would fit if the idle ones were removed first."""
    certain: bool
    """Whether every legal packing says the same."""

    def hosts(self, profile: str) -> int:
        """How many more of a profile could be placed now; 0 for one that the model does not have."""
        name = own_name(self.geometry, profile)
        return 0 if name is None else self.ready[name] + self.creatable[name]

    def uncovered(self, profile: str) -> int:
        """Free memory slices that instances of a profile cannot use now."""
        name = own_name(self.geometry, profile)
        size = 0 if name is None else self.geometry.profiles[name].memory_slices
        return self.free_slices - self.hosts(profile) * size


@lru_cache(LAYOUTS_MAX)
def room(model: str | None, layout: tuple[Slice, ...]) -> Room | None:
    """What fits on a GPU that has these instances. None where its model or a profile is unknown, or nothing packs so."""
    key = hardware_shares.model_key(model) if model else None
    if key is None:
        return None
    geometry = GEOMETRIES[key]
    named = [own_name(geometry, profile) for profile, _ in layout]
    names = [name for name in named if name is not None]
    if len(names) < len(layout):
        return None
    idle = [free for _, free in layout]
    beside, instead = [], []
    for count, placed in enumerate(packings(key, names)):
        if count >= PACKINGS_MAX:
            return None
        beside.append(hardware_shares.free_profiles(key, placed))
        instead.append(
            hardware_shares.free_profiles(key, [one for one, free in zip(placed, idle, strict=True) if not free])
        )
    if not beside:
        return None
    held = sum(geometry.profiles[name].memory_slices for name, free in zip(names, idle, strict=True) if not free)
    ready = Counter(name for name, free in zip(names, idle, strict=True) if free)
    creatable, reachable = _least(beside), _least(instead)
    return Room(
        geometry,
        geometry.memory_slices - held,
        {name: ready[name] for name in geometry.profiles},
        creatable,
        reachable,
        all(one == creatable for one in beside) and all(one == reachable for one in instead),
    )


def packings(model: str, profiles: Sequence[str]) -> Iterator[list[Placed]]:
    """Every legal way to place a GPU's instances, in their order; equal instances lie in the order given."""

    def extend(placed: list[Placed]) -> Iterator[list[Placed]]:
        if len(placed) == len(profiles):
            yield placed
            return
        name = profiles[len(placed)]
        before = [start for known, start in placed if known == name]
        for start in hardware_shares.legal_starts(model, name, placed):
            if not before or before[-1] < start:
                yield from extend([*placed, (name, start)])

    return extend([])


def expected(rooms: Sequence[Room], tasks: Sequence[Task], model_names: Sequence[str | None]) -> Fragmentation:
    """F of partitioned GPUs: of each task the free memory slices that its profile cannot use.

    In thousandths of a GPU, of which a memory slice is an eighth (of an A30 a quarter). Tasks that ask for whole GPUs are
    locked out (ML); a profile that the model does not have, or a model that is not asked for, is NA.
    """
    lost: Counter[Case] = Counter()
    by_gpu = []
    alike: dict[tuple[Room, str | None], Counter[Case]] = {}
    for one, model in zip(rooms, model_names, strict=True):
        if (one, model) not in alike:
            alike[one, model] = _lost(one, tasks, model)
        found = alike[one, model]
        lost.update(found)
        by_gpu.append((found.total(),))
    return Fragmentation(
        sum(one.free_slices * slice_milli(one.geometry) for one in rooms),
        sum(task.weight for task in tasks),
        {case: amount for case, amount in lost.items() if amount},
        tuple(by_gpu),
    )


def idle_lost(one: Room, tasks: Sequence[Task], model: str | None) -> tuple[int, int, int]:
    """What the tasks cannot use of its idle instances: (lost, what of it is another model or mode, of), by weight.

    Memory slices outside of all instances are used first. (0, 0, 1) where nothing is idle or nothing is asked for.
    """
    idle = sum(count * one.geometry.profiles[name].memory_slices for name, count in one.ready.items())
    weight = sum(task.weight for task in tasks)
    if not idle or not weight:
        return 0, 0, 1
    lost = misfit = 0
    for task in tasks:
        case, slices = _case(one, task, model)
        own = task.weight * max(0, slices - (one.free_slices - idle))
        lost += own
        misfit += own if case in ("NA", "ML") else 0
    return lost, misfit, weight * idle


def slice_milli(geometry: Geometry) -> int:
    """Thousandths of a GPU that one memory slice counts."""
    return GPU_MILLI // geometry.memory_slices


def own_name(geometry: Geometry, profile: str) -> str | None:
    """What a model calls a profile, which older exporters misprint (1g.11gb for 1g.12gb); None where it has none such."""
    if profile in geometry.profiles:
        return profile
    name = hardware_shares.misnamed(geometry.key, profile)
    stated = re.search(r"g\.(\d+)gb", profile)
    if not name or stated is None:
        return None
    size = geometry.profiles[name].memory_gb
    return name if abs(int(stated[1]) - size) <= hardware_shares.NEAR_NAME * size else None


def _lost(one: Room, tasks: Sequence[Task], model: str | None) -> Counter[Case]:
    lost: Counter[Case] = Counter()
    for task in tasks:
        case, slices = _case(one, task, model)
        lost[case] += task.weight * slices * slice_milli(one.geometry)
    return lost


def _case(one: Room, task: Task, model: str | None) -> tuple[Case, int]:
    """The case of one task, and the memory slices that are lost to it."""
    if task.gpus == 0:
        return "XL", one.free_slices
    if task.profile is None:
        return "ML", one.free_slices
    if own_name(one.geometry, task.profile) is None or (task.models is not None and model not in task.models):
        return "NA", one.free_slices
    return ("Q3" if one.hosts(task.profile) else "Q2"), one.uncovered(task.profile)


def _least(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: min(one[name] for one in counts) for name in counts[0]}
