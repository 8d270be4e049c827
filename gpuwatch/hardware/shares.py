"""MIG arithmetic: a slice's share of its GPU, and which instances still fit on a GPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Literal, get_args

from gpuwatch.hardware.mig_profiles import GEOMETRIES, Geometry, Profile

ShareMethod = Literal["dominant", "compute", "memory", "sm"]
SHARE_METHODS: tuple[str, ...] = get_args(ShareMethod)
SHARE_UNITS = 56
"""Units per whole GPU: sevenths (compute), eighths (memory) and quarters (A30) are all whole numbers of units."""
NEAR_NAME = Fraction(1, 8)
"""A printed size this close to a profile's own (1g.11gb for 1g.12gb) is that profile misprinted, not another one."""
MAX_NAMES = 4096
"""The number of distinct names whose result is cached."""

_PROFILE = re.compile(
    r"(?:^|[^0-9a-z])(?:\d+c\.)?(?P<g>\d)g\.(?P<gb>\d+)gb(?P<me>[+._]me)?(?:[+._](?:all|gfx)|-me)*$", re.IGNORECASE
)
_APPENDED = re.compile(r"[-_. ](?:MIG[-_ ].*|SHARED|(?:\d+c\.)?\d+g\.\d+gb.*)$", re.IGNORECASE)
_FORM = re.compile(r"(sxm\d*|nvl\d*|pcie)")
_MEMORY = re.compile(r"(\d{2,3})gb?")

# Chip -> the geometry by memory size in its names, and the geometry of a name without a size (None: ambiguous).
# The 480 of GH200 is its CPU memory.
_A100: dict[int, str] = {40: "A100-40GB", 80: "A100-80GB"}
_CHIPS: dict[str, tuple[dict[int, str], str | None]] = {
    "gb200": (dict.fromkeys((186, 189, 192), "GB200-186GB"), "GB200-186GB"),
    "gh200": ({96: "H100-96GB", 480: "H100-96GB"}, "H100-96GB"),
    "b300": (dict.fromkeys((269, 270, 288), "B300-269GB"), "B300-269GB"),
    "b200": (dict.fromkeys((180, 183, 192), "B200-180GB"), "B200-180GB"),
    "h200": ({141: "H200-141GB"}, "H200-141GB"),
    "h100": ({80: "H100-80GB", 94: "H100-94GB", 96: "H100-96GB"}, "H100-80GB"),
    "h800": ({80: "H100-80GB"}, "H100-80GB"),
    "h20": ({96: "H100-96GB"}, "H100-96GB"),
    "a100": (_A100, None),
    "a800": (_A100, None),
    "a30": ({24: "A30-24GB"}, "A30-24GB"),
}


@dataclass(frozen=True)
class Share:
    """A slice's share of its GPU: `units` of SHARE_UNITS. `estimated`: its model or profile is not in the table."""

    units: int | Fraction
    estimated: bool


def base_model_name(model_name: str) -> str:
    """A model name, product label or gres type without suffixes of sharing (`-MIG-1g.5gb`, `-SHARED`, `_1g.5gb`)."""
    return _APPENDED.sub("", model_name.strip())


def profile_name(text: str) -> str | None:
    """The GPU-instance profile of any spelling: `1c.3g.40gb`, `mig-1g.10gb.me`, `nvidia.com/mig-1g.5gb`, `a100_1g.5gb`.

    `+me` is kept; other variants (`+gfx`, `+me.all`, `-me`) have the same slices as the plain one. None for other text.
    """
    match = _PROFILE.search(text.strip())
    if match is None or match["g"] == "0" or int(match["gb"]) == 0:
        return None
    media = match["me"] is not None and not text.lower().endswith("all")
    return f"{match['g']}g.{int(match['gb'])}gb" + ("+me" if media else "")


def model_key(model_name: str) -> str | None:
    """The geometry key of a model name, product label or gres type; None if unknown or ambiguous (`a100`)."""
    keys = _candidates(model_name)[0]
    return keys[0] if len(keys) == 1 else None


def share(model: str | None, profile: str | None, method: ShareMethod = "dominant") -> Share | None:
    """The share of a slice of `profile` on `model` (a geometry key or any model name); None if it is not a MIG profile.

    Without a profile it is the whole GPU. A name that the model does not have means its profile with the same g and the
    nearest size. For an unknown model, sevenths (and eighths, if its memory is known) are an estimate. A compute
    instance (`1c.3g.40gb`) counts as its GPU instance. `sm` is relative to the SMs that MIG mode exposes, because the
    SMs that the mode costs (10 of 108 on A100) belong to the node's rate; unknown SMs are estimated from compute.
    """
    if not profile:
        return Share(SHARE_UNITS, False)
    name = profile_name(profile)
    return None if name is None else _share(model or "", name, method)


