"""Pools of GPUs that several schedulers write to."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, MINUTE_US
from gpuwatch.rules.layers import WEEKS
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, register
from gpuwatch.store.database import Store


def _prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes run_placer: who placed each run that there was."""
    store.run("views/run_placer", cluster=scope.cluster, since_us=0, until_us=scope.until_us)


def _summary(e: Evidence) -> str:
    nodes = "node" if e["mixed_nodes"] == 1 else count(e["mixed_nodes"], "node")
    sentence = f"{e['writers']} place work on the same {nodes} in turns"
    proofs = (
        (e["doubly_given_gpu_hours"], f"{count(e['doubly_given_gpu_hours'], 'GPU-hour')} given out twice"),
        (e["evictions_an_hour"], f"{e['evictions_an_hour']:g} runs driven out in one hour"),
        (e["refused_pods_a_day"], f"{count(e['refused_pods_a_day'], 'pod')} refused by the device plugin in a day"),
    )
    return "; ".join([sentence, *(words for number, words in proofs if number)]) + "."


def _headline(e: Evidence) -> str:
    return f"{{gets|got}} work from several schedulers at once: {e['writers']}"


def _remedy(e: Evidence) -> str:
    return "Give each kind of work one scheduler that places it: nodes of its own, or one queue that all of it passes (a queue label on every pod of the namespace, no nodeName, one scheduler a pool)."


SCHEDULER_CONFLICT = register(
    Rule(
        id="scheduler-conflict",
        title="Several schedulers on one pool",
        why="Each of them places work by its own picture of what is free: they give out a GPU twice, and drive out each other.",
        bucket=None,
        layer="scheduling",
        effort=WEEKS,
        needs=("several_schedulers",),
        thresholds=(
            Threshold("share_min", 0.05, "each authority with more than 5 % of the pool's GPU-hours of 7 days"),
            Threshold("evictions_min", 3, "so many runs displaced within an hour prove the conflict"),
            Threshold("taken_us", 10 * MINUTE_US, "a scheduler that uses the GPU within 10 minutes displaced the run"),
            Threshold("refused_min", 3, "one or two refused pods a day are a device plugin that restarted"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        prepare=_prepare,
        mode="all",
        gap_us=DAY_US,
        measures={
            "authorities": "last",
            "mixed_nodes": "last",
            "gpu_hours": "last",
            "least_share_ratio": "last",
            "doubly_given_gpu_hours": "last",
            "evictions_an_hour": "last",
            "refused_pods_a_day": "last",
        },
    )
)
