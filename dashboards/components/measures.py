"""The measures of the GPU time shown: working, avoidable, free, not measured, and whether their shares may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from gpuwatch.dashboards.client import Row
from gpuwatch.dashboards.components import formats, ledger_math
from gpuwatch.dashboards.components.ledger_math import Sum
from gpuwatch.dashboards.shell.theme import BUCKETS, MEASURES

MEASURED_MIN = Decimal("0.5")
"""With a smaller measured part of the held time than this, no share of it is shown."""


def measure(answer: Row, name: str) -> Row:
    """A measure of a ledger response: `gpu_seconds`, `cost` and `ratio`; empty if the response lacks it."""
    found: Row = answer.get(name) or (answer.get("unknown") or {}).get(name) or {}
    return found


def share(answer: Row | None, name: str) -> Decimal | None:
    """The share (0..1) of a measure; None if it is unknown."""
    return formats.number(measure(answer or {}, name).get("ratio"))


def measured_partly(answer: Row) -> bool:
    """Whether so little held time is measured that no share of it is shown."""
    measured = formats.number(answer.get("measured_ratio"))
    return measured is not None and measured < MEASURED_MIN


def measured_words(answer: Row) -> str:
    """How little of the held time was measured: `None of the GPU time held was measured`."""
    measured = formats.number(answer.get("measured_ratio"))
    part = "None" if not measured else f"Only {formats.percent(measured)}"
    return f"{part} of the GPU time held was measured"


def shares_by_step(steps: ledger_math.Trend, name: str) -> list[float | None]:
    """The share of a measure in each step; None where unknown."""
    claimed = {"working": -1, "avoidable": 1}.get(name, 0)
    found: list[float | None] = []
    for at in range(len(steps.starts)):
        hours = {bucket: series[at] or 0.0 for bucket, series in steps.hours.items()}
        held = sum(hours.get(bucket.name, 0.0) for bucket in BUCKETS if bucket.allocated)
        unseen = hours.get("unobserved", 0.0)
        whole = sum(hours.values())
        part = sum(hours.get(bucket, 0.0) for bucket in MEASURES[name]) + claimed * steps.claimed[at]
        known = whole and (held - unseen) >= held * float(MEASURED_MIN)
        found.append(part / whole if known else None)
    return found


def unseen(sums: Mapping[str, Sum]) -> Decimal:
    """The unmeasured share of the allocated time (0..1)."""
    held = ledger_math.total(sums, [bucket.name for bucket in BUCKETS if bucket.allocated]).seconds
    return sums.get("unobserved", Sum()).seconds / held if held else Decimal(0)
