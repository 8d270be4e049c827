"""A report in a message: one sentence, a few numbers, and where the files are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from gpuwatch.report import actions
from gpuwatch.report import text as report_text
from gpuwatch.report.compose import lead, title
from gpuwatch.report.facts import Facts
from gpuwatch.report.headlines import headlines
from gpuwatch.report.sections.budgets import budgeted

WASTES = 5
"""Actions in a message."""


@dataclass(frozen=True)
class Summary:
    """A report in a message. `team` is None for the fleet; `stem` names its files below the report directory."""

    week: str
    team: str | None
    title: str
    window: str
    lead: str
    budget: str
    numbers: tuple[tuple[str, str, str], ...]
    """(label, value, change)"""
    wastes: tuple[tuple[str, str, str, str], ...]
    """The actions: (what, owner, money a month, remedy)."""
    quality: str
    stem: str

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Summary:
        """A summary from its JSON. Raises ValueError for anything else."""
        try:
            lists = {name: tuple(tuple(str(part) for part in item) for item in stored[name]) for name in _LISTS}
            texts = {name: str(stored[name]) for name in _TEXTS}
            team = stored["team"]
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a report summary ({type(error).__name__})") from error
        return cls(**texts, **lists, team=None if team is None else str(team))  # type: ignore[arg-type]


_LISTS = ("numbers", "wastes")
_TEXTS = ("week", "title", "window", "lead", "budget", "quality", "stem")


def summary(facts: Facts, stem: str) -> Summary:
    """The summary of a report whose files are named `stem`."""
    listed = [(actions.card(facts, step), actions.owner_of(facts, step)) for step in actions.steps(facts)[:WASTES]]
    measured = facts.quality.unobserved_ratio
    quality = (
        "no GPU time was held"
        if measured is None
        else f"{report_text.percent(1 - Fraction(measured))} of held time measured"
    )
    if facts.quality.unpriced_gpu_seconds:
        quality += ", some time has no price"
    return Summary(
        week=facts.week,
        team=facts.team,
        title=title(facts),
        window=f"{report_text.days(facts.window)}, UTC",
        lead=lead(facts),
        budget=budgeted(facts),
        numbers=tuple((h.label, h.value, h.change) for h in headlines(facts)),
        wastes=tuple((card.title, who, card.lost, card.remedy) for card, who in listed),
        quality=quality,
        stem=stem,
    )
