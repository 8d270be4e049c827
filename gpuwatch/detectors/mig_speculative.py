"""Unused MIG instances while requests wait for another profile."""

from __future__ import annotations

from gpuwatch.advisor.idle_mig import prepare
from gpuwatch.core.clock import DAY_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register, waits


def _summary(e: Evidence) -> str:
    return (
        f"{count(e['idle_instances'], 'instance')} ({e['profiles']}) unused for a week, {count(e['waiting_jobs'], 'job')} "
        f"waiting for what would fit in their place ({e['wanted']})."
    )


def _headline(e: Evidence) -> str:
    idle = count(e["idle_instances"], "unused MIG instance")
    return f"{{keeps|kept}} {idle} ({e['profiles']}) while {count(e['waiting_jobs'], 'job')} {waits(e['waiting_jobs'])} for {e['wanted']}"


def _remedy(e: Evidence) -> str:
    return f"Repartition this GPU: without its unused instances {e['would_serve']:g} x {e['wanted']} fit."


MIG_SPECULATIVE = register(
    Rule(
        id="mig-speculative",
        title="Unused MIG instances block other requests",
        why="A layout without demand blocks requests for other profiles; its slices are paid for and unused.",
        bucket="mig_remainder",
        layer="partitioning",
        effort=DAYS,
        needs=("slices", "pending|workloads"),
        thresholds=(
            Threshold("held_ratio_max", 0.1, "allocated for less than a tenth of seven days"),
            Threshold("known_ratio_min", 0.8, "four fifths of those seven days are known"),
            Threshold("wait_us_min", 30 * MINUTE_US, "a request that has waited half an hour"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, _: "low",
        look_back_us=7 * DAY_US,
        measures={
            "idle_instances": "max",
            "held_ratio": "max",
            "waiting_jobs": "max",
            "would_serve": "last",
            "pending_minutes": "sum",
        },
        confidence=lambda e: 0.8,
        prepare=prepare,
    )
)
