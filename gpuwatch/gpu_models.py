"""What one GPU model can do: board power and NVLink speed, by the name that exporters print.

TDP: vendors' data sheets. NVLink: usable bytes/s per GPU, both directions (domain.md section 4.2: NCCL's per-link
model times links times two). An unknown model has neither: then no rule leans on them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class GpuModel:
    """Facts of one model; None is unknown, or for links: has none."""

    tdp_watts: float | None
    link_bytes_per_s: float | None


_UNKNOWN = GpuModel(None, None)
# The first pattern found in the name decides; special forms stand before general ones.
_MODELS: tuple[tuple[str, GpuModel], ...] = (
    (r"\bGB200\b", GpuModel(1200, 2 * 722e9)),
    (r"\bB300\b", GpuModel(1100, 2 * 722e9)),
    (r"\bB200\b", GpuModel(1000, 2 * 722e9)),
    (r"\bGH200\b", GpuModel(700, 2 * 371e9)),
    (r"\bH200 NVL\b", GpuModel(600, 2 * 371e9)),
    (r"\bH200\b", GpuModel(700, 2 * 371e9)),
    (r"\bH100 NVL\b", GpuModel(400, 2 * 247e9)),
    (r"\bH100 PCIE\b", GpuModel(350, None)),
    (r"\bH100\b", GpuModel(700, 2 * 371e9)),
    (r"\bH20\b", GpuModel(500, 2 * 371e9)),
    (r"\bH800\b", GpuModel(700, 2 * 165e9)),
    (r"\bA100 PCIE\b", GpuModel(300, None)),
    (r"\bA100\b", GpuModel(400, 2 * 240e9)),
    (r"\bA800\b", GpuModel(400, 2 * 160e9)),
    (r"\bA30\b", GpuModel(165, None)),
    (r"\bA40\b", GpuModel(300, None)),
    (r"\bA10G?\b", GpuModel(150, None)),
    (r"\bL40S\b", GpuModel(350, None)),
    (r"\bL40\b", GpuModel(300, None)),
    (r"\bL4\b", GpuModel(72, None)),
    (r"\bT4\b", GpuModel(70, None)),
    (r"\bV100\b", GpuModel(300, 2 * 120e9)),
)


def facts(model: str | None) -> GpuModel:
    """Facts of a model name such as `NVIDIA A100-SXM4-80GB` or the gres type `h100`."""
    name = re.sub(r"[^A-Z0-9]+", " ", (model or "").upper())
    return next((known for pattern, known in _MODELS if re.search(pattern, name)), _UNKNOWN)
