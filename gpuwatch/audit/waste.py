"""The wasted GPU time of a fleet: the sum of some buckets of its ledger."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from gpuwatch.audit.figures import hours_text, money_text
from gpuwatch.audit.plan import a_month
from gpuwatch.core.money import CENT_PLACES, largest_remainder
from gpuwatch.output.listing import BUCKET_WORDS

WASTE = ("hoarded", "gap", "communication", "stalled", "stranded", "mig_remainder", "out_of_service")
"""Buckets that are paid for without work: held but idle or waiting, or unallocated and unusable."""


def waste(facts: Mapping[str, Any], window_us: int) -> dict[str, Any]:
    """The sum of the WASTE buckets, and every bucket; rounded cents add up to the total."""
    buckets, capacity = facts["buckets"], facts["capacity_gpu_hours"]
    priced = [name for name, one in buckets.items() if one["cost"] is not None]
    cents = largest_remainder([buckets[name]["cost"] for name in priced], CENT_PLACES, priced)
    shown = dict(zip(priced, cents, strict=True))
    wasted = [name for name in WASTE if name in buckets]
    hours = sum((buckets[name]["gpu_hours"] for name in wasted), Fraction(0))
    cost = sum((Fraction(shown[name]) for name in wasted), Fraction(0)) if shown.keys() >= set(wasted) else None
    return {
        "gpu_hours": hours_text(hours),
        "cost": money_text(cost),
        "cost_a_month": money_text(None if cost is None else a_month(cost, window_us)),
        "ratio": round(float(hours / capacity), 6) if capacity else None,
        "explained_gpu_hours": hours_text(_explained(facts)),
        "buckets": [_bucket_row(name, buckets[name], shown) for name in BUCKET_WORDS if name in buckets],
    }


def _explained(facts: Mapping[str, Any]) -> Fraction:
    """The wasted GPU-hours that findings claim."""
    claimed = (pair for finding in facts["findings"] for pair in finding["hours"].items())
    return sum((hours for bucket, hours in claimed if bucket in WASTE), Fraction(0))


def _bucket_row(name: str, bucket: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
    hours = hours_text(bucket["gpu_hours"])
    return {"bucket": name, "waste": name in WASTE, "gpu_hours": hours, "cost": money_text(shown.get(name))}
