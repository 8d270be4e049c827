"""Dollars a month: the cost of a day, over the days that were measured, times 30.4375. The only definition."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from gpuwatch.core.clock import DAY_US, HOUR_US, Window
from gpuwatch.ledger.measures import UNHELD

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

MONTH_DAYS = Fraction(487, 16)
"""30.4375: a twelfth of 365.25 days."""
MONTH_FROM_US = DAY_US - HOUR_US // 2
"""From less measured time than this, no amount a month is computed: a day, less what may lack before its first and after its last reading."""
NAMED_BELOW_US = 7 * DAY_US
"""A rate over less measured time than this is shown with that time."""


@dataclass(frozen=True)
class Basis:
    """How much of a window costs were counted in: what the ledger covers, and what was measured of it."""

    recorded_us: int
    measured_us: int

    def us(self, bucket: str | None) -> int:
        """How much time the cost of a bucket was counted in."""
        return self.recorded_us if bucket in UNHELD else self.measured_us

    def days(self, bucket: str | None) -> Fraction:
        """The days of a rate: one at least, and those with records where nothing was measured."""
        return Fraction(max(self.us(bucket) or self.recorded_us, DAY_US), DAY_US)

    def a_month(self, cost: Fraction, bucket: str | None) -> Fraction | None:
        """A cost of the window as dollars a month; None for less time than MONTH_FROM_US."""
        if not cost:
            return Fraction(0)
        counted_us = self.us(bucket)
        return cost * MONTH_DAYS * DAY_US / counted_us if counted_us >= MONTH_FROM_US else None

    def words(self, bucket: str | None = None) -> str:
        """`the 6 measured hours`, `the 2.5 measured days`; empty from a week on, and where nothing was measured."""
        counted_us = self.us(bucket)
        if not counted_us or counted_us >= NAMED_BELOW_US:
            return ""
        kind = "recorded" if bucket in UNHELD else "measured"
        if counted_us >= 2 * DAY_US:
            return f"the {_number(counted_us, DAY_US)} {kind} days"
        hours = _number(counted_us, HOUR_US)
        return f"the {hours} {kind} hour{'' if hours == '1' else 's'}"


def _number(us: int, unit_us: int) -> str:
    """With one decimal, where it has one."""
    return f"{us / unit_us:.1f}".removesuffix(".0")


def basis_of(store: Store, window: Window, teams: Collection[str] | None = None) -> Basis:
    """How much of a window, all of which the ledger covers, was measured. `teams`: of what these held."""
    wanted = None if teams is None else list(teams)
    (row,) = store.rows("ledger/measured_time", since_us=window.start_us, until_us=window.end_us, teams=wanted)
    recorded_us = window.end_us - window.start_us
    return Basis(recorded_us, min(row["measured_us"], recorded_us))


def total(months: Iterable[Fraction | None]) -> Fraction | None:
    """The sum of amounts a month; None where one of them is not known."""
    every = list(months)
    known = [month for month in every if month is not None]
    return sum(known, Fraction(0)) if len(known) == len(every) else None
