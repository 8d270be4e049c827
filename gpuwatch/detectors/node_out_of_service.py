"""Nodes that their scheduler keeps out of service for a day or more."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, lasting, register


def _state(e: Evidence) -> str:
    return "drained" if e["state"] == "drain" else "down"


def _summary(e: Evidence) -> str:
    reason = f" Reason: {e['reason']}." if e.get("reason") else " The scheduler gives no reason."
    return (
        f"{count(e['gpus'], 'GPU')} {_state(e)} for {lasting(e['hours'], 'hours')}: {count(e['gpu_hours'], 'GPU-hour')} paid for "
        f"that no job could use.{reason}"
    )


def _headline(e: Evidence) -> str:
    reason = f" ({e['reason']})" if e.get("reason") else ""
    return f"{{is|was}} {_state(e)} with {count(e['gpus'], 'GPU')}{reason}"


def _remedy(e: Evidence) -> str:
    return (
        "Repair the node and return it to service (Slurm: scontrol update NodeName=NODE State=RESUME; Kubernetes: kubectl uncordon), "
        "or hand it back to whoever is paid for it."
    )


NODE_OUT_OF_SERVICE = register(
    Rule(
        id="node-out-of-service",
        title="A node out of service for long",
        why="A drained or down node is paid for and runs nothing. After the first day it is easily forgotten.",
        bucket="out_of_service",
        layer="scheduling",
        effort=HOURS,
        thresholds=(Threshold("still_us", 2 * 3_600_000_000, "out within the last two known hours counts as ongoing"),),
        least_us=DAY_US,
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        measures={"gpus": "max", "gpu_hours": "sum", "hours": "sum"},
    )
)
"""A shorter outage is maintenance."""
