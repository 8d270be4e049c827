"""Formulas of decisions: when owning pays, what spot capacity would save, which slice would do, what two pools would be as one.

Everything here is an estimate from measured use and from assumptions listed with each answer; none of it enters a charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, expm1, inf

HOURS_A_MONTH = 730
"""Hours of an average month, as cloud price lists count."""
PRICE_FACTORS = (Fraction(64, 100), Fraction(8, 10), Fraction(1), Fraction(12, 10))
"""Cloud prices of the sensitivity: after two years and after one at -20 % a year, today's, and a fifth more."""
USE_STEPS = (Fraction(-1, 10), Fraction(0), Fraction(1, 10))
"""Utilisation of the sensitivity: ten points less, measured, ten points more."""
SPOT_WORTH = 0.95
"""A job is for spot where it would cost at most this part of what it costs now."""
OVERHEAD_MAX = 1.25
"""The most of a job's own time that runs lost to interruptions may add."""


def break_even(owned: Fraction, cloud: Fraction) -> Fraction:
    """The utilisation above which owning is cheaper: owned hourly rate at full use / cloud hourly price (domain 6.3).

    Above 1: owning is never cheaper at this price. Raises ValueError for a cloud price that is not positive.
    """
    if cloud <= 0:
        raise ValueError("the cloud price is not above 0")
    return owned / cloud


def payback_months(
    capex: Fraction, gpus: int, utilisation: Fraction, cloud: Fraction, monthly_costs: Fraction
) -> Fraction | None:
    """Months until what the cloud would have cost has paid for the hardware: capex / (GPUs x 730 x u x price - running
    costs a month) (domain 6.3). None: it never does.
    """
    saved = gpus * HOURS_A_MONTH * utilisation * cloud - monthly_costs
    return capex / saved if saved > 0 else None


@dataclass(frozen=True)
class Case:
    """One cell of the sensitivity: money a month for all GPUs, owned minus rented is `saved` (negative: owning loses)."""

    cloud_price: Fraction
    utilisation: Fraction
    break_even: Fraction
    saved_a_month: Fraction
    payback_months: Fraction | None


def sensitivity(
    owned: Fraction, cloud: Fraction, gpus: int, utilisation: Fraction, capex: Fraction | None, monthly_costs: Fraction
) -> list[Case]:
    """PRICE_FACTORS x USE_STEPS around what was measured; utilisation stays within 0..1. Payback is None without capex."""
    cases = []
    for factor in PRICE_FACTORS:
        for step in USE_STEPS:
            price, used = cloud * factor, min(max(utilisation + step, Fraction(0)), Fraction(1))
            months = None if capex is None else payback_months(capex, gpus, used, price, monthly_costs)
            saved = gpus * HOURS_A_MONTH * (used * price - owned)
            cases.append(Case(price, used, break_even(owned, price), saved, months))
    return cases


def spot_overhead(run_hours: float, interruptions_an_hour: float, checkpoint_hours: float | None) -> float:
    """How much longer a run takes on capacity that is taken away: 1 is not at all.

    Interruptions come at random (Poisson). With checkpoints each one loses half an interval; without, the run starts
    from the start, so a run of T hours takes (e^(rate T) - 1) / rate hours: also where it ends before its first checkpoint. inf
    where that is beyond reason.
    """
    load = interruptions_an_hour * run_hours
    if interruptions_an_hour <= 0 or run_hours <= 0 or load == 0:  # a product may underflow to zero
        return 1.0
    restarted = inf if load > 50 else expm1(load) / load
    return restarted if checkpoint_hours is None else min(restarted, 1 + interruptions_an_hour * checkpoint_hours / 2)


@dataclass(frozen=True)
class Spot:
    """Whether a job is for spot, what that would save of its cost, and why or why not."""

    suitable: bool
    overhead: float
    saved: Decimal
    why: str


def spot(
    cost: Decimal, price_ratio: Decimal, run_hours: float, interruptions_an_hour: float, checkpoint_hours: float | None
) -> Spot:
    """`cost` is what its hours cost now, `price_ratio` the spot price over the price now, `run_hours` its longest run."""
    overhead = spot_overhead(run_hours, interruptions_an_hour, checkpoint_hours)
    if overhead > OVERHEAD_MAX:
        checkpoints = (
            "no checkpoints are known" if checkpoint_hours is None else f"checkpoints every {checkpoint_hours:g} h"
        )
        longer = "more than double" if overhead > 2 else f"take {overhead:.2f} times as long"
        return Spot(False, overhead, Decimal(0), f"runs of {run_hours:.1f} h would {longer}: {checkpoints}")
    part = price_ratio * Decimal(f"{overhead:.6f}")
    if part > Decimal(str(SPOT_WORTH)):
        return Spot(False, overhead, Decimal(0), f"it would still cost {part:.0%} of what it costs")
    return Spot(
        True, overhead, cost * (1 - part), f"its longest run is {run_hours:.1f} h; lost work adds {overhead - 1:.1%}"
    )


@dataclass(frozen=True)
class Together:
    """Pools as one: GPUs that the peak of both needs with the headroom, whole nodes that are not needed, and the use."""

    needed_gpus: int
    freed_nodes: int
    freed_gpus: int
    utilisation_before: Fraction
    utilisation_after: Fraction


def together(capacity_gpus: int, peak: Fraction, mean: Fraction, gpus_a_node: int, headroom: Fraction) -> Together:
    """`peak` and `mean` are GPUs held at once in all pools together. Raises ValueError for an empty fleet or node."""
    if capacity_gpus <= 0 or gpus_a_node <= 0:
        raise ValueError("no GPUs: nothing to put together")
    needed = min(ceil(peak * (1 + headroom)), capacity_gpus)
    nodes = (capacity_gpus - needed) // gpus_a_node
    left = capacity_gpus - nodes * gpus_a_node
    after = Fraction(0) if left == 0 else mean / left
    return Together(needed, nodes, nodes * gpus_a_node, mean / capacity_gpus, after)


def given_back(pools: Sequence[tuple[int, Fraction]], gpus: int) -> Fraction:
    """What an hour of `gpus` costs where pools of (GPUs, price of a GPU-hour) give back the cheapest of theirs: the least
    that going without them saves.
    """
    saved, left = Fraction(0), gpus
    for has, price in sorted(pools, key=lambda pool: pool[1]):
        saved += price * min(has, left)
        left -= min(has, left)
    return saved


@dataclass(frozen=True)
class Fit:
    """A slice (or less) that would have been enough for what a job used, and its share of a GPU."""

    profile: str
    share: Fraction


def smallest_fit(
    slices: Sequence[tuple[str, Fraction, int, Fraction]], memory_bytes: int, sm_ratio: float, headroom: Fraction
) -> Fit | None:
    """The slice with the smallest share that holds the most memory and the SM use seen, each with headroom.

    `slices`: (profile, share, memory in bytes, share of the SMs). None: only the whole GPU does.
    """
    memory, sms = memory_bytes * (1 + headroom), Fraction(sm_ratio) * (1 + headroom)
    fits = [Fit(name, share) for name, share, size, compute in slices if size >= memory and compute >= sms]
    return min(fits, key=lambda fit: (fit.share, fit.profile), default=None)
