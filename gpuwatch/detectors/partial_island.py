"""NVLink islands partly held by small jobs while a request waits for a whole one."""

from __future__ import annotations

from gpuwatch.capacity.make_room import prepare_levels
from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, lasting, register


def _summary(e: Evidence) -> str:
    return (
        f"{e['jobs']} held {e['used_gpus']:g} of {e['island_gpus']:g} GPUs of an island while {e['waiting_job']} waited "
        f"{lasting(e['pending_minutes'], 'minutes')} for a whole one."
    )


def _headline(e: Evidence) -> str:
    return f"{{has|had}} an NVLink island in use in part while job {e['waiting_job']} {{waits|waited}} for a whole one"


def _remedy(e: Evidence) -> str:
    least = e["island_gpus"] / 2
    return f"Pack jobs of fewer than {least:g} GPUs on few nodes, and keep whole islands for those that want them."


PARTIAL_ISLAND = register(
    Rule(
        id="partial-island",
        title="NVLink island held in part",
        why="A small job in an island keeps everybody out who wants all of it; what is left of it stays free.",
        bucket="stranded",
        layer="placement",
        effort=DAYS,
        needs=("pending|workloads",),
        thresholds=(
            Threshold("held_us_min", 2 * HOUR_US, "held two hours by jobs that are smaller than half of it"),
            Threshold("wait_us_min", 30 * MINUTE_US, "a request for a whole one has waited half an hour"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, _: "medium",
        measures={
            "island_gpus": "max",
            "used_gpus": "max",
            "free_gpus": "max",
            "pending_minutes": "sum",
        },
        confidence=lambda e: 0.9,
        prepare=prepare_levels,
    )
)
