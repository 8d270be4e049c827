"""The one order of actions: groups of findings, the most urgent group first. Pure.

The scan, the scorecard, the overview and the reports rank by it. A group is as urgent as its findings together, each by
gpuwatch/findings/priority.py: severity times cost a day times certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from gpuwatch.findings.priority import Facts, Rate, at_risk_hours, of_rate

T = TypeVar("T")
Group = tuple[Any, ...]


@dataclass(frozen=True)
class Part(Generic[T]):
    """A finding with what it costs and risks a day, and how urgent that is."""

    finding: T
    key: str
    rate: Rate
    saves: bool
    at_risk_hours: Fraction
    score: Fraction


def part(finding: T, key: str, facts: Facts, rate: Rate, saves: bool, mean_price: Fraction | None) -> Part[T]:
    """A finding that costs, or would save, `rate` a day."""
    risk_hours = at_risk_hours(facts, rate, saves)
    return Part(finding, key, rate, saves, risk_hours, of_rate(facts, rate, risk_hours, mean_price))


def score(parts: Iterable[Part[T]]) -> Fraction:
    """How urgent findings are together."""
    return sum((one.score for one in parts), Fraction(0))


def ranked(parts: Iterable[Part[T]], group: Callable[[Part[T]], Group]) -> list[tuple[Group, Sequence[Part[T]]]]:
    """The groups, the most urgent first; so are the findings within each. Equally urgent groups keep the order of `parts`."""
    groups: dict[Group, list[Part[T]]] = {}
    for one in parts:
        groups.setdefault(group(one), []).append(one)
    for members in groups.values():
        members.sort(key=lambda one: (-one.score, one.key))
    return sorted(groups.items(), key=lambda item: -score(item[1]))
