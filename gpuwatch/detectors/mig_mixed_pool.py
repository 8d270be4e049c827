"""Pools that mix GPUs in MIG mode with whole GPUs."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _summary(e: Evidence) -> str:
    sentence = f"{count(e['mig_gpus'], 'GPU')} in MIG mode and {count(e['whole_gpus'], 'whole GPU')} in one pool"
    if not e["starved_requests"]:
        return f"{sentence}: a request cannot choose between them (strategy {e['mig_strategy']})."
    waited = f"{count(e['starved_requests'], 'request')} waited up to {count(e['waited_minutes'], 'minute')} an hour"
    return f"{sentence}: {waited} for one kind while others were free."


def _headline(e: Evidence) -> str:
    return f"{{mixes|mixed}} {count(e['mig_gpus'], 'GPU')} in MIG mode and {count(e['whole_gpus'], 'whole GPU')}"


def _remedy(e: Evidence) -> str:
    if e["starved_requests"]:
        return "Split the pool by MIG mode, or repartition the free GPUs to what the requests ask for."
    return "Split the pool by MIG mode, or set mig.strategy=mixed and taint the nodes in MIG mode."


MIG_MIXED_POOL = register(
    Rule(
        id="mig-mixed-pool",
        title="MIG and whole GPUs in one pool",
        why="A job that wants a GPU gets a slice, or waits for one kind while others are free.",
        bucket="stranded",
        layer="partitioning",
        effort=DAYS,
        needs=("slices",),
        thresholds=(
            Threshold("waited_us_min", 10 * MINUTE_US, "Insufficient nvidia.com/... for ten minutes is starvation"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=DAY_US,
        gap_us=DAY_US,
        least_us=HOUR_US,
        measures={
            "mig_gpus": "max",
            "whole_gpus": "max",
            "starved_requests": "max",
            "starved_devices": "max",
            "waited_minutes": "max",
        },
    )
)
