"""Distributed training on MIG slices."""

from __future__ import annotations

from gpuwatch.core.clock import MINUTE_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, lasting, register


def _summary(e: Evidence) -> str:
    return (
        f"A training gang of {e['members']} has {count(e['slices'], 'member')} on MIG slices of {e['spread']} "
        f"for {lasting(e['together_hours'], 'hours')}."
    )


def _headline(e: Evidence) -> str:
    return f"{{trains|trained}} across {count(e['slices'], 'MIG slice')} of {e['spread']}"


def _remedy(e: Evidence) -> str:
    return "Move distributed training to whole GPUs: MIG slices have no NVLink and no peer-to-peer between them."


MIG_TRAINING = register(
    Rule(
        id="mig-training",
        title="Distributed training on MIG slices",
        why="Slices have no NVLink between them: every gradient goes through the host, and the gang waits for it.",
        bucket="communication",
        layer="partitioning",
        effort=HOURS,
        needs=("runs", "slices"),
        thresholds=(Threshold("together_us_min", 30 * MINUTE_US, "trial runs of a gang are shorter"),),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        mode="runs",
        measures={"members": "max", "slices": "max", "gpus": "max", "together_hours": "max"},
    )
)
