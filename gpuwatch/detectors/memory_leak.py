"""GPU memory in use without a job, and job memory that only grows."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.rules.layers import HOURS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, lasting, register


def _summary(e: Evidence) -> str:
    if e["shape"] == "orphan":
        of = f", left by job {e['last_job']}" if e.get("last_job") else ""
        waits = e.get("requests_waiting", 0)
        waited = f"; {count(waits, 'request')} waited meanwhile" if waits else ""
        return f"{e['fb_used_gib']:.1f} GiB in use on an unallocated GPU{of}, for {lasting(e['orphan_hours'], 'hours')}{waited}."
    full = e.get("hours_to_full")
    hours_full = f"; full in {lasting(full, 'hours')}" if full is not None else ""
    return (
        f"Memory grows by {100 * e['growth_ratio_per_hour']:.1f} % an hour on {count(e['leaking_devices'], 'device')} while the work "
        f"stays the same{hours_full}."
    )


def _headline(e: Evidence) -> str:
    if e["shape"] == "orphan":
        of = f" that job {e['last_job']} left behind" if e.get("last_job") else ""
        return f"{{has|had}} {e['fb_used_gib']:.1f} GiB of its memory in use{of}, with no job on it"
    return f"{{leaks|leaked}} memory: {100 * e['growth_ratio_per_hour']:.1f} % more an hour on {count(e['leaking_devices'], 'device')}"


def _remedy(e: Evidence) -> str:
    if e["shape"] == "orphan":
        return "Find the process (nvidia-smi --query-compute-apps=pid,used_memory), kill it, or reset the GPU; then release it."
    if e.get("job_ended"):
        return "The job has ended. Before its next run, look for tensors kept across steps (losses, graphs, caches without a bound)."
    return "Look for tensors kept across steps (losses, graphs, caches without a bound); restart from a checkpoint before it is full."


MEMORY_LEAK = register(
    Rule(
        id="memory-leak",
        title="GPU memory leaked",
        why="Memory of an orphaned process makes the next job fail on a GPU that looks free; growing memory ends in an error.",
        bucket="out_of_service",
        layer="partitioning",
        effort=HOURS,
        needs=("memory_readings",),
        thresholds=(
            Threshold("leak_mib_min", 500, "more than 500 MiB above what an idle GPU of the model uses"),
            Threshold("baseline_mib_max", 1024, "drivers and daemons use no more than this of any model"),
            Threshold("orphan_us_min", 10 * MINUTE_US, "in use for 10 minutes on an unallocated GPU"),
            Threshold("settle_us", 5 * MINUTE_US, "the first 5 minutes after a job: its processes are being ended"),
            Threshold(
                "busy_ratio_max", 0.02, "from 2 % engine activity on, a process that no source names is working there"
            ),
            Threshold("growth_us", 6 * HOUR_US, "growth over six hours"),
            Threshold("growth_ratio_per_hour_min", 0.01, "faster than 1 % an hour (Theil-Sen slope)"),
            Threshold("r2_min", 0.9, "the growth is a straight line; memory that fills up and stays full is a cache"),
            Threshold("flat_ratio_max", 0.1, "while the SMs are as active as before, within 10 %"),
            Threshold("coverage_min", 0.8, "80 % of the five-minute windows have a memory reading"),
            Threshold("still_us", 10 * MINUTE_US, "true within the last 10 known minutes counts as ongoing"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=6 * HOUR_US,
        measures={
            "leaking_devices": "devices",
            "fb_used_gib": "max",
            "orphan_hours": "sum",
            "requests_waiting": "max",
            "growth_gib_per_hour": "mean",
            "growth_ratio_per_hour": "mean",
            "r2": "min",
            "hours_to_full": "last",
        },
    )
)
