"""Answers of single statements, given again while the tables that they name are unchanged."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gpuwatch.core import sqlfile
from gpuwatch.store.changes import Changes
from gpuwatch.store.connection import Connection

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 20_000
"""Rows of all answers of one store that are kept."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class _Kept:
    rows: list[Any]
    tables: frozenset[str]
    counts: Counter[str]
    """The tables that the statement names, and how often each had changed before it ran."""

    def holds(self, counts: Counter[str]) -> bool:
        return all(self.counts[name] == counts[name] for name in self.tables)


@dataclass
class _Turn:
    lock: Lock = field(default_factory=Lock)
    users: int = 0


class _Memory:
    """Answers by statement and parameters; the one that was not asked for longest goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._rows = 0
        self._lock = Lock()
        self._turns: dict[str, _Turn] = {}

    def find(self, key: str, counts: Counter[str]) -> list[Any] | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.holds(counts):
                return None
            self._kept.move_to_end(key)
            return kept.rows

    def keep(self, key: str, kept: _Kept) -> None:
        """Keeps an answer, and no longer those whose tables have changed: they are never given again."""
        with self._lock:
            for other in [name for name, one in self._kept.items() if not one.holds(kept.counts)]:
                self._drop(other)
            self._drop(key)
            self._kept[key] = kept
            self._rows += len(kept.rows) + 1
            while self._rows > ROWS_MAX:
                self._drop(next(iter(self._kept)))

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """One thread at a time for each statement and its parameters."""
        with self._lock:
            turn = self._turns.setdefault(key, _Turn())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self._turns[key]

    def _drop(self, key: str) -> None:
        if key in self._kept:
            self._rows -= len(self._kept.pop(key).rows) + 1


_memories: WeakKeyDictionary[Changes, _Memory] = WeakKeyDictionary()
"""One for each open store: all its connections share its counts of changes."""


def rows(store: Connection, name: str, /, given: Mapping[str, pa.Table] | None = None, **parameters: object) -> Rows:
    """As `store.rows` of a SQL file with one statement that reads tables of the store only, and none made by this connection
    but the small ones `given` by name. Those who ask the same at the same time wait for the first.

    Within a transaction the statement runs: there its tables may differ from those of others. It also runs where none of its tables
    is known, as in a store that has not learned its tables.
    """
    (statement,) = sqlfile.load(name)
    tables = dict(given or {})
    listed = {table: rows.to_pylist() for table, rows in tables.items()}
    key = f"{name} {_words(statement.pick(parameters))} {_words(listed)}"

    def ask() -> Rows:
        with ExitStack() as views:
            for table, rows in tables.items():
                views.enter_context(store.view(table, rows))
            return store.rows(name, **parameters)

    return [dict(row) for row in _remembered(store, key, statement.text, ask)]


def sql(store: Connection, text: str, /, **parameters: object) -> list[tuple[Any, ...]]:
    """As `store.sql`, under the same conditions as `rows`."""
    return list(_remembered(store, f"{text} {_words(parameters)}", text, lambda: store.sql(text, **parameters)))


def _remembered(store: Connection, key: str, text: str, ask: Callable[[], list[Any]]) -> list[Any]:
    tables = store.changes.read_by(text)
    if store.within or not tables:  # no known table: nothing would show that the answer has changed
        return ask()
    memory = _memories.setdefault(store.changes, _Memory())
    with memory.turn(key):
        counts = store.changes.counts()
        found = memory.find(key, counts)
        if found is None:
            found = ask()
            memory.keep(key, _Kept(found, tables, counts))
        else:
            store.has_read(tables)
    return found


def _words(parameters: Mapping[str, object]) -> str:
    return repr(sorted(parameters.items()))
