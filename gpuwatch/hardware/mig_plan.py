"""A MIG layout that the demand of the last week would have used better, for GPUs that nobody holds now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import maximal_layouts

GPUS_MAX = 64
"""GPUs that one plan gives another layout."""

Layout = tuple[str, ...]
Demand = Sequence[Mapping[str, int]]
"""Of each hour: profile -> microseconds of instances that were held or waited for."""


@dataclass(frozen=True)
class Repartition:
    """Other layouts for some GPUs, and what they would have served of the demand: microseconds × memory slices."""

    changes: tuple[tuple[str, Layout, Layout], ...]
    """(GPU, its layout, the better one), in the order in which they help most."""
    wanted: int
    served_before: int
    served_after: int


def repartition(
    key: str, layouts: Mapping[str, Layout], free: Sequence[str], demand: Demand, hour_us: int
) -> Repartition:
    """Layouts for the GPUs of `free` so that more of the demand of each hour finds an instance of its own profile.

    `key` is a geometry; `layouts` are those of all GPUs, profiles sorted. One GPU at a time, each the change that serves most
    (not exact: two changes together may be better). Nothing changes that serves no more.
    """
    sizes = {name: profile.memory_slices for name, profile in GEOMETRIES[key].profiles.items()}
    choices = sorted(maximal_layouts(key))
    supply = Counter(profile for layout in layouts.values() for profile in layout)
    before = served(demand, supply, sizes, hour_us)
    now, left = before, [gpu for gpu in free if gpu in layouts]

    @cache
    def worth(name: str, count: int) -> int:
        """What so many instances of a profile serve: profiles do not depend on each other."""
        return served([{name: hour.get(name, 0)} for hour in demand], {name: count}, sizes, hour_us)

    changes: list[tuple[str, Layout, Layout]] = []
    while left and len(changes) < GPUS_MAX:
        best: tuple[int, str, Layout] | None = None
        # GPUs of one layout are alike: the first of each is tried.
        for gpu in sorted({layouts[gpu]: gpu for gpu in reversed(left)}.values()):
            rest = supply - Counter(layouts[gpu])
            for choice in choices:
                then, changed = Counter(choice), {*layouts[gpu], *choice}
                gain = sum(worth(name, rest[name] + then[name]) - worth(name, supply[name]) for name in changed)
                if gain > 0 and (best is None or gain > best[0]):
                    best = gain, gpu, choice
        if best is None:
            break
        gain, gpu, choice = best
        supply = supply - Counter(layouts[gpu]) + Counter(choice)
        now += gain
        left.remove(gpu)
        changes.append((gpu, layouts[gpu], choice))
    wanted = sum(us * sizes.get(name, 0) for hour in demand for name, us in hour.items())
    return Repartition(tuple(changes), wanted, before, now)


def served(demand: Demand, supply: Mapping[str, int], sizes: Mapping[str, int], hour_us: int) -> int:
    """Microseconds × memory slices of the demand for which there were instances of its profile."""
    return sum(
        min(us, supply.get(name, 0) * hour_us) * sizes.get(name, 0) for hour in demand for name, us in hour.items()
    )
