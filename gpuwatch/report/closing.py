"""A closing of the week that a report is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Closed:
    """A closing of the week itself: its charges are frozen. `whole`: by job too, not only by team."""

    at_us: int
    by: str
    digest: str | None
    """None where the reader may not learn of other teams."""
    signed: tuple[str, ...]
    whole: bool
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the cards that it was priced with; {} where that was not noted."""
    forced: str | None = None
    """What was missing when the closing was forced; None if it was not."""