def share_units(model: str | None, profile: str | None, method: ShareMethod = "dominant") -> int | Fraction:
    """The units of `share`, of SHARE_UNITS. Raises ValueError if it is not a MIG profile."""
    found = share(model, profile, method)
    if found is None:
        raise ValueError(f"{profile!r} is not a MIG profile: expected a name like 1g.10gb")
    return found.units


def misnamed(model: str | None, profile: str | None) -> str | None:
    """The name that a misnamed `profile` should have on `model`; "" if the model has no such profile.

    None if the name is right, or the model is unknown.
    """
    if not profile:
        return None
    keys = _candidates(model or "")[0]
    if (name := profile_name(profile)) is None:
        return ""
    if len(keys) != 1 or name in GEOMETRIES[keys[0]].profiles:
        return None
    found = _nearest(GEOMETRIES[keys[0]], name)
    return "" if found is None else found[0].name


def has_profile(model: str | None, profile: str) -> bool:
    """Whether GPUs of a model, if it is named, can have instances of a profile. A model without a geometry has no MIG (L40S)."""
    name = profile_name(profile)
    if not model or name is None:
        return name is not None
    return any((one := _nearest(GEOMETRIES[key], name)) and not one[1] for key in _candidates(model)[0])


def layout_shares(
    model: str | None, profiles: Sequence[str | None], method: ShareMethod = "dominant"
) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Shares of all configured slices of a GPU, in order, and the remainder: (numerator, denominator) of the GPU.

    All denominators are equal, and the numerators add up to it: shares above one GPU are scaled down, below it the
    remainder is the difference. Raises ValueError for anything but MIG profiles.
    """
    units = [Fraction(share_units(model, profile, method)) for profile in profiles]
    scale = lcm(*(u.denominator for u in units))
    whole = [int(u * scale) for u in units]
    total = max(SHARE_UNITS * scale, sum(whole))
    return [(u, total) for u in whole], (total - sum(whole), total)


def free_profiles(model: str, placed: Sequence[tuple[str, int]]) -> dict[str, int]:
    """How many more of each profile fit next to the placed (profile, first memory slice) instances.

    Exact: instances of a profile have equal sizes and aligned starts, so filling from the left is optimal. Only one
    instance has media extensions. Raises ValueError for an unknown model or profile, an illegal start, or an overlap.
    """
    geometry = _known(model)
    used, media = _occupied(geometry, placed)
    free: dict[str, int] = {}
    for profile in geometry.profiles.values():
        taken, count = used, 0
        for start in profile.starts:
            if not taken & _mask(profile, start):
                taken |= _mask(profile, start)
                count += 1
        free[profile.name] = 0 if profile.media and media else min(count, profile.max_count)
    return free


def legal_starts(model: str, profile: str, placed: Sequence[tuple[str, int]] = ()) -> tuple[int, ...]:
    """First memory slices at which one more `profile` could be created now, ascending. Raises like free_profiles."""
    geometry = _known(model)
    used, media = _occupied(geometry, placed)
    wanted = _placeable(geometry, profile)
    fits = (start for start in wanted.starts if not used & _mask(wanted, start))
    return () if wanted.media and media else tuple(fits)


def maximal_layouts(model: str, double_memory: bool = True) -> frozenset[tuple[str, ...]]:
    """All sets of profiles (sorted, repeated by count) that fill a GPU completely.

    Without media variants, which occupy the same slices. `double_memory` includes the 1g with two memory slices.
    """
    geometry = _known(model)
    profiles = [
        p
        for p in geometry.profiles.values()
        if not p.media and (double_memory or p.compute_slices > 1 or p.memory_slices == 1)
    ]
    found: set[tuple[str, ...]] = set()

    def extend(used: int, layout: tuple[str, ...], least: int) -> None:
        moves = [(p, start) for p in profiles for start in p.starts if not used & _mask(p, start)]
        if not moves:
            found.add(tuple(sorted(layout)))
        for p, start in moves:
            # Instances are ordered by first slice, so that each placement is visited once.
            if start >= least:
                extend(used | _mask(p, start), (*layout, p.name), start + 1)

    extend(0, (), 0)
    return frozenset(found)


@lru_cache(MAX_NAMES)
def _candidates(model_name: str) -> tuple[tuple[str, ...], int | None]:
    """The geometry keys that a name may mean, and its gigabytes if it means none."""
    if model_name in GEOMETRIES:
        return (model_name,), None
    words = re.findall(r"[a-z0-9]+", _FORM.sub(r" \1 ", base_model_name(model_name).lower()))
    sizes = [int(m[1]) for word in words if (m := _MEMORY.fullmatch(word))]
    stated = sizes[0] if len(set(sizes)) == 1 else None
    if {"rtx", "pro", "6000"} <= set(words):
        return ("RTX-PRO-6000-96GB",), None
    chip = next((word for word in words if word in _CHIPS), None)
    if chip is None:
        return (), stated
    by_size, default = _CHIPS[chip]
    if stated is not None:
        return ((by_size[stated],), None) if stated in by_size else ((), stated)
    if chip == "h100" and "nvl" in words:  # the 94 GB card, whose name has no size
        return ("H100-94GB",), None
    return ((default,) if default else tuple(by_size.values())), None


@lru_cache(MAX_NAMES)
def _share(model: str, name: str, method: ShareMethod) -> Share:
    keys, stated_gb = _candidates(model)
    if len(keys) > 1:
        keys = tuple(key for key in keys if name in GEOMETRIES[key].profiles)
    if len(keys) != 1:
        return _derived(name, method, stated_gb, 7, 8)
    geometry = GEOMETRIES[keys[0]]
    found = _nearest(geometry, name)
    if found is None:
        return _derived(name, method, geometry.memory_gb, geometry.compute_slices, geometry.memory_slices)
    profile, estimated = found
    compute = Fraction(profile.compute_slices * SHARE_UNITS, geometry.compute_slices)
    memory = Fraction(profile.memory_slices * SHARE_UNITS, geometry.memory_slices)
    if method == "sm" and profile.sms is not None and geometry.mig_sms is not None:
        return Share(_whole(Fraction(profile.sms * SHARE_UNITS, geometry.mig_sms)), estimated)
    return Share(_whole(_chosen(method, compute, memory)), estimated or method == "sm")


def _derived(name: str, method: ShareMethod, gpu_gb: int | None, compute_of: int, memory_of: int) -> Share:
    """A share estimated from the profile's name, with memory rounded to whole slices."""
    g, gb = (int(part) for part in re.findall(r"\d+", name)[:2])
    compute = min(Fraction(g, compute_of), Fraction(1))
    memory = compute
    if gpu_gb:
        memory = min(Fraction(max(1, round(Fraction(gb * memory_of, gpu_gb))), memory_of), Fraction(1))
    return Share(_whole(_chosen(method, compute, memory) * SHARE_UNITS), True)


