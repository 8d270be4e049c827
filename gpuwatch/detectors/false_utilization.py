"""GPUs that report busy while few SMs work, or while their SMs wait in a loop."""

from __future__ import annotations

from gpuwatch.core.clock import HOUR_US, MINUTE_US
from gpuwatch.ledger import workload_class
from gpuwatch.rules.layers import DAYS
from gpuwatch.rules.rule import Evidence, Rule, Threshold, count, register


def _percent(value: float | None) -> str:
    return "?" if value is None else f"{100 * value:.0f} %"


def _summary(e: Evidence) -> str:
    busy = e.get("gr_engine_ratio", e.get("gpu_util_ratio"))
    power = f", at {_percent(e['power_ratio'])} of its power" if e["cause"] == "spin" else ""
    return (
        f"{e['hollow_devices']} of {count(e['devices'], 'device')} busy {_percent(busy)} of the time with "
        f"{_percent(e['sm_active_ratio'])} of SMs active and tensor cores at {_percent(e.get('tensor_active_ratio'))}{power}."
    )


def _headline(e: Evidence) -> str:
    busy = count(e["hollow_devices"], "device")
    return f"{{keeps|kept}} {busy} busy with only {_percent(e['sm_active_ratio'])} of the SMs at work"


_REMEDIES = {
    "host": "The host feeds the GPU too slowly: more loader workers, pinned memory, prefetch, CUDA graphs.",
    "hung": (
        "Nothing moves between the GPUs since they last worked: a collective hangs. Look at the logs of all ranks for the one that "
        "stopped (NCCL_DEBUG, a flight recorder), and set a timeout for collectives."
    ),
    "spin": (
        "A kernel occupies the SMs and waits in a loop: it computes nothing and reads no memory. Look for a lock or flag that is never "
        "set, or a script that keeps the GPU busy."
    ),
    "server": (
        "An inference server with little to do: share the GPU with others (MIG slice, MPS or time-slicing), or scale to zero while no "
        "requests come."
    ),
}
_SMALL = "Kernels are too small for the GPU: batch or fuse them, use CUDA graphs, or move to a MIG slice of this size."


def _remedy(e: Evidence) -> str:
    if e["cause"] == "hung" and e.get("job_ended"):
        return "Its ranks hung until the job ended. Look at the logs of all ranks for the one that stopped, and set a timeout for collectives."
    return _REMEDIES.get(e["cause"], _SMALL)


def _confidence(e: Evidence) -> float:
    """The strong form is 95 % busy at 20 % of SMs. Of a waiting loop, power is the evidence."""
    if e["cause"] == "spin":
        return 0.85
    strong = e.get("gr_engine_ratio", 0) >= 0.9 and e["sm_active_ratio"] <= 0.25 and e["roof_ratio"] < 0.25
    return 0.95 if strong else 0.85 if e["sm_active_ratio"] <= 0.35 else 0.7


FALSE_UTILIZATION = register(
    Rule(
        id="false-utilization",
        title="Reported busy, mostly idle SMs",
        why="GPU_UTIL and engine-active count a GPU as busy when one small kernel runs; SM_ACTIVE shows how much of it works.",
        bucket="stalled",
        layer="scheduling",
        effort=DAYS,
        needs=("runs",),
        thresholds=(
            Threshold("busy_ratio_min", 0.8, "GPU_UTIL or GR_ENGINE_ACTIVE that every dashboard shows as busy"),
            Threshold("sm_active_max", 0.5, "NVIDIA DCGM user guide: below 0.5 likely ineffective"),
            Threshold("memory_bound_min", 0.6, "DRAM at 60 % of its peak: memory-bound work, not waste"),
            Threshold("roof_max", 0.4, "well-tuned training reaches 40 % of its nearest roofline"),
            Threshold("link_ratio_min", 0.3, "links busy 30 % of the time: waiting on communication"),
            Threshold("network_bytes_per_s_min", 5e9, "PCIe traffic of a gang that waits on InfiniBand or RoCE"),
            Threshold("tensor_roof", 0.93, "dcgmproftester saturates tensor cores at about 0.93"),
            Threshold("dram_roof", 0.8, "NVIDIA DCGM user guide: practical DRAM peak"),
            Threshold("spin_tensor_max", 0.005, "the noise floor: tensor cores do nothing"),
            Threshold("spin_dram_max", 0.01, "the noise floor: neither memory nor other pipes do anything"),
            Threshold("spin_power_ratio_max", 0.25, "of TDP: SMs that are active and compute take more"),
            Threshold("hung_link_ratio_max", 0.01, "NVLink below 1 %: no rank exchanges anything"),
            Threshold("hung_pcie_bytes_per_s_max", 1e8, "and hardly any PCIe traffic"),
            Threshold("windows_min", 5, "three quarters of the six 5-minute windows of half an hour, rounded up"),
            Threshold("coverage_min", 0.8, "a window is evaluated if 80 % of it was sampled"),
            Threshold("warm_up_us", 10 * MINUTE_US, "first 10 minutes of a run: compile, download, collective init"),
            Threshold("cool_down_us", 2 * MINUTE_US, "last 2 minutes of a run: checkpoint and teardown"),
            Threshold("still_us", 10 * MINUTE_US, "low SM activity within the last 10 known minutes counts as ongoing"),
        ),
        headline=_headline,
        summary=_summary,
        remedy=_remedy,
        look_back_us=HOUR_US,
        measures={
            "hollow_devices": "devices",
            "devices": "max",
            "windows": "sum",
            "gr_engine_ratio": "mean",
            "gpu_util_ratio": "mean",
            "sm_active_ratio": "mean",
            "tensor_active_ratio": "mean",
            "dram_active_ratio": "mean",
            "roof_ratio": "mean",
            "power_ratio": "mean",
        },
        confidence=_confidence,
        prepare=workload_class.prepare,
        unjudged="detectors/support/unjudged_false_utilization",
    )
)
