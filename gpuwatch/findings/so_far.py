"""What findings have cost so far, and whether each has lasted a day: only then is its cost a day a rate. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.money import CENT_PLACES, format_quantity
from gpuwatch.findings.priority import Facts, Rate, lost_work
from gpuwatch.findings.texts import is_waste


def spent(found: Facts, currency: str | None) -> Rate:
    """The waste or lost work of a finding until now, in a currency; nothing for a proposal."""
    lost = lost_work(found.bucket, found.evidence)
    if lost is not None:
        return Rate(lost.cost if lost.currency == currency else None, lost.hours)
    if not is_waste(found.bucket):
        return Rate()
    return Rate(found.cost if found.currency == currency and found.gpu_hours else None, found.gpu_hours)


def lasted_a_day(found: Facts, now_us: int) -> bool:
    """Whether a finding has covered a day. Lost work counts from its beginning until now."""
    end_us = found.last_seen_us if lost_work(found.bucket, found.evidence) is None else now_us
    return end_us - found.started_us >= DAY_US


def so_far(facts: Iterable[Facts], now_us: int, currency: str | None) -> dict[str, Any]:
    """Findings together: `day_rate` says whether all that cost something have lasted a day."""
    counted = [(one, rate) for one in facts if (rate := spent(one, currency)).hours]
    whole = sum((rate for _, rate in counted), Rate())
    return {
        "day_rate": all(lasted_a_day(one, now_us) for one, _ in counted),
        **amounts_so_far(whole),
    }


def amounts_so_far(whole: Rate) -> dict[str, Any]:
    """An amount as the API has it."""
    return {
        "cost_so_far": None if whole.cost is None else format_quantity(Fraction(whole.cost), CENT_PLACES),
        "gpu_hours_so_far": format_quantity(whole.hours, 1),
    }
