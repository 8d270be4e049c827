"""Held devices without measurements."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _devices(e: Evidence) -> str:
    """ "64 GPUs", "3 MIG slices", "62 GPUs and 51 MIG slices": which GPU an unmeasured slice is on is not known."""
    slices = e.get("slices", 0)
    parts = [(e["devices"] - slices, "GPU"), (slices, "MIG slice")]
    return " and ".join(count(number, name) for number, name in parts if number) or count(0, "GPU")


def _summary(e: Evidence) -> str:
    if (place := e.get("place")) is None:
        return (
            f"{e['blind_devices']} of {count(e['devices'], 'device')} held and not measured for "
            f"{count(e['unobserved_device_hours'], 'device-hour')}."
        )
    nodes = f" on {count(e['node_count'], 'node')}" if place in ("cluster", "pool") else ""
    held = f"held by {count(e['jobs'], 'job')} for {count(e['unobserved_gpu_hours'], 'GPU-hour')}"
    if place == "gpu":
        return f"This GPU was never measured: {held}."
    return f"{_devices(e)} of this {place}{nodes} never measured: {held}."


def _headline(e: Evidence) -> str:
    if e.get("place") == "gpu":
        return "{is|was} in use and never measured"
    if "place" in e:
        return f"{{has|had}} {_devices(e)} in use and never measured"
    return f"{{holds|held}} {count(e['blind_devices'], 'device')} that nothing {{measures|measured}}"


def _remedy(e: Evidence) -> str:
    if "place" in e:
        return (
            "Run dcgm-exporter on these nodes for every GPU (option -d f, no device filter) and scrape it. For history of a "
            "scheduler alone, import the metrics of the same time."
        )
    return "Check that dcgm-exporter runs on the node, that profiling is not paused, and that the GPU is on the bus."


def _severity(e: Evidence, hours: float) -> str:
    return "medium" if e.get("longest_hours", 0) > 24 else "low"


BLIND_SPOT = register(
    Rule(
        id="blind-spot",
        title="GPUs held and not measured",
        why="Unmeasured time cannot be evaluated: it is charged as allocated and shown as unobserved.",
        bucket="unobserved",
        layer="scheduling",
        effort=HOURS,
        needs=("runs",),
        thresholds=(
            Threshold("blind_us_min", HOUR_US, "an hour without a single valid sample of a held device"),
            Threshold("still_us", HOUR_US, "a device without measurements in the last known hour counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        mode="runs",
        severity=_severity,
    )
)
