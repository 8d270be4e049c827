"""GPUs whose kernels are too small for them: small batches, one request at a time."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.ledger import workload_class
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _summary(e: Evidence) -> str:
    return (
        f"{e['small_devices']} of {count(e['devices'], 'device')} active {100 * e['gr_engine_ratio']:.0f} % of the time with "
        f"{100 * e['sm_active_ratio']:.0f} % of SMs at work and {100 * e['fb_used_ratio']:.0f} % of memory in use, for two hours or longer."
    )


def _headline(e: Evidence) -> str:
    return f"{{runs|ran}} batches too small for {count(e['small_devices'], 'GPU')}: {100 * e['sm_active_ratio']:.0f} % of the SMs {{are|were}} at work"


def _remedy(e: Evidence) -> str:
    if e.get("is_serving"):
        return "Use continuous batching, or share the GPU with other services (MIG slice, MPS or time-slicing)."
    return (
        "Raise the batch size or use continuous batching: SMs and memory have room. "
        "What cannot be batched shares a GPU (MIG slice, MPS)."
    )


SMALL_BATCH = register(
    Rule(
        id="small-batch",
        title="Batches too small for the GPU",
        why="A kernel that fills a fifth of the SMs costs the whole GPU while it runs.",
        bucket="stalled",
        layer="partitioning",
        effort=DAYS,
        needs=("runs",),
        thresholds=(
            Threshold("busy_ratio_min", 0.6, "the engine is active 60 % of the time: it does serve or train"),
            Threshold("sm_active_max", 0.4, "and less than 40 % of the SMs hold work"),
            Threshold("occupancy_max", 0.3, "few warps an SM: a memory-bound decode has 30 % and more"),
            Threshold("power_ratio_max", 0.5, "less than half of the board power of the model"),
            Threshold("memory_ratio_max", 0.6, "memory has room for larger batches"),
            Threshold("roof_max", 0.4, "well-tuned training reaches 40 % of its nearest roofline"),
            Threshold("sm_active_good", 0.8, "NVIDIA DCGM user guide: 0.8 of the SMs is what effective use needs"),
            Threshold("tensor_roof", 0.93, "dcgmproftester saturates tensor cores at about 0.93"),
            Threshold("dram_roof", 0.8, "NVIDIA DCGM user guide: practical DRAM peak"),
            Threshold("windows_min", 18, "three quarters of the 24 five-minute windows of two hours"),
            Threshold("coverage_min", 0.8, "a window is evaluated if 80 % of it was sampled"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("cool_down_us", 2 * MINUTE_US, "last 2 minutes of a run: checkpoint and teardown"),
            Threshold("still_us", 10 * MINUTE_US, "small within the last 10 known minutes counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        severity=lambda e, hours: "low",
        look_back_us=2 * HOUR_US,
        measures={
            "small_devices": "devices",
            "devices": "max",
            "windows": "sum",
            "gr_engine_ratio": "mean",
            "sm_active_ratio": "mean",
            "sm_occupancy_ratio": "mean",
            "power_ratio": "mean",
            "fb_used_ratio": "mean",
        },
        prepare=workload_class.prepare,
    )
)
