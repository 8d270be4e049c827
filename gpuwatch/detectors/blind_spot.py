"""Held devices without measurements."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _summary(e: Evidence) -> str:
    return (
        f"{e['blind_devices']} of {count(e['devices'], 'device')} held and not measured for "
        f"{count(e['unobserved_device_hours'], 'device-hour')}."
    )


def _remedy(e: Evidence) -> str:
    if e["never_measured"]:
        return (
            "Run dcgm-exporter on the node and let it export every GPU (option -d f, no device filter); "
            "check that its target is scraped."
        )
    return "Check that dcgm-exporter runs on the node, that profiling is not paused, and that the GPU is on the bus."


def _severity(e: Evidence, hours: float) -> str:
    return "medium" if e["longest_hours"] > 24 else "low"


BLIND_SPOT = register(
    Rule(
        id="blind-spot",
        title="GPUs held and never measured",
        why="Unmeasured time cannot be evaluated: it is charged as allocated and shown as unobserved.",
        bucket="unobserved",
        layer="scheduling",
        effort=HOURS,
        needs=("runs",),
        thresholds=(
            Threshold("blind_us_min", HOUR_US, "an hour without a single valid sample of a held device"),
            Threshold("still_us", HOUR_US, "blind within the last hour of what is known is blind still"),
        ),
        summary=_summary,
        remedy=_remedy,
        mode="runs",
        severity=_severity,
    )
)
