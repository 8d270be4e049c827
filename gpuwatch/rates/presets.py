"""Presets by name: policies, and splits of a node's price into GPU, CPU and RAM."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from gpuwatch.core.errors import UsageError
from gpuwatch.core.money import EXACT_PLACES, fraction_to_decimal

POLICIES: dict[str, dict[str, object]] = {
    # Costs are shown, the platform keeps what nobody held (domain: showback).
    "showback": {"basis": "allocated"},
    "allocated": {"basis": "allocated"},
    # Who holds a GPU that does nothing does not pay; the platform does, and sees it.
    "pay-for-use": {"basis": "used", "payers": {"unused": "platform", "idle": "platform", "lost_work": "platform"}},
    # OpenCost's shareIdle=true, within cluster, pool and model.
    "share-idle": {
        "basis": "allocated",
        "payers": {cause: "proportional" for cause in ("idle", "stranded", "out_of_service", "mig_remainder")},
    },
}
"""Default fields of a policy document with `preset`; the document's own fields take precedence."""

OPENCOST_CPU_HOUR, OPENCOST_GIB_HOUR, OPENCOST_GPU_HOUR = Decimal("0.031611"), Decimal("0.004237"), Decimal("0.95")
"""OpenCost's default prices a vCPU-hour, GiB-hour and GPU-hour, which serve as ratios where only a node's price is known."""
SPLITS = ("aws-scad", "datadog-ccm", "opencost-ratio", "gpu-only")
ALIASES = {"aws-split": "aws-scad", "datadog": "datadog-ccm"}
"""Aliases of splits."""


@dataclass(frozen=True)
class NodeSplit:
    """Parts of a node's hourly price; they add up to it exactly."""

    gpu: Decimal
    cpu: Decimal
    ram: Decimal

    def gpu_hour(self, gpus: int) -> Decimal:
        """The price of one of its GPUs an hour, at most 12 decimals."""
        return fraction_to_decimal(Fraction(self.gpu) / gpus, EXACT_PLACES).normalize()


def split_node(
    preset: str,
    price: Decimal,
    vcpus: Decimal | int,
    gib: Decimal | int,
    gpus: int,
    base: tuple[Decimal, Decimal, Decimal] = (OPENCOST_CPU_HOUR, OPENCOST_GIB_HOUR, OPENCOST_GPU_HOUR),
) -> NodeSplit:
    """The parts of a node's hourly price that its GPUs, vCPUs and GiB of memory stand for, by a preset of SPLITS.

    `aws-scad`: weights a vCPU 0.9, a GiB 0.1, a GPU 9 (EKS split cost allocation). `datadog-ccm`: 95 % GPU, 3 % CPU,
    2 % RAM. `opencost-ratio`: `base` prices a vCPU-hour, GiB-hour and GPU-hour, scaled so that the parts make the node's
    price. `gpu-only`: all of it. A node without GPUs has no GPU part; datadog-ccm and gpu-only then divide nothing and
    are refused. Raises UsageError.
    """
    if preset not in SPLITS:
        raise UsageError(f"price split {preset!r}: not known; use one of {', '.join(SPLITS)}")
    for name, value in (("price", price), ("vCPUs", vcpus), ("GiB", gib), ("GPUs", gpus)):
        if value < 0 or (isinstance(value, Decimal) and not value.is_finite()):
            raise UsageError(f"price split {preset}: {name} of {value}; give a number that is not negative")
    if preset in ("datadog-ccm", "gpu-only") and not gpus:
        raise UsageError(f"price split {preset}: the node has no GPU; use aws-scad or opencost-ratio")
    weights = {
        "aws-scad": (9 * Fraction(gpus), Fraction(9, 10) * Fraction(vcpus), Fraction(1, 10) * Fraction(gib)),
        "datadog-ccm": (Fraction(95), Fraction(3), Fraction(2)),
        "opencost-ratio": (
            Fraction(base[2]) * gpus,
            Fraction(base[0]) * Fraction(vcpus),
            Fraction(base[1]) * Fraction(gib),
        ),
        "gpu-only": (Fraction(1), Fraction(0), Fraction(0)),
    }[preset]
    total = sum(weights)
    if not total:
        raise UsageError(f"price split {preset}: the node has neither GPUs, vCPUs nor memory")
    gpu = fraction_to_decimal(Fraction(price) * weights[0] / total, EXACT_PLACES)
    both = fraction_to_decimal(Fraction(price) * (weights[0] + weights[1]) / total, EXACT_PLACES)
    # Rounded at the running sum, so that the parts are the price.
    return NodeSplit(
        gpu, fraction_to_decimal(Fraction(both) - Fraction(gpu)), fraction_to_decimal(Fraction(price) - Fraction(both))
    )
