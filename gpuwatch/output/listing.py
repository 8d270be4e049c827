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
"""What a bucket is called on screen, in the order in which stacks run."""


@dataclass(frozen=True)
class Listing:
    """Records and how they are shown: `extra` stands beside `items` in JSON, `foot` below the table."""

    columns: Sequence[str]
    items: Sequence[Mapping[str, Any]]
    extra: Mapping[str, Any] = field(default_factory=dict)
    shown: Sequence[str] | None = None
    """Columns of the table, where it shows fewer than CSV has."""
    foot: Sequence[str] = ()
    spare: Sequence[str] = ()
    """Columns that a table which is too wide does without, the least important first."""


def choose(form: str | None, terminal: bool, formats: Sequence[str] = FORMATS) -> str:
    """The format asked for; by default a table on a terminal and JSON elsewhere. Raises UsageError."""
    if form is None:
        return "table" if terminal else "json"
    if form not in formats:
        raise UsageError(f"--format {form}: use {', '.join(formats)}")
    return form


def visible(text: str) -> str:
    """Text on one line with control characters escaped: input must not write to somebody's terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
