"""Values of a policy document: read one by one, every mistake kept with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gpuwatch.core.clock import DAY_US, parse_rfc3339
from gpuwatch.core.errors import UsageError
from gpuwatch.policy.ownership import RESERVED_PREFIX

MAX_ITEMS = 1000
"""Policies of a document, and entries of each list in one."""
NAME_MAX = 200
SHOWN_MAX = 80
"""Characters of a value, or of its place, that a message repeats."""
EXPONENT_MAX = 60
"""Numbers beyond 10^60, or of more decimals, are not written out."""

FACTOR_DIGITS, FACTOR_PLACES = 3, 4
"""Of weights, factors and percentages."""


@dataclass(frozen=True)
class Problem:
    """One mistake of a document: where, what, and what to write instead; `line` where it is known."""

    path: str
    what: str
    fix: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.line is None else f'line {self.line}: '}{self.path}: {self.what}; {self.fix}"


class PolicyError(UsageError):
    """A policy document is wrong; nothing of it was applied. `problems` names every mistake."""

    def __init__(self, problems: Sequence[Problem], name: str = "policy") -> None:
        self.problems = tuple(problems)
        super().__init__(f"{name}: nothing was changed: " + " | ".join(map(str, self.problems)))


@dataclass(frozen=True)
class Known:
    """What a document may speak of; None where it is not known."""

    teams: frozenset[str] | None = None
    places: tuple[tuple[str, str | None, str | None], ...] | None = None
    """(cluster, pool, GPU model) of the fleet."""
    currencies: frozenset[str] | None = None


ANYTHING = Known()
"""Where nothing is known that a document could contradict."""


class Values:
    """Reads values; adds every mistake to `problems` and continues."""

    def __init__(self, path: str, problems: list[Problem], known: Known) -> None:
        self.path, self.problems, self.known = path, problems, known

    def wrong(self, where: str, what: str, fix: str) -> None:
        self.problems.append(Problem(f"{self.path}.{where[:SHOWN_MAX]}" if where else self.path, what, fix))

    def each(self, row: Mapping[str, Any], name: str, make: Callable[[str, Mapping[str, Any]], Any]) -> Iterable[Any]:
        rows = row.get(name, [])
        if not isinstance(rows, list) or len(rows) > MAX_ITEMS or not all(isinstance(one, Mapping) for one in rows):
            self.wrong(name, "is no list of tables", f"write up to {MAX_ITEMS} tables [[policies.{name}]]")
            return []
        made = [make(f"{name}.{n}", one) for n, one in enumerate(rows)]
        return [one for one in made if one is not None]

    def only(self, where: str, row: Mapping[str, Any], known: Sequence[str]) -> None:
        for name in row:
            if name not in known:
                self.wrong(f"{where}.{name}", "is not known", f"known: {', '.join(known)}")

    def choice(self, where: str, value: Any, known: Sequence[str], *, optional: bool = False) -> str | None:
        if (value is None and optional) or (isinstance(value, str) and value in known):
            return value
        self.wrong(where, f"{shown(value)} is not known", f"use one of {', '.join(known)}")
        return None

    def text(self, row: Mapping[str, Any], name: str) -> str:
        return self.name(name, row.get(name))

    def name(self, where: str, value: Any) -> str:
        if not isinstance(value, str) or not value.strip() or len(value) > NAME_MAX:
            self.wrong(where, "is missing", f"write a text of 1 to {NAME_MAX} characters")
            return ""
        if not value.isprintable():
            self.wrong(where, f"{shown(value)} has characters that cannot be printed", "leave them out")
            return ""
        return value.strip()

    def word(self, where: str, value: Any) -> str | None:
        return None if value is None else self.name(where, value)

    def team(self, where: str, value: Any) -> str:
        team = self.name(where, value)
        if team.startswith(RESERVED_PREFIX):
            self.wrong(where, f"{team!r} is a name of the ledger", "name a team")
        elif team and self.known.teams is not None and team not in self.known.teams:
            self.wrong(where, f"no ownership rule or run has the team {team!r}", "correct it, or add a rule first")
        return team

    def whole(self, row: Mapping[str, Any], name: str, default: int, most: int) -> int:
        value = row.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.wrong(name, f"{shown(value)} is no whole number from 0 to {most}", "correct it")
            return default
        return value

    def factor(self, where: str, value: Any, most: int = 1) -> Decimal:
        found = self.number(where, value, FACTOR_DIGITS, FACTOR_PLACES)
        if found is not None and found > most:
            self.wrong(where, f"{found} is above {most}", f"write a number from 0 to {most} with at most 4 decimals")
        return found or Decimal(0)

    def number(self, where: str, value: Any, digits: int, places: int) -> Decimal | None:
        """A decimal number, written as text or as a number, of at most so many digits before and behind the point."""
        text = "" if isinstance(value, bool | float) else _plain(value)
        if not re.fullmatch(rf"\d{{1,{digits}}}(\.\d{{1,{places}}})?", text, re.ASCII):
            what = "is negative" if text.startswith("-") else f"{shown(value)} is no plain decimal number in range"
            fix = (
                f"write one such as 0.5: not negative, at most {digits} digits before the point and {places} behind it"
            )
            self.wrong(where, what, fix)
            return None
        return Decimal(text)

    def day(self, row: Mapping[str, Any], name: str, *, required: bool) -> int | None:
        value = row.get(name)
        if value is None and not required:
            return None
        try:
            text = value.isoformat() if isinstance(value, date | datetime) else str(value)
            found = parse_rfc3339(text)
        except (ValueError, OverflowError):
            self.wrong(name, f"{shown(value)} is no day", "write one such as 2026-11-01")
            return None
        if found < 0:
            self.wrong(name, f"{text} is before 1970-01-01", "no price is that old: write that day or a later one")
        if found % DAY_US:
            self.wrong(name, f"{text} is no UTC midnight", "a policy begins and ends with a UTC day")
        return found

    @staticmethod
    def repeated(names: Sequence[str]) -> list[tuple[int, int]]:
        """(place, earlier place) of each name that stands twice."""
        first: dict[str, int] = {}
        return [(n, first[name]) for n, name in enumerate(names) if first.setdefault(name, n) != n]


def shown(value: Any) -> str:
    """A value as a message repeats it: short, whatever was sent."""
    if isinstance(value, str):
        return ascii(value[:SHOWN_MAX]) if not value[:SHOWN_MAX].isprintable() else repr(value[:SHOWN_MAX])
    if isinstance(value, Mapping | list):
        return "a table" if isinstance(value, Mapping) else "a list"
    if isinstance(value, Decimal | int) and not _plain(value):
        return "a number that long"
    return repr(str(value)[:SHOWN_MAX])


def _plain(value: Any) -> str:
    """A number as text without an exponent; "" for what is none, or would be very long."""
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite():
            return str(value)
        small = max(abs(value.adjusted()), abs(int(value.as_tuple().exponent))) <= EXPONENT_MAX
        return f"{value:f}" if small else ""
    return str(value) if isinstance(value, int | float) and abs(value) < 10**EXPONENT_MAX else ""
