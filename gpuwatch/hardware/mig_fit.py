"""Which holders of MIG instances find one again under other layouts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gpuwatch.hardware.mig_profiles import GEOMETRIES


def fitted(key: str, held: Sequence[str], supply: Mapping[str, int]) -> list[str | None]:
    """The instance that each holder gets, by profile, None where none is left: its own profile, else the smallest that has at
    least its compute and memory slices. The largest holders choose first; `key` is a geometry, `supply` instances by profile.
    """
    profiles = GEOMETRIES[key].profiles
    left = Counter({name: count for name, count in supply.items() if count > 0})
    found: list[str | None] = [None] * len(held)

    def size(name: str) -> tuple[int, int]:
        known = profiles.get(name)
        return (0, 0) if known is None else (known.memory_slices, known.compute_slices)

    order = sorted(range(len(held)), key=lambda place: (*(-part for part in size(held[place])), place))
    for place in order:  # whoever finds its own profile leaves the larger ones to others
        if left[held[place]] > 0:
            left[held[place]] -= 1
            found[place] = held[place]
    for place in order:
        memory, compute = size(held[place])
        if found[place] is not None or not memory:
            continue
        larger = [name for name in left if left[name] > 0 and size(name)[0] >= memory and size(name)[1] >= compute]
        if larger:
            chosen = min(larger, key=lambda name: (size(name), name))
            left[chosen] -= 1
            found[place] = chosen
    return found
