"""Levels: the readings of a GPU during one kind of activity."""

from __future__ import annotations

from dataclasses import dataclass, fields

SW_POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
HW_POWER_BRAKE = 0x80
GPU_IDLE = 0x1


@dataclass(frozen=True)
class Level:
    """Mean readings. Ratios are 0..1; `power` is the fraction of the way from idle power to TDP.

    `pcie` is GB/s received, `link` the fraction of NVLink bandwidth in use, `clock` the fraction of boost clock,
    `util` what GPU_UTIL shows where that differs from `engine`, `reasons` the clock-event bits.
    """

    engine: float = 0.0
    sm: float = 0.0
    occupancy: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    fp64: float = 0.0
    fp32: float = 0.0
    fp16: float = 0.0
    power: float = 0.0
    memory: float = 0.0
    pcie: float = 0.0
    link: float = 0.0
    clock: float = 0.0
    util: float = -1.0
    reasons: float = 0.0


LEVEL_FIELDS = tuple(field.name for field in fields(Level))

LEVELS: dict[str, Level] = {
    # nobody works on the device
    "free": Level(reasons=GPU_IDLE),
    "context": Level(power=0.03, memory=0.012, reasons=GPU_IDLE),
    "resident": Level(power=0.03, memory=0.71, reasons=GPU_IDLE),
    "tickle": Level(0.013, 0.004, 0.001, 0.0, 0.002, power=0.045, memory=0.34, clock=0.5, util=0.55),
    # starting, loading, saving
    "loading": Level(0.07, 0.03, 0.01, 0.0, 0.03, power=0.11, memory=0.32, pcie=4.0, clock=0.9),
    "checkpoint": Level(0.05, 0.025, 0.01, 0.0, 0.03, power=0.12, memory=0.84, pcie=0.2, clock=0.9),
    # healthy work
    "train": Level(0.97, 0.87, 0.27, 0.45, 0.43, 0.0, 0.06, 0.03, 0.88, 0.84, 1.1, 0.14, 0.94),
    "train-lean": Level(0.95, 0.82, 0.31, 0.40, 0.37, 0.0, 0.09, 0.04, 0.78, 0.66, 1.6, 0.10, 0.96),
    "gemm": Level(0.98, 0.91, 0.20, 0.50, 0.38, 0.0, 0.03, 0.01, 0.93, 0.88, 0.8, 0.12, 0.92),
    "simulation": Level(0.97, 0.90, 0.58, 0.0, 0.30, 0.0, 0.60, 0.0, 0.74, 0.41, 0.1, 0.02, 0.97),
    "batch": Level(0.91, 0.71, 0.36, 0.18, 0.40, 0.0, 0.12, 0.10, 0.58, 0.52, 1.9, 0.0, 0.97),
    "evaluation": Level(0.76, 0.61, 0.26, 0.22, 0.36, 0.0, 0.08, 0.05, 0.46, 0.47, 0.6, 0.02, 0.98),
    "serve-low": Level(0.34, 0.24, 0.10, 0.05, 0.21, 0.0, 0.03, 0.02, 0.24, 0.88, 0.1, 0.01, 0.98),
    "serve-high": Level(0.71, 0.58, 0.22, 0.14, 0.45, 0.0, 0.05, 0.04, 0.49, 0.88, 0.3, 0.03, 0.97),
    "cell": Level(0.62, 0.49, 0.24, 0.12, 0.29, 0.0, 0.14, 0.02, 0.36, 0.29, 0.2, 0.0, 0.98),
    "slice-busy": Level(0.95, 0.83, 0.34, 0.26, 0.42, 0.0, 0.08, 0.03, 0.70, 0.74, 0.0, 0.0, 0.97),
    "decode": Level(0.98, 0.85, 0.30, 0.06, 0.68, 0.0, 0.04, 0.02, 0.66, 0.91, 0.2, 0.03, 0.97),
    "decode-narrow": Level(0.95, 0.44, 0.18, 0.05, 0.57, 0.0, 0.03, 0.02, 0.52, 0.90, 0.2, 0.02, 0.97),
    "exchange": Level(0.98, 0.36, 0.15, 0.12, 0.16, 0.0, 0.03, 0.02, 0.42, 0.77, 0.4, 0.62, 0.96),
    "capped": Level(0.97, 0.60, 0.24, 0.31, 0.34, 0.0, 0.05, 0.03, 0.985, 0.83, 1.0, 0.12, 0.71, reasons=SW_POWER_CAP),
    "braked": Level(
        0.97, 0.39, 0.17, 0.17, 0.20, 0.0, 0.03, 0.02, 0.34, 0.83, 0.9, 0.1, 0.45, reasons=HW_SLOWDOWN | HW_POWER_BRAKE
    ),
    # busy by GPU_UTIL, with little to show for it
    "masked": Level(0.95, 0.20, 0.10, 0.03, 0.10, 0.0, 0.04, 0.01, 0.26, 0.47, 0.2, 0.0, 0.98, 0.97),
    "small-kernels": Level(0.94, 0.17, 0.07, 0.03, 0.08, 0.0, 0.03, 0.02, 0.24, 0.52, 0.3, 0.02, 0.98, 0.98),
    "spinning": Level(0.998, 0.0085, 0.0015, 0.0, 0.0006, power=0.13, memory=0.05, clock=0.99, util=1.0),
    "unbatched": Level(0.92, 0.22, 0.06, 0.04, 0.14, 0.0, 0.02, 0.02, 0.27, 0.36, 0.1, 0.0, 0.98, 0.96),
    "slice-masked": Level(0.95, 0.18, 0.08, 0.02, 0.05, 0.0, 0.03, 0.01, 0.24, 0.40, 0.0, 0.0, 0.98),
    "latency": Level(0.86, 0.22, 0.06, 0.04, 0.14, 0.0, 0.02, 0.02, 0.27, 0.87, 0.1, 0.0, 0.98, 0.90),
    "lite-suspect": Level(0.97, 0.20, 0.09, 0.03, 0.11, 0.0, 0.03, 0.01, 0.28, 0.50, 0.3, 0.0, 0.98, 0.98),
}
"""Levels by name. The readings are based on domain.md sections 1.9, 2.3 and 2.4."""
