"""Gangs that hold GPUs with some members while the others find no place."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, lasting, register


def _summary(e: Evidence) -> str:
    sentence = (
        f"{e['running_pods']:g} of {e['pods_min']:g} members running and holding {count(e['held_devices'], 'device')}, "
        f"the rest without a place for {lasting(e['partial_minutes'], 'minutes')}"
    )
    return f"{sentence}; in deadlock with {e['deadlock_with']}." if e.get("deadlock_with") else f"{sentence}."


def _headline(e: Evidence) -> str:
    held = count(e["held_devices"], "device")
    return f"{{runs|ran}} {e['running_pods']:g} of {e['pods_min']:g} members, so {held} {{wait|waited}} for the rest"


def _remedy(e: Evidence) -> str:
    rule = "enable all-or-nothing admission (Kueue waitForPodsReady, a PodGroup, Volcano minAvailable)."
    if e.get("job_ended"):
        return f"The job has ended. Next time, {rule}"
    if e.get("deadlock_with"):
        return f"Stop one of the gangs so that the other can start, then {rule}"
    return f"Release the members that wait for the others, or free {count(e['missing_devices'], 'device')}; {rule}"


GANG_PARTIAL = register(
    Rule(
        id="gang-partial",
        title="Gang that runs in part",
        why="A gang works only when all its members run; until then the GPUs that some of them hold do nothing.",
        bucket="hoarded",
        layer="scheduling",
        effort=DAYS,
        needs=("runs", "workloads", "pending"),
        thresholds=(
            Threshold("partial_us_min", 5 * MINUTE_US, "the gang plugin of Kubernetes gives up after 5 minutes"),
            Threshold("work_max", 0.5, "a gang whose members work for half of the time does not wait for the others"),
            Threshold("fresh_us", 2 * HOUR_US, "a waiting request is recorded again every hour"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        measures={
            "running_pods": "last",
            "pods_min": "last",
            "held_devices": "max",
            "missing_devices": "last",
            "partial_minutes": "sum",
            "longest_minutes": "max",
            "deadlocked_gangs": "last",
        },
    )
)
