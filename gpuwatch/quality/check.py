"""One thing that doctor looked at, and the words that its checks share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"
NAMED_MAX = 8
"""Nodes, owners or reasons that one check names; it counts the rest."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `fix` is empty when all is well."""

    id: str
    status: str
    what: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        """The check as JSON has it."""
        return asdict(self)


def place(row: dict[str, Any]) -> str:
    """`cluster/node` of a row."""
    return f"{row['cluster']}/{row['node']}"


def named(values: Iterable[str], between: str = ", ") -> str:
    """The first NAMED_MAX of them, and how many more."""
    every = list(values)
    more = f" and {len(every) - NAMED_MAX} more" if len(every) > NAMED_MAX else ""
    return between.join(every[:NAMED_MAX]) + more
