"""Which smaller GPU or slice would hold what a job used, and what that would cost less an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuwatch.advisor.formulas import smallest_fit
from gpuwatch.advisor.jobs import slices_of
from gpuwatch.core import gpu_specs


@dataclass(frozen=True)
class Used:
    """The most that a job used of one whole GPU of a model: bytes of memory, and ratios of five minutes."""

    model: str
    fb_bytes: int
    sm_ratio: float
    tensor_ratio: float | None
    dram_ratio: float


@dataclass(frozen=True)
class Size:
    """What would do, and how much less of the price it is now (a part of it), where prices are known."""

    name: str
    saved_part: Fraction | None


def smaller(
    used: Used, headroom: Fraction, prices: Mapping[str, Fraction], price: Fraction | None, models: Iterable[str]
) -> Size | None:
    """The MIG slice of its model, or the cheaper model of the fleet, that would cost least; None where none does.

    `headroom` is added to what was used. `prices` are hourly prices of whole GPUs by model, in the currency of `price`,
    the job's own. A model fits where memory does, and what was asked of tensor cores, of memory bandwidth and, at most, of the
    SMs beside their tensor cores stays within 1 / (1 + headroom) of what it can do; one without published
    knows does not.
    """
    found: list[tuple[Fraction, str]] = []
    fit = smallest_fit(slices_of(used.model), used.fb_bytes, used.sm_ratio, headroom)
    if fit is not None:
        found.append((fit.share, fit.profile))
    if price:
        found += [
            (prices[model] / price, model)
            for model in models
            if model in prices and prices[model] < price and fits(used, model, headroom)
        ]
    if not found:
        return None
    part, name = min(found)
    return Size(name, None if price is None else 1 - part)


def fits(used: Used, model: str, headroom: Fraction) -> bool:
    """Whether a whole GPU of another model would do."""
    own, other = gpu_specs.facts(used.model), gpu_specs.facts(model)
    if (
        model == used.model
        or None in (own.bf16_flops, own.memory_bytes_per_s, own.fp32_flops, other.memory_bytes)
        or used.tensor_ratio is None
    ):
        return False
    more = float(1 + headroom)
    return (
        used.fb_bytes * more <= (other.memory_bytes or 0)
        and used.tensor_ratio * (own.bf16_flops or 0) * more <= (other.bf16_flops or 0)
        # An SM that is busy without its tensor cores may do FP32 math, which a model with better tensor cores may have less of.
        and used.sm_ratio * (own.fp32_flops or 0) * more <= (other.fp32_flops or 0)
        and used.dram_ratio * (own.memory_bytes_per_s or 0) * more <= (other.memory_bytes_per_s or 0)
    )
