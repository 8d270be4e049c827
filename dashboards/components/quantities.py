"""Labels and values of a rule's thresholds and evidence; the end of a name gives the unit. Instants as a person writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from gpuwatch.dashboards.components import figures, formats, parts

_TIME = re.compile(r"_us(?=_|$)")
"""Microseconds: `idle_us_min`, `warn_us`; not `fb_used_ratio_max`."""

_INSTANT = re.compile(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?Z", re.ASCII)

NAMES = {
    "at": "Placed at",
    "authorities": "Schedulers that place work",
    "autocorrelation": "How alike the pauses are",
    "bandwidth_ratio": "The best place has times the bandwidth",
    "baseline_hours": "Time compared with",
    "best": "Best place that was free",
    "best_gb_per_s": "Slowest link of the best place",
    "best_gpus": "GPUs there",
    "best_kind": "Kind of the slowest link there",
    "best_level": "Slowest link of the best place",
    "best_nodes": "Nodes there",
    "blind_devices": "GPUs not measured",
    "blockers": "Jobs in the way",
    "break_even_ratio": "Break-even use",
    "by_reason": "Lost, by reason",
    "busy_ratio": "Busy: the slow GPU",
    "cheaper": "Cheaper way",
    "continued": "Continued by a later run",
    "deadlock_with": "Blocks and is blocked by",
    "deadlocked_gangs": "Gangs that block each other",
    "doubly_given_gpu_hours": "GPUs given to two jobs",
    "duty_ratio": "Share of the time paused",
    "ecc_dbe_count": "Uncorrected memory errors",
    "ended_gpu_hours": "Runs that were ended",
    "exposed_ratio_high": "Time waiting on links, at most",
    "exposed_ratio_low": "Time waiting on links, at least",
    "fall_ratio": "Less traffic than usual",
    "fallen_gangs": "Gangs with less traffic",
    "fit": "Profile that is enough",
    "fits": "GPU that is enough",
    "full_ratio": "Time at full load",
    "gang_busy_ratio": "Busy: the rest of the gang",
    "gang_sm_clock_mhz": "SM clock of the rest",
    "gang_temp_celsius": "Temperature of the rest",
    "gb_per_s": "Slowest link",
    "gpu_hours": "GPU time",
    "growth_gib_per_hour": "Growth, GiB an hour",
    "growth_ratio_per_hour": "Growth an hour",
    "held_devices": "GPUs held",
    "hollow_devices": "GPUs with idle SMs",
    "idle_devices": "Idle GPUs",
    "kind": "Kind of the slowest link",
    "leaking_devices": "GPUs with leaked memory",
    "least_share_ratio": "Smallest share of a scheduler",
    "leaves": "Leaf switches",
    "levels": "Traffic by kind of link",
    "loss_ratio": "Time the others wait",
    "loud_ratio": "Its speed while the neighbour works",
    "mean_gb_per_s": "Mean rate of its links",
    "measure": "Compared by",
    "measured_exposed_ratio": "Time waiting on links, measured",
    "missing_devices": "GPUs missing",
    "never_measured": "GPUs never measured",
    "nvlink_gb_per_s": "NVLink rate",
    "nvlink_ratio": "NVLink use",
    "odd": "Nodes that differ",
    "odd_nodes": "Nodes that differ",
    "orphan_hours": "Since its last job",
    "partial_minutes": "Time without all members",
    "pcie_gb_per_s": "PCIe rate",
    "peak_hours_ratio": "Hours at the limit of the slice",
    "pods_min": "Members needed",
    "points": "Minutes compared",
    "quiet_ratio": "Its speed while the neighbour rests",
    "r2": "Fit of the growth (R²)",
    "remapped_uncorrectable_rows": "Memory rows remapped",
    "rise_ratio": "More waiting than usual",
    "roof_ratio": "Of the roofline",
    "running_pods": "Members that run",
    "score": "Distance from the rest, in deviations",
    "shape": "Pattern",
    "silent_hours": "Without a reading for",
    "slowdown_high": "Step takes times as long, at most",
    "slowdown_low": "Step takes times as long, at least",
    "sm_clock_mhz": "SM clock of the slow GPU",
    "small_devices": "GPUs with small batches",
    "spans": "Where it runs",
    "spearman": "Rank correlation with the neighbour",
    "spread": "Spread over",
    "starved_devices": "GPUs that nobody can use",
    "starved_requests": "Requests that waited",
    "talking_gpu_hours": "Communicating",
    "temp_celsius": "Temperature of the slow GPU",
    "tier": "Idle limit reached",
    "unmet_gpu_hours": "GPU time missed",
    "unmet_jobs": "Jobs that waited",
    "unobserved_device_hours": "Not measured",
    "unobserved_gpu_hours": "Not measured",
    "verdict": "Size of the slice",
    "windows": "Five-minute windows",
    "worst_level": "Slowest kind of link",
    "writers": "Placed by",
}
"""By the name of the evidence."""

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
    if name in NAMES:
        return NAMES[name]
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
        return html.Span(formats.clip(entry, 140), title=str(entry))
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


def readable(text: object) -> str:
    """Text of the API with its instants as a person writes them, in the zone of the page."""
    return _INSTANT.sub(lambda found: formats.when(found[0]), str(text or ""))
