"""Free capacity of partitioned GPUs: which MIG slices could be created now, or after idle ones are removed. Pure.

No source reports the first memory slice of an instance. All legal packings of a layout are examined, and counts are the
smallest of all packings, which are certain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, islice

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.fgd import GPU_MILLI, Case, Fragmentation, Task
from gpuwatch.hardware.mig_profiles import GEOMETRIES, Geometry

LAYOUTS_MAX = 4096
"""The number of layouts whose capacity is cached."""
PACKINGS_MAX = 4096
"""The most legal packings of a layout that are examined; with more, its capacity is unknown."""

Slice = tuple[str, bool]
"""(profile, whether it is idle), in the order of GPU-instance ids: drivers place equal instances in that order."""
Placed = tuple[str, int]
"""(profile, first memory slice)."""


@dataclass(frozen=True, eq=False)
class SliceCapacity:
    """The free capacity of a partitioned GPU. Counts are by profile of its model, including zeros."""

    geometry: Geometry
    free_slices: int
    """Unused memory slices: those of idle instances, and those without an instance."""
    ready: Mapping[str, int]
    """Idle instances."""
    creatable: Mapping[str, int]
    """Instances that could be created in addition to the existing ones."""
    reachable: Mapping[str, int]
    """Instances that would fit after removing the idle ones."""
    certain: bool
    """Whether all legal packings have the same counts."""

    def hosts(self, profile: str) -> int:
        """How many more of a profile could be placed now; 0 for a profile that the model does not have."""
        name = own_name(self.geometry, profile)
        return 0 if name is None else self.ready[name] + self.creatable[name]

    def uncovered(self, profile: str) -> int:
        """Free memory slices that instances of a profile cannot use now."""
        name = own_name(self.geometry, profile)
        size = 0 if name is None else self.geometry.profiles[name].memory_slices
        return self.free_slices - self.hosts(profile) * size


@lru_cache(LAYOUTS_MAX)
def slice_capacity(model: str | None, layout: tuple[Slice, ...]) -> SliceCapacity | None:
    """The free capacity of a GPU with these instances, None for an unknown model or profile or an impossible layout."""
    key = hardware_shares.model_key(model) if model else None
    if key is None:
        return None
    geometry = GEOMETRIES[key]
    names = [name for profile, _ in layout if (name := own_name(geometry, profile)) is not None]
    if len(names) < len(layout):
        return None
    idle, in_use = [free for _, free in layout], [not free for _, free in layout]
    packed = list(islice(packings(key, names), PACKINGS_MAX + 1))
    if not packed or len(packed) > PACKINGS_MAX:
        return None
    beside = [hardware_shares.free_profiles(key, placed) for placed in packed]
    instead = [hardware_shares.free_profiles(key, list(compress(placed, in_use))) for placed in packed]
    creatable, reachable = _least(beside), _least(instead)
    held = sum(geometry.profiles[name].memory_slices for name in compress(names, in_use))
    ready = Counter(compress(names, idle))
    return SliceCapacity(
        geometry,
        geometry.memory_slices - held,
        {name: ready[name] for name in geometry.profiles},
        creatable,
        reachable,
        beside.count(creatable) == len(beside) and instead.count(reachable) == len(instead),
    )


def packings(model: str, profiles: Sequence[str]) -> Iterator[list[Placed]]:
    """Yields all legal placements of a GPU's instances; equal instances keep their order."""

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


def expected(rooms: Sequence[SliceCapacity], tasks: Sequence[Task], model_names: Sequence[str | None]) -> Fragmentation:
    """F of partitioned GPUs: the free memory slices that the profile of each task cannot use.

    In thousandths of a GPU; a memory slice is an eighth of it (on A30 a quarter). Tasks for whole GPUs cannot use any
    (ML); for a profile that the model does not have, or another model, the case is NA.
    """
    lost: Counter[Case] = Counter()
    by_gpu = []
    alike: dict[tuple[SliceCapacity, str | None], Counter[Case]] = {}
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


def idle_lost(one: SliceCapacity, tasks: Sequence[Task], model: str | None) -> tuple[int, int, int]:
    """The part of idle instances that tasks cannot use: (lost, lost due to another model or mode, total), by weight.

    Memory slices without an instance are used first. (0, 0, 1) if nothing is idle or there are no tasks.
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
    """The size of a memory slice in thousandths of a GPU."""
    return GPU_MILLI // geometry.memory_slices


def own_name(geometry: Geometry, profile: str) -> str | None:
    """The model's name of a profile, which older exporters misprint (1g.11gb for 1g.12gb); None if it has no such one."""
    if profile in geometry.profiles:
        return profile
    name = hardware_shares.misnamed(geometry.key, profile)
    stated = re.search(r"g\.(\d+)gb", profile)
    if not name or stated is None:
        return None
    size = geometry.profiles[name].memory_gb
    return name if abs(int(stated[1]) - size) <= hardware_shares.NEAR_NAME * size else None


def _lost(one: SliceCapacity, tasks: Sequence[Task], model: str | None) -> Counter[Case]:
    lost: Counter[Case] = Counter()
    for task in tasks:
        case, slices = _case(one, task, model)
        lost[case] += task.weight * slices * slice_milli(one.geometry)
    return lost


def _case(one: SliceCapacity, task: Task, model: str | None) -> tuple[Case, int]:
    """The case of a task, and the memory slices that it cannot use."""
    if task.gpus == 0:
        return "XL", one.free_slices
    if task.profile is None:
        return "ML", one.free_slices
    if own_name(one.geometry, task.profile) is None or (task.models is not None and model not in task.models):
        return "NA", one.free_slices
    return ("Q3" if one.hosts(task.profile) else "Q2"), one.uncovered(task.profile)


def _least(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: min(one[name] for one in counts) for name in counts[0]}
