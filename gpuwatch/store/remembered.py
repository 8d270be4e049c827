"""Answers of single statements, given again while the tables that they name are unchanged."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from gpuwatch.core import sqlfile
from gpuwatch.store.changes import Changes
from gpuwatch.store.connection import Connection

ROWS_MAX = 20_000
"""Rows of all answers of one store that are kept."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class _Kept:
    rows: list[Any]
    counts: Counter[str]
    """How often each table had changed before the statement ran."""


class _Memory:
    """Answers by statement and parameters; the one that was not asked for longest goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._rows = 0
        self._lock = Lock()

    def find(self, key: str, tables: frozenset[str], counts: Counter[str]) -> list[Any] | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or any(kept.counts[name] != counts[name] for name in tables):
                return None
            self._kept.move_to_end(key)
            return kept.rows

    def keep(self, key: str, kept: _Kept) -> None:
        with self._lock:
            self._drop(key)
            self._kept[key] = kept
            self._rows += len(kept.rows) + 1
            while self._rows > ROWS_MAX:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        if key in self._kept:
            self._rows -= len(self._kept.pop(key).rows) + 1


_memories: WeakKeyDictionary[Changes, _Memory] = WeakKeyDictionary()
"""One for each open store: all its connections share its counts of changes."""


def rows(store: Connection, name: str, /, **parameters: object) -> Rows:
    """As `store.rows` of a SQL file with one statement that reads tables of the store only, and none made by this connection.

    Within a transaction the statement runs: there its tables may differ from those of others. It also runs where none of its tables
    is known, as in a store that has not learned its tables.
    """
    (statement,) = sqlfile.load(name)
    key = f"{name} {_words(statement.pick(parameters))}"
    found = _remembered(store, key, statement.text, lambda: store.rows(name, **parameters))
    return [dict(row) for row in found]


def sql(store: Connection, text: str, /, **parameters: object) -> list[tuple[Any, ...]]:
    """As `store.sql`, under the same conditions as `rows`."""
    return list(_remembered(store, f"{text} {_words(parameters)}", text, lambda: store.sql(text, **parameters)))


def _remembered(store: Connection, key: str, text: str, ask: Callable[[], list[Any]]) -> list[Any]:
    tables, counts = store.changes.read_by(text), store.changes.counts()
    if store.within or not tables:  # no known table: nothing would show that the answer has changed
        return ask()
    memory = _memories.setdefault(store.changes, _Memory())
    found = memory.find(key, tables, counts)
    if found is None:
        found = ask()
        memory.keep(key, _Kept(found, counts))
    else:
        store.has_read(tables)
    return found


def _words(parameters: Mapping[str, object]) -> str:
    return repr(sorted(parameters.items()))
