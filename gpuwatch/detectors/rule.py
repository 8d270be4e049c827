"""What a detector is: words, thresholds and a SQL file of the same stem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpuwatch.registry import discover

Evidence = Mapping[str, Any]


def count(number: float, noun: str) -> str:
    """A number in a sentence, with its noun: one decimal, two below 1; the evidence has it whole."""
    told = f"{number:,.{1 if abs(number) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return f"{told} {noun}{'' if told == '1' else 's'}"


@dataclass(frozen=True)
class Threshold:
    """One number of a rule and where it comes from."""

    name: str
    value: float
    source: str


@dataclass(frozen=True)
class Rule:
    """A detector: the SQL decides (sql/detectors/<stem>.sql), this explains."""

    id: str
    title: str
    why: str
    bucket: str
    thresholds: tuple[Threshold, ...]
    summary: Callable[[Evidence], str]
    remedy: Callable[[Evidence], str]
    severity: Callable[[Evidence, float], str] | None = None
    """(evidence, hours) to a severity; None: by money a day."""

    @property
    def stem(self) -> str:
        """The name of its SQL file, module and test."""
        return self.id.replace("-", "_")

    @property
    def parameters(self) -> dict[str, float]:
        """The thresholds by name: microseconds are whole numbers."""
        return {t.name: int(t.value) if "_us" in t.name else t.value for t in self.thresholds}


def version_of(parameters: Mapping[str, float]) -> str:
    """The thresholds that were in force, as text: a finding keeps those it was judged by."""
    return ",".join(f"{name}={value:g}" for name, value in sorted(parameters.items()))


_rules: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Makes a rule known. Raises ValueError when its id is taken."""
    if rule.id in _rules:
        raise ValueError(f"detector {rule.id!r} is registered twice: {_rules[rule.id].title!r} and {rule.title!r}")
    _rules[rule.id] = rule
    return rule


def rules() -> dict[str, Rule]:
    """All detectors by id."""
    discover("gpuwatch.detectors")
    return dict(sorted(_rules.items()))
