"""Records for people and programs: a table on a terminal, JSON or CSV elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuwatch.core.errors import UsageError

FORMATS = ("table", "json", "csv")
BUCKET_WORDS = {
    "compute": "Compute",
    "memory_roof": "Memory-bound work",
    "below_roof": "Below peak",
    "stalled": "Busy, SMs idle",
    "communication": "Waiting on network",
    "gap": "Gaps (host, data, checkpoint)",
    "hoarded": "Held idle",
    "unobserved": "Not measured",
    "schedulable": "Free",
    "stranded": "Free but stranded",
    "mig_remainder": "MIG remainder",
    "out_of_service": "Out of service",
}
"""Labels of the buckets, in stacking order."""


@dataclass(frozen=True)
class Listing:
    """Records to print. `extra` is added next to `items` in JSON; `head` and `foot` are printed above and below the table."""

    columns: Sequence[str]
    items: Sequence[Mapping[str, Any]]
    extra: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[str] | None = None
    """Columns of the table, if fewer than in CSV."""
    foot: Sequence[str] = ()
    head: Sequence[str] = ()
    people: Sequence[Mapping[str, Any]] | None = None
    """Rows of the table, if other than the records."""
    right: Sequence[str] = ()
    """Columns of the table that are aligned right, besides the known numbers."""
    spare: Sequence[str] = ()
    """Columns to drop from a table that is too wide, least important first."""
    sentence: str | None = None
    """The column with sentences: the others become narrow, and spare ones are dropped, before it does."""


def choose(form: str | None, terminal: bool, formats: Sequence[str] = FORMATS) -> str:
    """The requested format; by default a table on a terminal and JSON elsewhere. Raises UsageError."""
    if form is None:
        return "table" if terminal else "json"
    if form not in formats:
        raise UsageError(f"--format {form}: use {', '.join(formats)}")
    return form


def visible(text: str) -> str:
    """Text on one line with control characters escaped, so that input cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
