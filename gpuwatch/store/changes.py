"""How often each table of an open store has changed, so that an answer is repeated only while its tables are the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from threading import Lock, RLock

TEXTS_MAX = 2048
"""Statements whose words are kept."""
_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_TARGET = re.compile(
    r"\s*(?:insert\s+(?:or\s+\w+\s+)?into|delete\s+from|update|truncate(?:\s+table)?|drop\s+table(?:\s+if\s+exists)?"
    r"|create\s+(?:or\s+replace\s+)?temp\s+(?P<made>table|view|macro)(?:\s+if\s+not\s+exists)?)"
    r'\s+"?(?P<name>[a-z_][a-z0-9_]*)"?'
)
_DYNAMIC = frozenset({"query", "query_table"})
"""Functions that read a table whose name is not in the statement."""


@dataclass(frozen=True)
class Words:
    """The words of a statement, the table that it writes, and the kind of temporary object that it makes."""

    all: frozenset[str]
    target: str | None
    made: str | None


@lru_cache(maxsize=TEXTS_MAX)
def words(text: str) -> Words:
    """The words of a statement."""
    code = _COMMENT.sub("", text.lower())
    target = _TARGET.match(code)
    name, made = (None, None) if target is None else (target["name"], target["made"])
    return Words(frozenset(map(intern, _WORD.findall(code))), name, made)


def made_by(text: str) -> frozenset[str]:
    """The temporary table or view that a changing statement makes, if any."""
    found = words(text)
    return frozenset((found.target,)) if found.target and found.made in ("table", "view") else frozenset()


class Changes:
    """Counts of committed changes by table, for all connections of one open store."""

    def __init__(self) -> None:
        self._tables: frozenset[str] = frozenset()
        self._counts: Counter[str] = Counter()
        self._lock = Lock()
        self.sample_lock = RLock()
        """Held by a transaction that deletes samples, and while a field gets its column."""
        self.sample_fields: frozenset[str] | None = None
        """The fields that have a stored column; None: not read yet."""

    def learn(self, tables: Iterable[str]) -> None:
        """Takes over the names of the permanent tables. All others are temporary, and belong to one connection."""
        self._tables = frozenset(tables)

    def read_by(self, text: str) -> frozenset[str]:
        """The tables that a statement may read: those that it names."""
        found = words(text).all
        return self._tables & found if _DYNAMIC.isdisjoint(found) else self._tables

    def named_by_view(self, text: str) -> frozenset[str]:
        """The tables that a changing statement names if it makes a temporary view or macro: its readers read them."""
        return self.read_by(text) if words(text).made in ("view", "macro") else frozenset()

    def written_by(self, text: str) -> frozenset[str]:
        """The tables that a changing statement may write: its target, or all that it names where the target is unclear."""
        found = words(text)
        if found.made is not None:
            return frozenset()
        return self._tables & ({found.target} if found.target else found.all)

    def note(self, tables: Iterable[str]) -> None:
        """Counts a change of tables. Called after the commit: who sees the new count sees the change."""
        with self._lock:
            self._counts.update(tables)

    def counts(self) -> Counter[str]:
        """The counts now, of tables that have changed. Taken before an answer is made: the answer is at least as new."""
        with self._lock:
            return self._counts.copy()
