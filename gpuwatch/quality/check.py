"""The result of one doctor check, and helpers for its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OK, WARN, FAIL, NOT_JUDGED = "ok", "warn", "fail", "not judged"
"""NOT_JUDGED: the check could not be made, because what it reads is missing. It has a fix and is never OK."""
COLUMNS = ("id", "status", "what", "fix")
NAMED_MAX = 8
"""Nodes, owners or reasons that one check lists by name; the rest are counted."""


@dataclass(frozen=True)
class Check:
    """The result of one check; `fix` is empty only if its status is ok."""

    id: str
    status: str
    what: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The check as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Evidence:
    """What the store has for checks to read, and how to add what is missing."""

    measured: bool
    """Some GPU was measured."""
    scheduled: bool
    """A scheduler named a node or a job."""
    holds: bool
    """A job held a GPU in the time that is checked."""
    held_samples: bool
    """A GPU was measured while a job held it."""
    prices: bool
    """Prices were computed."""
    measure_fix: str
    scheduler_fix: str


def wrong(checks: Iterable[Check]) -> bool:
    """Whether any check needs a fix, or could not be made: doctor's exit code."""
    return any(check.status != OK for check in checks)


def unjudged(id: str, why: str, fix: str) -> Check:
    """The result of a check that could not be made."""
    return Check(id, NOT_JUDGED, f"not judged: {why}", fix)


def place(row: dict[str, Any]) -> str:
    """`cluster/node` of a row."""
    return f"{row['cluster']}/{row['node']}"


def named(values: Iterable[str], between: str = ", ") -> str:
    """The first NAMED_MAX values, and how many more there are."""
    every = list(values)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return between.join(every[:NAMED_MAX]) + more
