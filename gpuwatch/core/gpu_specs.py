"""Peak specifications of GPU models: power, NVLink, dense math and memory, by the names that exporters print.

TDP, memory, FP32 and dense BF16 math come from the vendors' data sheets, without sparsity. NVLink is usable bytes/s per
GPU in both directions (NCCL's per-link model times links times two). Without specifications of
a model, no rule uses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuModel:
    """Specifications of a model; None is unknown, or for links also not available."""

    tdp_watts: float | None
    link_bytes_per_s: float | None
    bf16_flops: float | None = None
    memory_bytes_per_s: float | None = None
    memory_bytes: float | None = None
    fp32_flops: float | None = None
    """Without tensor cores."""


GB = 1e9
_UNKNOWN = GpuModel(None, None)
# The first matching pattern wins; specific ones come before general ones.
_MODELS: tuple[tuple[str, GpuModel], ...] = (
    (r"\bGB200\b", GpuModel(1200, 2 * 722e9, 2250e12, 8000e9, 186 * GB, 80e12)),
    (r"\bB300\b", GpuModel(1100, 2 * 722e9, 2250e12, 8000e9, 288 * GB, 77e12)),
    (r"\bB200\b", GpuModel(1000, 2 * 722e9, 2250e12, 8000e9, 180 * GB, 75e12)),
    (r"\bGH200\b", GpuModel(700, 2 * 371e9, 989e12, 4000e9, 96 * GB, 67e12)),
    (r"\bH200 NVL\b", GpuModel(600, 2 * 371e9, 835e12, 4800e9, 141 * GB, 60e12)),
    (r"\bH200\b", GpuModel(700, 2 * 371e9, 989e12, 4800e9, 141 * GB, 67e12)),
    (r"\bH100 NVL\b", GpuModel(400, 2 * 247e9, 835e12, 3938e9, 94 * GB, 60e12)),
    (r"\bH100 PCIE\b", GpuModel(350, None, 756e12, 2039e9, 80 * GB, 51e12)),
    (r"\bH100\b", GpuModel(700, 2 * 371e9, 989e12, 3350e9, 80 * GB, 67e12)),
    (r"\bH20\b", GpuModel(500, 2 * 371e9, 148e12, 4000e9, 96 * GB, 44e12)),
    (r"\bH800\b", GpuModel(700, 2 * 165e9, 989e12, 3350e9, 80 * GB, 67e12)),
    (r"\bA100 PCIE\b", GpuModel(300, None, 312e12, 1935e9, 80 * GB, 19.5e12)),
    (r"\bA100\b", GpuModel(400, 2 * 240e9, 312e12, 2039e9, 80 * GB, 19.5e12)),
    (r"\bA800\b", GpuModel(400, 2 * 160e9, 312e12, 2039e9, 80 * GB, 19.5e12)),
    (r"\bA30\b", GpuModel(165, None, 165e12, 933e9, 24 * GB, 10.3e12)),
    (r"\bA40\b", GpuModel(300, None, 150e12, 696e9, 48 * GB, 37.4e12)),
    (r"\bA10G?\b", GpuModel(150, None, 125e12, 600e9, 24 * GB, 31.2e12)),
    (r"\bL40S\b", GpuModel(350, None, 362e12, 864e9, 48 * GB, 91.6e12)),
    (r"\bL40\b", GpuModel(300, None, 181e12, 864e9, 48 * GB, 90.5e12)),
    (r"\bL4\b", GpuModel(72, None, 121e12, 300e9, 24 * GB, 30.3e12)),
    (r"\bT4\b", GpuModel(70, None, 65e12, 320e9, 16 * GB, 8.1e12)),
    (r"\bV100\b", GpuModel(300, 2 * 120e9, 125e12, 900e9, 32 * GB, 15.7e12)),
)


def facts(model: str | None) -> GpuModel:
    """Specifications by a model name such as `NVIDIA A100-SXM4-80GB` or the gres type `h100`."""
    name = re.sub(r"[^A-Z0-9]+", " ", (model or "").upper())
    return next((known for pattern, known in _MODELS if re.search(pattern, name)), _UNKNOWN)