def _chosen(method: ShareMethod, compute: Fraction, memory: Fraction) -> Fraction:
    if method == "dominant":
        return max(compute, memory)
    return memory if method == "memory" else compute


def _whole(units: Fraction) -> int | Fraction:
    return units.numerator if units.denominator == 1 else units


def _nearest(geometry: Geometry, name: str) -> tuple[Profile, bool] | None:
    """The profile that a name means, and whether it is a guess: the exact one, else the same g with the nearest size."""
    if name in geometry.profiles:
        return geometry.profiles[name], False
    g, gb = (int(part) for part in re.findall(r"\d+", name)[:2])
    same = [p for p in geometry.profiles.values() if p.compute_slices == g and not p.media]
    if not same:
        return None
    nearest = min(same, key=lambda p: (abs(p.memory_gb - gb), p.memory_gb))
    return nearest, abs(nearest.memory_gb - gb) > NEAR_NAME * nearest.memory_gb


def _known(model: str) -> Geometry:
    key = model_key(model)
    if key is None:
        raise ValueError(f"GPU model {model!r} has no known MIG geometry; known: {', '.join(GEOMETRIES)}")
    return GEOMETRIES[key]


def _placeable(geometry: Geometry, profile: str) -> Profile:
    name = profile_name(profile) or ""
    media = name.endswith("+me")
    found = _nearest(geometry, name) if name else None
    if found is None or found[1]:
        raise ValueError(f"{geometry.key} has no MIG profile {profile!r}; it has {', '.join(geometry.profiles)}")
    plain = found[0].name.removesuffix("+me")
    return geometry.profiles.get(f"{plain}+me" if media else plain, found[0])


def _mask(profile: Profile, start: int) -> int:
    return ((1 << profile.memory_slices) - 1) << start


def _occupied(geometry: Geometry, placed: Sequence[tuple[str, int]]) -> tuple[int, bool]:
    """Bits of the memory slices in use, and whether the media extensions are taken."""
    used, media = 0, False
    for name, start in placed:
        profile = _placeable(geometry, name)
        if start not in profile.starts:
            raise ValueError(f"{geometry.key}: {name} cannot start at {start}; legal: {profile.starts}")
        if used & _mask(profile, start):
            raise ValueError(f"{geometry.key}: {name}@{start} overlaps an instance placed before it")
        if profile.media and media:
            raise ValueError(f"{geometry.key}: two instances with media extensions ({name}@{start})")
        used, media = used | _mask(profile, start), media or profile.media
    return used, media
