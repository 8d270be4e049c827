"""The one order of actions: groups of findings, those worth most first. Pure.

The scan, the scorecard, the overview and the reports rank by it. A group is worth the money a day of its findings, each times its
certainty. A critical finding without money counts what it puts at risk; other groups without money follow, then what has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from gpuwatch.findings.priority import Facts, Rate, at_risk_hours, certain, of_rate, size

T = TypeVar("T")
Group = tuple[Any, ...]
Order = tuple[int, Fraction]
"""Ascending: the place among FIRST, NO_MONEY and ENDED, then minus the worth a day."""
FIRST, NO_MONEY, ENDED = 0, 1, 2


@dataclass(frozen=True)
class Part(Generic[T]):
    """A finding with what it costs and risks a day, how urgent that is (findings/priority.py), and what it is worth."""

    finding: T
    key: str
    rate: Rate
    saves: bool
    at_risk_hours: Fraction
    score: Fraction
    worth: Fraction = Fraction(0)
    critical: bool = False
    ended: bool = False


def part(
    finding: T, key: str, facts: Facts, rate: Rate, saves: bool, mean_price: Fraction | None, ended: bool = False
) -> Part[T]:
    """A finding that costs, or would save, `rate` a day. `ended`: its waste is over."""
    risk_hours = at_risk_hours(facts, rate, saves)
    critical = facts.severity == "critical"
    amount = size(rate, mean_price)
    if critical and not amount:
        amount = size(Rate(None, risk_hours), mean_price)
    worth = amount * certain(facts.confidence)
    return Part(
        finding, key, rate, saves, risk_hours, of_rate(facts, rate, risk_hours, mean_price), worth, critical, ended
    )


def score(parts: Iterable[Part[T]]) -> Fraction:
    """How urgent findings are together."""
    return sum((one.score for one in parts), Fraction(0))


def order(parts: Sequence[Part[T]]) -> Order:
    """Where a group of findings stands among others."""
    if all(one.ended for one in parts):
        return ENDED, -sum((one.worth for one in parts), Fraction(0))
    live = [one for one in parts if not one.ended]
    worth = sum((one.worth for one in live), Fraction(0))
    if worth or any(one.critical for one in live):
        return FIRST, -worth
    return NO_MONEY, -score(live)


def order_of(amount: Fraction) -> Order:
    """Where time without a finding stands that costs so much a day."""
    return (FIRST, -amount) if amount else (NO_MONEY, Fraction(0))


def ranked(parts: Iterable[Part[T]], group: Callable[[Part[T]], Group]) -> list[tuple[Group, Sequence[Part[T]]]]:
    """The groups, those worth most first; the findings within each by urgency. Equal groups keep the order of `parts`."""
    groups: dict[Group, list[Part[T]]] = {}
    for one in parts:
        groups.setdefault(group(one), []).append(one)
    for members in groups.values():
        members.sort(key=lambda one: (-one.score, one.key))
    return sorted(groups.items(), key=lambda item: order(item[1]))
