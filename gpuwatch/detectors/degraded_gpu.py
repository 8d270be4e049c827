"""GPUs that report hardware faults."""

from __future__ import annotations

import re

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, lasting, register

LOST = (79,)
"""XID codes after which the GPU is off the bus."""


def _summary(e: Evidence) -> str:
    sentence = f"The GPU reports {e['signs']}"
    return (
        f"{sentence}, and was not read for {lasting(e['silent_hours'], 'hours')}."
        if e["silent_hours"]
        else f"{sentence}."
    )


def _headline(e: Evidence) -> str:
    signs = re.sub(r" \([^()]*\)", "", str(e["signs"]))
    if e.get("silent_hours") or e.get("xid") in LOST:
        return f"failed ({signs})"
    return f"{{reports|reported}} {signs}"


def _remedy(e: Evidence) -> str:
    if e.get("row_remap_failed") or e.get("memory_unrepairable"):
        return "Cordon and drain the node, run the vendor's field diagnostic, and replace the GPU (RMA)."
    if e.get("pcie_lanes") is not None and e.get("xid") is None:
        return "Drain the node, reseat the GPU or its riser, and check the slot: jobs on it feed it more slowly."
    return "Cordon and drain the node, and reset the GPU. If the sign has come back after a reset, replace it (RMA)."


DEGRADED_GPU = register(
    Rule(
        id="degraded-gpu",
        title="A broken GPU in service",
        why="A job on a broken GPU fails or computes nothing, and takes its whole gang with it.",
        bucket="out_of_service",
        layer="placement",
        effort=DAYS,
        thresholds=(
            Threshold("remapped_rows_max", 512, "DCGM health watch fails a GPU at 512 uncorrectable remaps"),
            Threshold("work_ratio_min", 0.9, "a link is evaluated in hours of work: an idle one may be narrow"),
            Threshold("seen_us_min", 30 * MINUTE_US, "half of the hour must be sampled to know whether it was work"),
            Threshold("alike_gpus_min", 3, "with fewer GPUs of a model in a pool the usual number of lanes is unknown"),
            Threshold("remembered_us", 30 * DAY_US, "a GPU off the bus is missed for a month"),
        ),
        needs=("fault_readings",),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=3 * HOUR_US,
        gap_us=DAY_US,
        measures={
            "xid": "last",
            "row_remap_pending": "max",
            "row_remap_failed": "max",
            "ecc_dbe_count": "max",
            "memory_unrepairable": "max",
            "remapped_uncorrectable_rows": "max",
            "pcie_lanes": "min",
            "pcie_lanes_usual": "max",
            "silent_hours": "sum",
        },
    )
)
