"""Matches the model names of rates with those of devices."""

from __future__ import annotations

import re
from functools import lru_cache

from gpuwatch.hardware import shares as hardware_shares
from gpuwatch.hardware.mig_profiles import GEOMETRIES

MAX_NAMES = 4096
"""Cache size: distinct model names whose tokens are cached."""
ANY_MODEL = "*"

_VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce"})


@lru_cache(MAX_NAMES)
def model_tokens(name: str) -> frozenset[str]:
    """The tokens of a model name: its words without the vendor, any SXM version alike, `80g` as `80gb`.

    HBM3 on H100 and H200 exists only on SXM boards, so it says SXM too.
    """
    words = set(re.findall(r"[a-z0-9]+", hardware_shares.base_model_name(name).lower())) - _VENDOR_WORDS
    words = {re.sub(r"^sxm\d+$", "sxm", re.sub(r"^(\d{2,})g$", r"\1gb", word)) for word in words}
    if words & {"h100", "h200"} and words & {"hbm3", "hbm3e"} and not words & {"nvl", "pcie"}:
        words.add("sxm")
    return frozenset(words)


@lru_cache(MAX_NAMES)
def device_tokens(name: str) -> frozenset[str]:
    """The words of a device's model plus the memory that a full driver name implies (`NVIDIA H100 PCIe`: 80gb).

    `NVIDIA H200` without more is the SXM board; the NVL card says so.
    """
    words = model_tokens(name)
    if not re.match(r"nvidia\b", name.strip(), re.IGNORECASE):
        return words
    key = hardware_shares.model_key(name)
    implied = {key.rsplit("-", 1)[-1].lower()} if key else set()
    return words | implied | ({"sxm"} if words == {"h200"} else set())


@lru_cache(MAX_NAMES)
def profiles_of(name: str) -> tuple[str, ...]:
    """MIG profiles of every GPU that a rate's model can match (`H100`: those of 80, 94 and 96 GB); () where none is known."""
    words = model_tokens(name)
    sizes = {word for word in words if re.fullmatch(r"\d+gb", word)} or (
        {"94gb"} if words >= {"h100", "nvl"} else set()
    )
    found: set[str] = set()
    for key, geometry in GEOMETRIES.items():
        chip, size = model_tokens(key) - {key.rsplit("-", 1)[-1].lower()}, key.rsplit("-", 1)[-1].lower()
        if chip <= words and (not sizes or size in sizes):
            found.update(geometry.profiles)
    if (
        not found and (only := hardware_shares.model_key(name)) is not None
    ):  # a chip that is cut as another one is (H20, GH200)
        found.update(GEOMETRIES[only].profiles)
    return tuple(sorted(found))


@lru_cache(MAX_NAMES)
def names_of_profile(model: str, profile: str | None) -> tuple[str | None, ...]:
    """The names by which rates may mean a slice of `model`, the closest first: as it is printed; as it should be, where that
    misprints one that the model has (1g.11gb for 1g.12gb); without media extensions; and None, any.
    """
    if not profile:
        return (None,)
    name = hardware_shares.profile_name(profile) or profile
    right, share = hardware_shares.misnamed(model, name), hardware_shares.share(model, name)
    names = [name, right] if right and share is not None and not share.estimated else [name]
    return (*dict.fromkeys([*names, *(each.removesuffix("+me") for each in names)]), None)


def unknown_profile(model: str, profile: str | None) -> str | None:
    """The problem with a profile if the model is known and has neither it nor a known misprint of it; else None."""
    known = profiles_of(model)
    if profile is None or not known or profile in known or _near(profile, known):
        return None
    return f"mig_profile is none of this model: it has {', '.join(known)}"


def _near(profile: str, known: tuple[str, ...]) -> bool:
    """Whether it is a misprint of a profile in `known` by older exporters (1g.11gb for 1g.12gb)."""
    slices, size = _parts(profile)
    return any(slices == a and abs(size - b) <= b * hardware_shares.NEAR_NAME for a, b in map(_parts, known))


def _parts(profile: str) -> tuple[str, int]:
    slices, _, rest = profile.removesuffix("+me").partition("g.")
    return slices, int(rest.removesuffix("gb"))
