"""Pools whose nodes run different drivers."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, HOUR_US, SECOND_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _summary(e: Evidence) -> str:
    sentence = f"Drivers of the pool: {e['versions']}."
    if e["failed_starts"]:
        sentence += f" {count(e['failed_starts'], 'start')} failed on them."
    if e["unmet"]:
        sentence += f" A job needs {e['unmet']}."
    return sentence


def _headline(e: Evidence) -> str:
    return f"{{has|had}} several drivers: {e['versions']}"


def _remedy(e: Evidence) -> str:
    if e["unmet_jobs"] or e["failed_starts"]:
        return (
            "Pin the driver branch of the pool and roll it out, or rebuild the image for the CUDA that the nodes have."
        )
    return f"Pin the driver branch of the pool and bring {e['odd'] or 'the other nodes'} to it."


DRIVER_DRIFT = register(
    Rule(
        id="driver-drift",
        title="Several drivers in one pool",
        why="A job runs on one node and fails on the next; gangs across both fail or hang.",
        bucket="gap",
        layer="placement",
        effort=DAYS,
        needs=("sampled_drivers|labelled_drivers|events",),
        thresholds=(
            Threshold(
                "failed_start_us", 120 * SECOND_US, "a CUDA initialisation that fails ends a run within 120 seconds"
            ),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=DAY_US,
        gap_us=6 * HOUR_US,
        # A rollout of a day touches up to two clock hours more.
        least_us=DAY_US + 2 * HOUR_US,
        measures={"drivers": "max", "nodes": "last", "odd_nodes": "last", "unmet_jobs": "max", "failed_starts": "sum"},
    )
)
