"""Scenarios: planted cases that must be found, and decoys that must not be reported."""

from __future__ import annotations

from dataclasses import dataclass

FALSE_UTILIZATION = "false-utilization"
IDLE_HOARDING = "idle-hoarding"
BLIND_SPOT = "blind-spot"
WORKLOAD_CLASS = "gpuwatch.io/workload-class"


@dataclass(frozen=True)
class Scenario:
    """One case. `where`: slurm, kubernetes, mig or lite (the node whose exporter has default counters only).

    `hours` is its length in a window of two days or more. `idle_members`: how many of its GPUs are idle (the
    others train). `at_end`: still running when the window ends. `why`: what makes it right or wrong to report.
    """

    name: str
    detector: str
    planted: bool
    where: str
    gpus: int
    hours: float
    load: str
    kind: str
    why: str
    idle_members: int = 0
    at_end: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    seconds: int = 0
    """Exact length, for cases that must not scale with the window."""


def _planted(name: str, detector: str, where: str, gpus: int, hours: float, load: str, kind: str, why: str) -> Scenario:
    return Scenario(name, detector, True, where, gpus, hours, load, kind, why)


def _decoy(name: str, detector: str, where: str, gpus: int, hours: float, load: str, kind: str, why: str) -> Scenario:
    return Scenario(name, detector, False, where, gpus, hours, load, kind, why)


_FU, _IH = FALSE_UTILIZATION, IDLE_HOARDING

SCENARIOS: tuple[Scenario, ...] = (
    _planted("masked-idle", _FU, "slurm", 2, 7, "masked", "training", "engine .95, SM .20, tensor .03"),
    _planted("idle-from-start", _IH, "slurm", 2, 6, "idle", "training", "held from the first second, never used"),
    _decoy("memory-bound-decode", _FU, "kubernetes", 1, 8, "decode", "serving", "at the HBM roof: DRAM .68"),
    _decoy("warm-up", _IH, "slurm", 1, 5, "warm-up", "training", "idle for the first 8 minutes only"),
    _planted("mig-slice-masked", _FU, "mig", 1, 8, "slice-masked", "batch", "slice engine .95, SM .18"),
    _planted("mig-slice-idle", _IH, "mig", 1, 9, "slice-idle", "notebook", "slice held, no work"),
    _decoy("mig-busy-slice", _FU, "mig", 1, 8, "slice-busy", "batch", "all SMs of the slice busy"),
    Scenario(
        "idle-after-activity",
        _IH,
        True,
        "slurm",
        1,
        9,
        "idle-after-activity",
        "training",
        "hangs after a third of its time, memory full, still held at the end",
        at_end=True,
    ),
    _planted(
        "unbatched-inference", _FU, "kubernetes", 1, 9, "unbatched", "serving", "GPU_UTIL 96, SM .22, no batching"
    ),
    _decoy("short-idle", _IH, "slurm", 1, 5, "short-idle", "batch", "12 minutes idle between phases"),
    _decoy("low-occupancy-gemm", _FU, "slurm", 2, 6, "gemm", "training", "occupancy .20 by design, tensor .50"),
    Scenario(
        "partial-idle",
        _IH,
        True,
        "slurm",
        4,
        7,
        "train-lean",
        "training",
        "half of its GPUs idle, the other half trains",
        idle_members=2,
    ),
    _decoy("missing-sm-active", _FU, "lite", 1, 6, "lite-suspect", "training", "no SM_ACTIVE: cannot be judged"),
    _planted("spinning-kernel", _FU, "slurm", 1, 5, "spinning", "batch", "one SM spins, GPU_UTIL 100"),
    _planted("tickle-kernels", _IH, "slurm", 1, 8, "tickled", "training", "a tiny kernel every few minutes"),
    _decoy("bursty-serving", _IH, "kubernetes", 1, 20, "bursts", "serving", "idle for less than 10 minutes at a time"),
    _planted("abandoned-notebook", _IH, "kubernetes", 1, 11, "notebook-left", "notebook", "hours between two cells"),
    _decoy("telemetry-gaps-busy", _IH, "slurm", 1, 6, "gaps-busy", "training", "20 to 50 minutes without samples"),
    _decoy("telemetry-gaps-idle", _IH, "slurm", 1, 7, "gaps-idle", "notebook", "idle runs cut short by gaps"),
    _decoy("checkpoint-pauses", _IH, "slurm", 1, 6, "checkpoints", "training", "a minute of saving each half hour"),
    _decoy("power-brake", _FU, "slurm", 1, 5, "braked", "training", "hardware slowdown bits, SM lowered by it"),
    _decoy("power-capped", _FU, "slurm", 1, 5, "capped", "training", "software power cap at full power"),
    Scenario(
        "latency-critical-label",
        _FU,
        False,
        "kubernetes",
        1,
        8,
        "latency",
        "serving",
        "kept warm for latency, and says so",
        labels=(("latency-critical", "true"),),
    ),
    _planted("small-kernels-dp", _FU, "slurm", 4, 6, "small-kernels", "training", "data parallel, kernels too small"),
    _decoy(
        "link-bound-gang", _FU, "slurm", 4, 5, "exchange", "training", "NVLink .62 busy: communication, not idleness"
    ),
    _decoy(
        "memory-bound-low-sm", _FU, "kubernetes", 1, 6, "decode-narrow", "serving", "SM .44 but DRAM at .7 of its roof"
    ),
    _decoy("fp32-simulation", _FU, "slurm", 1, 6, "simulation", "simulation", "tensor 0, FP32 .60"),
    Scenario(
        "latency-critical-class",
        _FU,
        False,
        "kubernetes",
        1,
        7,
        "latency",
        "serving",
        "workload class latency-critical",
        labels=((WORKLOAD_CLASS, "latency-critical"),),
    ),
    Scenario(
        "shorter-than-warm-up",
        _IH,
        False,
        "slurm",
        1,
        0.0,
        "short",
        "batch",
        "ended before the 10-minute warm-up did",
        seconds=523,
    ),
)
"""In order of importance: a fleet too small for all of them gets the first ones."""

BLIND = {
    "hidden-gpu-slurm": "its node's exporter leaves out GPU 0",
    "hidden-gpu-kubernetes": "its node's exporter leaves out GPU 0",
    "node-without-exporter": "no exporter on the node",
}
