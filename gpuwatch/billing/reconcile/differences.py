"""Why a bill and the ledger differ: named parts that add up exactly to the difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil

from gpuwatch.core.money import fraction_to_decimal

PARTS = (
    "untracked", "unbilled", "price", "boundaries", "discounts", "taxes", "commitments", "not_gpu", "no_rate",
    "not_convertible", "unexplained",
)  # fmt: skip
"""Reasons of a difference, in the order of the columns."""
PLACES = 18
EDGE_HOURS = 2
"""Hours by which bill and ledger may differ for each GPU and day, because bills count whole hours: one at either end."""
DAY_HOURS = 24
ZERO = Decimal(0)


@dataclass
class Side:
    """GPU-hours and money of one side, for one unit, day and currency; hours None: the bill has no hours."""

    money: Fraction = Fraction(0)
    hours: Fraction | None = Fraction(0)


@dataclass
class Parts:
    """The billed amount, the ledger amount, and the parts of their difference."""

    bill: Decimal = ZERO
    gpuwatch: Decimal = ZERO
    parts: dict[str, Decimal] = field(default_factory=lambda: dict.fromkeys(PARTS, ZERO))

    @property
    def difference(self) -> Decimal:
        """bill - gpuwatch."""
        return _exact(Fraction(self.bill) - Fraction(self.gpuwatch))

    def add(self, other: Parts) -> None:
        """Adds another, part by part."""
        self.bill = _sum(self.bill, other.bill)
        self.gpuwatch = _sum(self.gpuwatch, other.gpuwatch)
        for name, amount in other.parts.items():
            if amount:
                self.parts[name] = _sum(self.parts[name], amount)


def only(name: str, *, bill: Fraction = Fraction(0), ledger: Fraction = Fraction(0)) -> Parts:
    """A difference with a single reason."""
    found = Parts(_exact(bill), _exact(ledger))
    found.parts[name] = found.difference
    return found


def compare(bills: dict[str, Side], ledger: dict[str | None, Side]) -> dict[str, Parts]:
    """The parts of one unit and day by currency; time without a rate has currency None.

    With billed money B and hours H_b, ledger hours H_g and ledger price p: price = B - p H_b. Of p (H_b - H_g), up to
    EDGE_HOURS for each GPU are boundaries; the rest is time that only one side has (untracked, unbilled).
    """
    unrated = (ledger.get(None) or Side()).hours or Fraction(0)
    priced: dict[str, Side] = {name: side for name, side in ledger.items() if name is not None}
    found: dict[str, Parts] = {}
    for currency, bill in bills.items():
        own = priced.pop(currency, None)
        if own is None:
            elsewhere = any(name is not None for name in ledger)
            reason = "not_convertible" if elsewhere else "no_rate" if unrated else "untracked"
            found[currency] = only(reason, bill=bill.money)
        else:
            found[currency] = _both(bill, own, unrated)
    for currency, own in priced.items():
        found[currency] = only("not_convertible" if bills else "unbilled", ledger=own.money)
    return found


def _both(bill: Side, own: Side, unrated: Fraction) -> Parts:
    parts = Parts(_exact(bill.money), _exact(own.money))
    owned = own.hours or Fraction(0)
    hours = bill.hours
    if unrated:
        # GPUs without a rate have no ledger amount to compare with.
        parts.parts["no_rate"] = _exact(bill.money * unrated / (unrated + owned))
        hours = None if hours is None else hours * owned / (unrated + owned)
    if hours is None or not hours or not owned:
        parts.parts["unexplained"] = _rest(parts)
        return parts
    unit = own.money / owned
    gpus = ceil(max(hours, owned) / DAY_HOURS)
    apart: Fraction = hours - owned
    limit = Fraction(EDGE_HOURS * gpus)
    edge: Fraction = max(-limit, min(apart, limit))
    parts.parts["boundaries"] = _exact(unit * edge)
    parts.parts["untracked" if apart > 0 else "unbilled"] = _exact(unit * (apart - edge))
    parts.parts["price"] = _rest(parts)
    return parts


def _rest(parts: Parts) -> Decimal:
    """The difference minus the other parts."""
    return _exact(Fraction(parts.difference) - sum((Fraction(a) for a in parts.parts.values()), Fraction(0)))


def _sum(one: Decimal, other: Decimal) -> Decimal:
    return _exact(Fraction(one) + Fraction(other))


def _exact(amount: Fraction) -> Decimal:
    return fraction_to_decimal(amount, PLACES)
