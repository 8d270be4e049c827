"""How much of the GPU time was productive, and whether enough of it was measured to tell."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpuwatch.dashboards.components import ledger_math
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.theme import BUCKETS, PRODUCTIVE

PARTLY = 1 - ledger_math.UNSEEN_MAX
"""With a larger unmeasured share than this, ratios refer to the measured time only."""


def unseen(sums: Mapping[str, Sum]) -> Decimal:
    """The unmeasured share of the allocated time (0..1)."""
    held = ledger_math.total(sums, [bucket.name for bucket in BUCKETS if bucket.allocated]).seconds
    return sums.get("unobserved", Sum()).seconds / held if held else Decimal(0)


def measured_partly(sums: Mapping[str, Sum]) -> bool:
    """Whether so much allocated time is unmeasured that a ratio of all of it would mislead."""
    return unseen(sums) > PARTLY


def worked(sums: Mapping[str, Sum]) -> Decimal | None:
    """Productive share (0..1) of the time, or of the measured time if much is unmeasured; None if nearly all is."""
    if unseen(sums) > ledger_math.UNSEEN_MAX:
        return None
    whole = ledger_math.total(sums).seconds
    if measured_partly(sums):
        whole -= sums.get("unobserved", Sum()).seconds
    return ledger_math.ratio(ledger_math.total(sums, PRODUCTIVE).seconds, whole)


def worked_by_step(steps: ledger_math.Trend) -> list[float | None]:
    """The productive share of each step; None where unknown."""
    found: list[float | None] = []
    for at in range(len(steps.starts)):
        known = {name: Sum(Decimal(str(series[at] or 0))) for name, series in steps.hours.items()}
        part = worked(known)
        found.append(None if part is None else float(part))
    return found
