"""GPU counts in Kubernetes resource lists (resource -> quantity), as pods and batch schedulers write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from gpuwatch.collectors.shared.json_fields import Malformed
from gpuwatch.collectors.shared.other_accelerators import KINDS
from gpuwatch.core.accelerators import INTEL

MAX_LABELS = 200
MAX_MESSAGE = 4000
MAX_DEVICES = 1_000_000_000
"""A larger count is an error in the object."""
MIG_PREFIX = "nvidia.com/mig-"
WHOLE = ("nvidia.com/gpu", "deviceclass/gpu.nvidia.com")
"""Resources whose unit is a GPU: of the device plugin, and of DRA as Volcano counts it."""

Devices = dict[str, int]
"""Counts by MIG profile, "" for whole GPUs, or by kind of other accelerators."""

_sliced = re.compile(r"(?:gpucores|gpumem|gpumem-percentage)$")
_gpu_related = re.compile(r"gpu|mig-|deviceclass/", re.IGNORECASE)
_quantity = re.compile(
    r"([+-]?[0-9]{1,18}(?:\.[0-9]{0,18})?|[+-]?\.[0-9]{1,18})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
)
_scale = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
_scale |= {unit: Fraction(1000 ** (n + 1)) for n, unit in enumerate("kMGTPE")}
_scale |= {f"{unit}i": Fraction(1024 ** (n + 1)) for n, unit in enumerate("KMGTPE")}


def quantity(value: object, name: str) -> Fraction:
    """A Kubernetes quantity (8, "8", "500m", "1Ki", "1e3") exactly. Raises Malformed naming the field."""
    text = str(value)
    match = None if isinstance(value, bool | dict | list) else _quantity.fullmatch(text)
    if match is None:
        raise Malformed(f"{name} is not a quantity")
    number, unit = Fraction(match[1]), match[2] or ""
    if unit[:1] in ("e", "E") and len(unit) > 1:
        return number * Fraction(10) ** int(unit[1:])
    return number * _scale.get(unit, Fraction(1))


def is_gpu_related(resource: str) -> bool:
    """Whether a resource is a GPU or a part of one, of any vendor or sharing scheme."""
    return bool(_gpu_related.search(resource))


def profile_of(resource: str) -> str | None:
    """MIG profile of a resource name as the exporter prints it (`nvidia.com/mig-1g.10gb.me` -> `1g.10gb+me`)."""
    if not resource.startswith(MIG_PREFIX):
        return None
    profile = resource.removeprefix(MIG_PREFIX).removesuffix(".shared")
    size, dot, attribute = profile.partition("gb.")
    return f"{size}gb+{attribute}" if dot else profile


def devices_of(resources: Mapping[str, Any], factor: int = 1) -> tuple[Devices, dict[str, Any]]:
    """(devices by profile, other GPU resources) of a mapping from resource to quantity.

    Accelerators of other vendors count by their kind. Replicas of shared GPUs and slices are not devices. If cores or memory of a GPU are requested (HAMi),
    `nvidia.com/gpu` counts fractions of GPUs. All of these are in the second result. Raises Malformed for an invalid
    count of devices.
    """
    devices: Devices = {}
    other: dict[str, Any] = {}
    fractions = any(_sliced.search(name) for name in resources)
    for name in sorted(resources):
        kind = KINDS.get(name)
        if resources[name] is None or not (kind or is_gpu_related(name)):
            continue
        whole, slices = name in WHOLE and not fractions, name.startswith(MIG_PREFIX) and not name.endswith(".shared")
        if not whole and not slices and kind is None:
            number = quantity(resources[name], name) * factor
            other[name] = int(number) if number.denominator == 1 else float(number)
            continue
        count = quantity(resources[name], name) * factor
        if count.denominator != 1 or not 0 <= count <= MAX_DEVICES:
            raise Malformed(f"{name} is not a count of devices")
        profile = kind or (profile_of(name) if slices else "") or ""
        # Two names of one kind are the same devices, unless both Intel drivers have some.
        known = devices.get(profile, 0)
        devices[profile] = max(known, int(count)) if kind and kind != INTEL else known + int(count)
    return devices, other


def add_devices(*parts: Mapping[str, int]) -> Devices:
    """Sums by profile."""
    total: Devices = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


def whole_or_none(devices: Mapping[str, int]) -> tuple[int, str | None]:
    """(total devices, the MIG profile if all have the same one)."""
    profiles = [name for name, count in devices.items() if count]
    return sum(devices.values()), profiles[0] if len(profiles) == 1 and profiles[0] else None


def json_or_none(value: object) -> str | None:
    """JSON text, None for empty values, since unknown is not zero. Raises Malformed if JSON cannot represent it."""
    try:
        return json.dumps(value, separators=(",", ":"), default=str, allow_nan=False) if value else None
    except (ValueError, RecursionError) as error:
        raise Malformed("holds a number that is none, or is nested too deeply") from error


def non_empty(**values: object) -> dict[str, object]:
    """The values that are not empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


def shortened(text: str | None) -> str | None:
    """A message, cut to MAX_MESSAGE characters."""
    return text[:MAX_MESSAGE] if text else None
