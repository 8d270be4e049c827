"""Jobs that are preempted again and again, and jobs of high priority that wait behind lower ones."""

from __future__ import annotations

from gpuwatch.core.clock import DAY_US, HOUR_US, MINUTE_US
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import EvaluationScope, Evidence, Rule, Threshold, count, lasting, register
from gpuwatch.store.database import Store


def _prepare(store: Store, scope: EvaluationScope) -> None:
    """Makes wait_span and run_span: who waited and who ran in which queue."""
    store.run("views/wait_span", **scope.sql_parameters())
    store.run("views/run_span", **scope.sql_parameters())


def _summary(e: Evidence) -> str:
    if e["case"] == "inversion":
        return (
            f"{count(e['waiting_jobs'], 'job')} of higher priority, the longest for "
            f"{lasting(e['longest_wait_minutes'], 'minutes')}, behind runs of lower priority that hold "
            f"{count(e['lower_devices'], 'GPU')} and may be displaced."
        )
    if e["case"] == "pool":
        return (
            f"{count(e['preemptions'], 'preemption')} of {count(e['jobs'], 'job')} in 24 hours, "
            f"more than the {count(e['pool_gpus'], 'GPU')} of the pool."
        )
    lost = (
        f"about {count(e['lost_gpu_hours'], 'GPU-hour')} of work lost since the last checkpoints"
        if e["lost_gpu_hours"]
        else "the amount of lost work is unknown"
    )
    return f"{count(e['preemptions'], 'preemption')} in 24 hours ended {count(e['ended_gpu_hours'], 'GPU-hour')} of runs; {lost}."


def _headline(e: Evidence) -> str:
    if e["case"] == "inversion":
        return f"{{has|had}} {count(e['waiting_jobs'], 'job')} of higher priority waiting behind lower ones"
    if e["case"] == "pool":
        return f"{{has|had}} {count(e['preemptions'], 'preemption')} in 24 hours"
    return f"was preempted {count(e['preemptions'], 'time')} in 24 hours"


def _remedy(e: Evidence) -> str:
    if e["case"] == "inversion":
        return "Look why the scheduler does not preempt: its preemption policy, priority of the gang, or a lower run that is exempt."
    return (
        "Raise the minimum runtime before preemption (2 hours is usual), write a checkpoint before preemption, and declare how far apart "
        "checkpoints are (label gpuwatch.io/checkpoint-minutes)."
    )


PREEMPTION_THRASH = register(
    Rule(
        id="preemption-thrash",
        title="Preempted again and again",
        why="What a run did since its last checkpoint is lost when it is preempted, and its start is paid for again.",
        bucket="compute",
        layer="scheduling",
        effort=DAYS,
        needs=("preempted_claims|workloads|events",),
        thresholds=(
            Threshold("preemptions_min", 3, "the same workload three times in 24 hours"),
            Threshold("pool_rate_max", 1, "preemptions a GPU and day of a pool"),
            Threshold("inverted_us_min", 15 * MINUTE_US, "a job of higher priority waits while lower ones run"),
            Threshold(
                "spared_us", 2 * HOUR_US, "Meta RSC preempts after 2 hours; Slurm does not report its exempt time"
            ),
            Threshold("same_us", 5 * MINUTE_US, "reports about a job within 5 minutes are one preemption"),
            Threshold("day_us", DAY_US, "the day over which preemptions are counted"),
            Threshold("fresh_us", 2 * HOUR_US, "workloads are recorded again every hour"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=2 * HOUR_US,
        gap_us=DAY_US,
        measures={
            "preemptions": "max",
            "ended_gpu_hours": "max",
            "lost_gpu_hours": "sum",
            "pool_gpus": "last",
            "jobs": "max",
            "waiting_jobs": "max",
            "waiting_devices": "max",
            "longest_wait_minutes": "max",
            "lower_devices": "max",
        },
        prepare=_prepare,
    )
)
