"""Jobs that failed, and the GPU time whose work they lost."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import Any

import pyarrow as pa

from gpuwatch.advisor.inputs import money
from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.not_running import REMEDIES
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, lasting, price_text, register
from gpuwatch.store.database import Store

HIGH_GPU_HOURS, MEDIUM_GPU_HOURS = 1000, 100
_COST = pa.schema([("chain", pa.string()), ("cost", pa.string()), ("currency", pa.string())])
REASON_WORDS = {"failed": "its program ended with an error"}
"""Reasons that would repeat that a run failed."""
_REMEDIES = {
    "node failure": "Look at the hardware errors and the drain history of its nodes.",
    "out of memory": "Look at the memory that it needs and the memory that it requests.",
    "time limit": "Ask for the time that it needs, or stop and save before the limit (Slurm: --signal).",
    "evicted by the node": "Request the memory and local storage that it uses, so that the kubelet does not evict it.",
    **REMEDIES,
}


def prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes failed_span, what failed attempts held and lost, and failed_cost, its price by job chain."""
    store.run("views/session")
    store.run("views/pod_state")
    store.run("detectors/support/failed_work_lost", **scope.sql_parameters())
    by_chain: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in store.rows("detectors/support/failed_work_price", cluster=scope.cluster):
        by_chain[row["chain"]].append(row)
    costs = [{"chain": chain, **_cost(rows)} for chain, rows in by_chain.items()]
    with store.view("failed_cost_row", pa.Table.from_pylist(costs, schema=_COST)):
        store.keep("failed_cost", "select * from failed_cost_row")


def _cost(rows: list[dict[str, Any]]) -> dict[str, str | None]:
    """The cost of a chain; nothing where a part has no rate, or where currencies differ."""
    currencies = {row["currency"] for row in rows}
    if len(currencies) != 1 or any(row["price"] is None for row in rows):
        return {"cost": None, "currency": None}
    parts = (Fraction(row["price"]) * Fraction(int(row["units"]), row["den"]) / HOUR_US for row in rows)
    return {"cost": money(sum(parts, Fraction(0))), "currency": currencies.pop()}


def _summary(e: Evidence) -> str:
    price = "" if e.get("lost_cost") is None else f" ({price_text(e['lost_cost'], e['currency'])})"
    reasons = (
        f"by reason: {e['by_reason']}"
        if "," in e["by_reason"]
        else f"reason: {REASON_WORDS.get(e['reason'], e['reason'])}"
    )
    if e["reason"] in REMEDIES:
        return f"{count(e['gpus'], 'GPU')} held while no container runs: {count(e['lost_gpu_hours'], 'GPU-hour')}{price}; {reasons}."
    return (
        f"{count(e['failures'], 'run')} on {count(e['gpus'], 'GPU')} ended without a result: "
        f"{count(e['lost_gpu_hours'], 'GPU-hour')} of work lost{price}; {reasons}."
    )


def _headline(e: Evidence) -> str:
    price = "" if e.get("lost_cost") is None else f" ({price_text(e['lost_cost'], e['currency'])})"
    if e["reason"] in REMEDIES:
        return f"{{holds|held}} {count(e['gpus'], 'GPU')} while no container runs ({e['reason']})"
    return (
        f"lost {count(e['lost_gpu_hours'], 'GPU-hour')}{price} in {count(e['failures'], 'failed run')} "
        f"({REASON_WORDS.get(e['reason'], e['reason'])})"
    )


def _remedy(e: Evidence) -> str:
    cause = _REMEDIES.get(e["reason"], "Look at the log of the run that failed.")
    if e["reason"] in REMEDIES:
        return cause
    if e.get("checkpoint_minutes"):
        return (
            f"{cause} Next time, save checkpoints more often than every {lasting(e['checkpoint_minutes'], 'minutes')}."
        )
    if e.get("continued"):
        return f"{cause} A later run may have continued this one: if it saves checkpoints, declare them (label gpuwatch.io/checkpoint-minutes)."
    return f"{cause} Next time, save checkpoints, and declare how far apart they are (label gpuwatch.io/checkpoint-minutes)."


def _severity(e: Evidence, hours: float) -> str:
    lost = e["lost_gpu_hours"]
    return "high" if lost >= HIGH_GPU_HOURS else "medium" if lost >= MEDIUM_GPU_HOURS else "low"


FAILED_WORK = register(
    Rule(
        id="failed-work",
        title="Work lost with failed runs",
        why="A run that fails has used its GPUs for nothing since its last checkpoint, and the same work is paid for again.",
        bucket=None,
        layer="scheduling",
        effort=DAYS,
        needs=("runs", "failed_claims"),
        priced=True,
        thresholds=(
            Threshold("lost_gpu_hours_min", 8, "a node of 8 GPUs for an hour; less is part of trying things out"),
            Threshold("together_us", 10 * MINUTE_US, "the rest of a gang ends within ten minutes of a failed member"),
            Threshold("successor_us", DAY_US, "a run of the same name after a time limit may continue it"),
            Threshold(
                "restart_us",
                15 * MINUTE_US,
                "on average from one restart to the next: up to 5 minutes of waiting and 10 of running",
            ),
            Threshold(
                "loop_restarts_min", 12, "restarts of a crash loop that began after good work: an hour of them, or more"
            ),
            Threshold("recent_us", 7 * DAY_US, "the finding stays open for a week after the last failure"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=_severity,
        mode="runs",
        measures=dict.fromkeys(("lost_gpu_hours", "held_gpu_hours", "failures", "gpus", "checkpoint_minutes"), "max"),
        prepare=prepare,
    )
)
