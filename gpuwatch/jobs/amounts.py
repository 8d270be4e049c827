"""The exact time and cost of a job."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gpuwatch.core.clock import HOUR_US, SECOND_US
from gpuwatch.core.money import CENT_PLACES, EXACT_PLACES, format_quantity
from gpuwatch.rates.card import missing_rate

SECOND_PLACES = 6

Row = dict[str, Any]


@dataclass
class JobAmount:
    """The exact time and cost of a job or run, by currency; `lacking` names the first missing rate."""

    device_seconds: Fraction = Fraction(0)
    gpu_seconds: Fraction = Fraction(0)
    costs: dict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    lacking: str | None = None

    def add(self, row: Row) -> None:
        """Adds a row of sql/jobs/amount.sql."""
        seconds = Fraction(int(row["units"]), row["share_den"] * SECOND_US)
        self.device_seconds += Fraction(int(row["device_us"]), SECOND_US)
        self.gpu_seconds += seconds
        if row["price"] is not None:
            self.costs[row["currency"]] += seconds * SECOND_US / HOUR_US * Fraction(row["price"])
        elif self.lacking is None:
            cluster, pool, model, profile = row["lacks"].split("\x1f")
            self.lacking = missing_rate(cluster, pool or None, model, profile or None, row["first_us"])

    @property
    def cost(self) -> Fraction | None:
        """None if a part has no rate, or if currencies differ."""
        return next(iter(self.costs.values())) if len(self.costs) == 1 and self.lacking is None else None

    def as_dict(self) -> Row:
        """The amounts as JSON."""
        several = f"prices in {' and '.join(sorted(self.costs))} do not add up" if len(self.costs) > 1 else None
        known = self.cost
        amounts: Row = {
            "gpu_seconds": format_quantity(self.gpu_seconds),
            "device_seconds": format_quantity(self.device_seconds),
            "cost": None if known is None else format_quantity(known, CENT_PLACES),
            "cost_exact": None if known is None else format_quantity(known, EXACT_PLACES),
            "currency": next(iter(self.costs)) if known is not None else None,
        }
        return amounts | ({} if known is not None else {"error": self.lacking or several})


NOTHING: Row = dict.fromkeys(("gpu_seconds", "device_seconds", "cost", "cost_exact", "currency"))
"""The amounts of a job without known devices: unknown, not zero."""
