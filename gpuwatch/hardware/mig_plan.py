"""A better MIG layout for the demand of the last week, for GPUs that are free now. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from gpuwatch.hardware.mig_profiles import GEOMETRIES
from gpuwatch.hardware.shares import maximal_layouts

GPUS_MAX = 64
"""The most GPUs whose layout a plan changes."""

Layout = tuple[str, ...]
Demand = Sequence[Mapping[str, int]]
"""Per hour: profile -> microseconds of instances that were held or waited for."""


@dataclass(frozen=True)
class Repartition:
    """Changed layouts for some GPUs, and the demand that they would have served: microseconds × memory slices."""

    changes: tuple[tuple[str, Layout, Layout], ...]
    """(GPU, its layout, the better one), the largest gain first."""
    wanted: int
    served_before: int
    served_after: int


def repartition(
    key: str, layouts: Mapping[str, Layout], free: Sequence[str], demand: Demand, hour_us: int
) -> Repartition:
    """New layouts for the GPUs of `free` that serve more of the demand of each hour with instances of its profile.

    `key` is a geometry; `layouts` has those of all GPUs, with sorted profiles. One GPU at a time gets the change with
    the largest gain (not exact: two changes together may be better). Changes without a gain are not made.
    """
    sizes = {name: profile.memory_slices for name, profile in GEOMETRIES[key].profiles.items()}
    choices = sorted(maximal_layouts(key))
    supply = Counter(profile for layout in layouts.values() for profile in layout)
    before = served(demand, supply, sizes, hour_us)
    now, left = before, [gpu for gpu in free if gpu in layouts]

    @cache
    def worth(name: str, count: int) -> int:
        """The demand that `count` instances of a profile serve, which does not depend on other profiles."""
        return served([{name: hour.get(name, 0)} for hour in demand], {name: count}, sizes, hour_us)

    changes: list[tuple[str, Layout, Layout]] = []
    while left and len(changes) < GPUS_MAX:
        # GPUs with the same layout are equivalent: only the first of each is tried.
        tried = sorted({layouts[gpu]: gpu for gpu in reversed(left)}.values())
        gain, gpu, choice = max(
            ((_gain(layouts[gpu], choice, supply, worth), gpu, choice) for gpu in tried for choice in choices),
            key=itemgetter(0),
            default=(0, "", ()),
        )
        if gain <= 0:
            break
        supply = supply - Counter(layouts[gpu]) + Counter(choice)
        now += gain
        left.remove(gpu)
        changes.append((gpu, layouts[gpu], choice))
    wanted = sum(us * sizes.get(name, 0) for hour in demand for name, us in hour.items())
    return Repartition(tuple(changes), wanted, before, now)


def _gain(old: Layout, new: Layout, supply: Counter[str], worth: Callable[[str, int], int]) -> int:
    """The demand that is served in addition when one GPU changes its layout."""
    rest, then = supply - Counter(old), Counter(new)
    return sum(worth(name, rest[name] + then[name]) - worth(name, supply[name]) for name in {*old, *new})


def served(demand: Demand, supply: Mapping[str, int], sizes: Mapping[str, int], hour_us: int) -> int:
    """Microseconds × memory slices of the demand that instances of its profile can serve."""
    return sum(
        min(us, supply.get(name, 0) * hour_us) * sizes.get(name, 0) for hour in demand for name, us in hour.items()
    )
