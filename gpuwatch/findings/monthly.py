"""What findings cost a month, by ledger/month.py: the same number in scans, the scorecard and reports. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from gpuwatch.findings.priority import Facts, cost_a_day
from gpuwatch.ledger.month import MONTH_DAYS, MONTH_FROM_US, Basis, total


@dataclass(frozen=True)
class Claimed:
    """A finding, whether it is open, and what it cost in the window in its own currency."""

    facts: Facts
    is_open: bool
    cost: Fraction

    @property
    def lasts(self) -> bool:
        """Whether it still costs, and has lasted long enough for an amount a month."""
        return self.is_open and self.facts.last_seen_us - self.facts.started_us >= MONTH_FROM_US

    def a_month(self, basis: Basis) -> Fraction | None:
        """One that lasts: its own mean a day, so that every window has the same number. Others: what they cost in the window,
        over the days that were measured; None for less than a day.
        """
        if self.lasts and self.cost:
            rate, saves = cost_a_day(self.facts, self.facts.last_seen_us, self.facts.currency)
            if rate.cost is not None and not saves:
                return rate.cost * MONTH_DAYS
        return basis.a_month(self.cost, self.facts.bucket)


def together(findings: Iterable[Claimed], basis: Basis) -> Fraction | None:
    """What findings cost a month together; None where none of them lasts, or one of them cannot be projected.

    Findings that are all over have no month: what they cost is the same number in every window that has all of them.
    """
    every = list(findings)
    return total(one.a_month(basis) for one in every) if any(one.lasts for one in every) else None
