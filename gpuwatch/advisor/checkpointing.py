"""Checkpoints: size, write time, the interval that loses least, and the bandwidth for a chosen stall. Pure.

Times are seconds and rates are per second; the sources of the formulas are in docs/act/checkpoints.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, sqrt

PRECISIONS = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of a weight as it is trained. Below fp32, an fp32 master copy is saved too where an optimizer is."""
MASTER_BYTES = 4
OPTIMIZERS = {"adamw": 8.0, "adamw-8bit": 2.0, "lion": 4.0, "sgd-momentum": 4.0, "sgd": 0.0, "none": 0.0}
"""Bytes of optimizer state per parameter; `none`: weights only, without a master copy."""
INTERRUPTIONS_PER_GPU_HOUR = 419 / (54 * 24 * 16384)
"""Unplanned interruptions of the Llama 3 405B training: 419 in 54 days on 16,384 H100. Used where a fleet has no measured
rate; another fleet's rate is a guess."""


def bytes_per_parameter(precision: str, optimizer: str) -> float:
    """Weights, master weights and optimizer state of one parameter. Gradients are not saved."""
    weights = PRECISIONS[precision]
    master = MASTER_BYTES if weights < MASTER_BYTES and optimizer != "none" else 0
    return weights + master + OPTIMIZERS[optimizer]


def young(stall: float, mttf: float) -> float:
    """Young (1974): work between two checkpoints of `stall` each, sqrt(2 C M)."""
    return sqrt(2 * stall * mttf)


def daly(stall: float, mttf: float) -> float:
    """Daly (2006), equation 37: Young's interval to a higher order; the mean time to failure from a stall of twice that."""
    if stall >= 2 * mttf:
        return mttf
    part = stall / (2 * mttf)
    return sqrt(2 * stall * mttf) * (1 + sqrt(part) / 3 + part / 9) - stall


def stall_ratio(stall: float, interval: float) -> float:
    """The share of the time in which GPUs wait for checkpoints: C / (interval + C)."""
    return stall / (interval + stall) if stall else 0.0


def expected_loss(stall: float, interval: float, mttf: float, restart: float = 0.0) -> float:
    """The share of all time that is no progress: stalls, repeated work and restarts, by Daly's complete model.

    Wall time of a second of work = M e^(R/M) (e^((interval + C)/M) - 1) / interval, failures at random with mean M.
    """
    if (interval + stall + restart) / mttf > 500:
        return 1.0
    wall = mttf * exp(restart / mttf) * expm1((interval + stall) / mttf) / interval
    return 1 - 1 / wall


def needed_bytes_per_second(
    size: float, stall_share: float, interval: float | None, mttf: float, background: bool = False
) -> float:
    """The write bandwidth at which GPUs wait at most `stall_share` of the time.

    With `interval` given: size / (interval s / (1 - s)). Without: at Young's interval, where C / sqrt(2 C M) = s / (1 - s), so
    C = 2 M (s / (1 - s))^2. In the `background`, a write must end before the next begins, within the interval (which is
    then given), whatever the share.
    """
    if background:
        return inf if interval is None else size / interval
    part = stall_share / (1 - stall_share)
    return size / (2 * mttf * part * part if interval is None else interval * part)


@dataclass(frozen=True)
class Plan:
    """What one way of saving costs: a stall every interval of work. Ratios are shares of all time."""

    stall: float
    young: float
    daly: float
    interval: float
    stall_ratio: float
    lost_ratio: float


def plan(stall: float, mttf: float, restart: float, interval: float | None = None, unsaved: float = 0.0) -> Plan:
    """Saving at Daly's interval, or at the one given. `unsaved`: how long a checkpoint is being written in the background,
    and lost with a failure; it is repeated like the time of a restart.
    """
    best = daly(stall, mttf)
    chosen = best if interval is None else interval
    lost = expected_loss(stall, chosen, mttf, restart + unsaved)
    return Plan(stall, young(stall, mttf), best, chosen, stall_ratio(stall, chosen), lost)
