"""The result of one doctor check, and helpers for its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"
NAMED_MAX = 8
"""Nodes, owners or reasons that one check lists by name; the rest are counted."""


@dataclass(frozen=True)
class Check:
    """The result of one check; `fix` is empty if its status is ok."""

    id: str
    status: str
    what: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The check as JSON."""
        return asdict(self)


def place(row: dict[str, Any]) -> str:
    """`cluster/node` of a row."""
    return f"{row['cluster']}/{row['node']}"


def named(values: Iterable[str], between: str = ", ") -> str:
    """The first NAMED_MAX values, and how many more there are."""
    every = list(values)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return between.join(every[:NAMED_MAX]) + more
