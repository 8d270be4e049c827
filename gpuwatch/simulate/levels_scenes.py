"""Levels of scenes: the readings of a GPU in situations that only some detectors recognize."""

from __future__ import annotations

from dataclasses import replace

from gpuwatch.simulate.levels import LEVELS, Level

_TRAIN, _LEAN = LEVELS["train"], LEVELS["train-lean"]

SCENE_LEVELS: dict[str, Level] = {
    # placement: what crosses nodes or sockets shows on PCIe, and the engine waits for it
    "train-split": replace(_TRAIN, engine=0.93, sm=0.66, tensor=0.33, dram=0.33, power=0.70, pcie=9.0, link=0.06),
    "train-wide": replace(_TRAIN, engine=0.96, sm=0.80, tensor=0.41, dram=0.40, power=0.82, pcie=5.5, link=0.12),
    "train-socket": Level(0.94, 0.68, 0.25, 0.33, 0.40, 0.0, 0.08, 0.04, 0.72, 0.71, 8.5, 0.0, 0.95),
    "train-pcie": Level(0.95, 0.80, 0.28, 0.41, 0.44, 0.0, 0.08, 0.04, 0.82, 0.71, 4.5, 0.0, 0.95),
    "trial": Level(0.94, 0.79, 0.31, 0.36, 0.41, 0.0, 0.09, 0.04, 0.76, 0.58, 0.12, 0.0, 0.97),
    "waiting": Level(0.015, 0.006, 0.002, 0.0, 0.004, power=0.06, memory=0.35, clock=0.6),
    # stragglers: the slow one computes all the time, the others wait for it at the barrier
    "slow-one": replace(_TRAIN, engine=0.98, sm=0.90, tensor=0.50, dram=0.42, power=0.80, clock=0.66, reasons=0x40),
    "slow-link": replace(_TRAIN, engine=0.98, sm=0.91, tensor=0.50, dram=0.43, power=0.86, pcie=0.9),
    "waits-for-slow": replace(_TRAIN, engine=0.83, sm=0.66, tensor=0.34, dram=0.33, power=0.68),
    "stage-first": replace(_TRAIN, engine=0.97, sm=0.90, tensor=0.52, dram=0.46),
    "stage-middle": replace(_TRAIN, engine=0.92, sm=0.80, tensor=0.42, dram=0.41),
    "stage-last": replace(_TRAIN, engine=0.90, sm=0.74, tensor=0.36, dram=0.38),
    "rank-zero": replace(_TRAIN, engine=0.94, sm=0.82, tensor=0.40, dram=0.40, pcie=2.4),
    "all-hot": replace(_TRAIN, engine=0.97, sm=0.88, tensor=0.45, power=0.83, clock=0.78, reasons=0x20),
    # memory
    "orphan": Level(power=0.03, memory=0.26, reasons=0x1),
    "baseline": Level(power=0.0, memory=0.0052, reasons=0x1),
    # batches
    "small-batch": Level(0.70, 0.31, 0.08, 0.05, 0.16, 0.0, 0.03, 0.02, 0.26, 0.31, 0.1, 0.0, 0.98),
    "small-batch-tuned": Level(0.66, 0.34, 0.10, 0.08, 0.14, 0.0, 0.05, 0.03, 0.30, 0.42, 0.3, 0.0, 0.98),
    "batch-full-memory": Level(0.70, 0.33, 0.09, 0.06, 0.20, 0.0, 0.03, 0.02, 0.30, 0.92, 0.1, 0.0, 0.98),
    "batch-right": Level(0.86, 0.72, 0.30, 0.20, 0.41, 0.0, 0.10, 0.06, 0.62, 0.55, 0.4, 0.0, 0.97),
    # checkpoints
    "saving": Level(0.03, 0.015, 0.005, 0.0, 0.02, power=0.10, memory=0.84, pcie=0.6, clock=0.9),
    "validation": Level(0.74, 0.58, 0.24, 0.21, 0.35, 0.0, 0.06, 0.03, 0.50, 0.70, 0.5, 0.04, 0.97),
    # kernels that wait in a loop, and work that tensor cores and memory do not show
    "waiting-loop": Level(0.98, 0.91, 0.06, 0.0, 0.002, power=0.06, memory=0.20, clock=0.98),
    "integer-work": Level(0.98, 0.91, 0.40, 0.0, 0.004, power=0.52, memory=0.20, clock=0.98),
    "light-model": Level(0.95, 0.80, 0.30, 0.03, 0.06, 0.0, 0.03, 0.01, 0.11, 0.20, 0.1, 0.0, 0.98),
    # slices
    "slice-small": Level(0.46, 0.38, 0.17, 0.08, 0.20, 0.0, 0.05, 0.02, 0.30, 0.13, 0.0, 0.0, 0.97),
    "slice-spike": Level(0.88, 0.80, 0.33, 0.24, 0.45, 0.0, 0.07, 0.03, 0.66, 0.86, 0.0, 0.0, 0.97),
    "slice-filled": Level(0.66, 0.56, 0.24, 0.12, 0.40, 0.0, 0.05, 0.02, 0.36, 0.93, 0.0, 0.0, 0.97),
    "slice-train": Level(0.96, 0.86, 0.34, 0.41, 0.45, 0.0, 0.07, 0.03, 0.84, 0.78, 0.0, 0.0, 0.96),
    "slice-gang": Level(0.93, 0.64, 0.27, 0.22, 0.31, 0.0, 0.06, 0.03, 0.60, 0.76, 0.0, 0.0, 0.96),
    "slice-full": Level(0.91, 0.80, 0.33, 0.30, 0.44, 0.0, 0.07, 0.03, 0.72, 0.985, 0.0, 0.0, 0.97),
    "slice-serve": Level(0.62, 0.55, 0.24, 0.13, 0.38, 0.0, 0.05, 0.02, 0.36, 0.86, 0.0, 0.0, 0.97),
    # fabric
    "gang-good": replace(_TRAIN, engine=0.96, sm=0.82, tensor=0.42, dram=0.41, power=0.84, pcie=6.0, link=0.16),
    "gang-slow": replace(_TRAIN, engine=0.82, sm=0.60, tensor=0.30, dram=0.30, power=0.63, pcie=3.6, link=0.096),
    # shared GPUs
    "share-serve": Level(0.44, 0.36, 0.14, 0.08, 0.22, 0.0, 0.04, 0.02, 0.30, 0.30, 0.2, 0.0, 0.97),
    "share-victim": Level(0.62, 0.51, 0.20, 0.11, 0.26, 0.0, 0.05, 0.02, 0.40, 0.30, 0.2, 0.0, 0.97),
    "share-low": Level(0.22, 0.18, 0.08, 0.04, 0.10, 0.0, 0.03, 0.01, 0.16, 0.20, 0.1, 0.0, 0.97),
    "share-noisy": Level(0.95, 0.80, 0.32, 0.22, 0.58, 0.0, 0.06, 0.03, 0.72, 0.52, 0.4, 0.0, 0.97),
    # sizes
    "full-but-small": Level(0.97, 0.90, 0.36, 0.44, 0.42, 0.0, 0.07, 0.03, 0.84, 0.10, 0.4, 0.0, 0.96),
    "light-serve": Level(0.40, 0.33, 0.14, 0.05, 0.12, 0.0, 0.03, 0.02, 0.22, 0.09, 0.1, 0.0, 0.97),
}
"""Levels by name, in addition to those of levels.py."""
