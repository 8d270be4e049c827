"""Labels and values of a rule's thresholds and evidence; the end of a name gives the unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import evidence_words, figures, formats, parts

_TIME = re.compile(r"_us(?=_|$)")
"""Microseconds: `idle_us_min`, `warn_us`; not `fb_used_ratio_max`."""

SHORT = {
    "sm": "SMs",
    "gpu": "GPU",
    "gpus": "GPUs",
    "dram": "memory",
    "fb": "memory",
    "gr": "graphics",
    "min": "at least",
    "max": "at most",
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "mig": "MIG",
    "xid": "XID",
    "xids": "XIDs",
    "cuda": "CUDA",
    "cpu": "CPU",
    "fragmentation": "unusable for the usual requests",
}
UNITS = {
    "_gb_per_s": "GB/s",
    "_gpu_hours": "GPU-h",
    "_device_hours": "device-h",
    "_gib": "GiB",
    "_mib": "MiB",
    "_mhz": "MHz",
    "_watts": "W",
    "_celsius": "°C",
}
"""Units by the end of a name (before `_min`, `_max`). Times and ratios are formatted separately."""

BYTES_PER_S = "_bytes_per_s"
SECONDS = {"_seconds": 1, "_minutes": 60, "_hours": 3600, "_days": 86400}
_BOUND = re.compile(r"_(min|max|low|high)$")


def ends_with(name: str, unit: str) -> bool:
    """Whether a name has this unit, with or without a bound after it."""
    return _BOUND.sub("", name).endswith(unit)


def label(name: str) -> str:
    """The label of a name, without its unit, which goes with the value."""
    if name in evidence_words.NAMES:
        return evidence_words.NAMES[name]
    stem = _TIME.sub("", name).replace("_ratio", "")
    if f"{stem}{figures.RATIO}" in figures.LINES:
        return figures.LINES[f"{stem}{figures.RATIO}"]
    for unit in (BYTES_PER_S, *UNITS, *SECONDS):
        if ends_with(stem, unit):
            stem = stem.replace(unit, "", 1) or stem
            break
    return formats.sentence(" ".join(SHORT.get(word, word) for word in stem.split("_") if word))


def value(name: str, entry: object) -> Component:
    """A value with its unit, exact on hover."""
    found = None if isinstance(entry, str) else formats.number(entry)  # a string may be a job id
    if found is None:
        return html.Span(formats.clip(entry, 60))
    if _TIME.search(name):
        return parts.num(formats.duration(found / 1_000_000), f"{entry} µs")
    if ends_with(name, BYTES_PER_S):
        return parts.num(f"{formats.short(found / 1_000_000_000)} GB/s", entry)
    unit = next((unit for end, unit in UNITS.items() if ends_with(name, end)), "")
    if unit:
        return parts.num(f"{formats.short(found)} {unit}", entry)
    seconds = next((size for end, size in SECONDS.items() if ends_with(name, end)), 0)
    if seconds:
        return parts.num(formats.duration(found * seconds), entry)
    if ("ratio" in name or 0 < found < 1) and found <= 1:
        return parts.percent(found)
    return parts.num(plain(found), entry)


def plain(number: Decimal) -> str:
    """A whole number, or one with two decimals."""
    return f"{number.normalize():,f}" if number == number.to_integral_value() else f"{number:,.2f}"


def typed(name: str, entry: object) -> str:
    """A threshold as a person would type it: `15m`, `0.8`, `5`."""
    found = formats.number(entry)
    if found is None:
        return ""
    if _TIME.search(name):
        seconds = found / 1_000_000
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if seconds and seconds % size == 0:
                return f"{seconds / size:.0f}{unit}"
        return f"{seconds.normalize():f}s"
    return f"{found.normalize():f}"


def rows(entries: Mapping[str, object], most: int) -> list[list[Component | str]]:
    """Table rows of labels and values; nested values are left out."""
    fit = [
        (name, entry)
        for name, entry in entries.items()
        if entry not in (None, "") and not isinstance(entry, dict | list)
    ]
    return [[label(name), value(name, entry)] for name, entry in fit[:most]]
