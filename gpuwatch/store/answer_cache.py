"""Answers that are given again while nothing that they follow from has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from gpuwatch.core.clock import Window
from gpuwatch.store.database import Store

ANSWERS_MAX = 256
"""Answers that are kept where each has the size 1."""

Stamp = frozenset[tuple[str, int | None, str | None]]
_Answer = TypeVar("_Answer")


class Answers(Generic[_Answer]):
    """Answers by their question and by the name of what they were made from. For several threads.

    `most` bounds the sum of their sizes; by default each has the size 1. The one that was not asked for longest goes first.
    """

    def __init__(self, most: int = ANSWERS_MAX, size_of: Callable[[_Answer], int] = lambda _: 1) -> None:
        self._most, self._size_of = most, size_of
        self._kept: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._lock = Lock()
        self.size = 0
        """The sum of the sizes of what is kept."""

    def find(self, key: Hashable) -> _Answer | None:
        """What was kept under a key."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: Hashable, answer: _Answer) -> None:
        """Keeps an answer, and as many others as there is room for."""
        with self._lock:
            self._drop(key)
            self._kept[key] = answer
            self.size += self._size_of(answer)
            while self.size > self._most:
                _, oldest = self._kept.popitem(last=False)
                self.size -= self._size_of(oldest)

    def drop(self, key: Hashable) -> None:
        """Keeps nothing under a key."""
        with self._lock:
            self._drop(key)

    def forget(self) -> None:
        """Keeps nothing."""
        with self._lock:
            self._kept.clear()
            self.size = 0

    def _drop(self, key: Hashable) -> None:
        if key in self._kept:
            self.size -= self._size_of(self._kept.pop(key))


def stamp(store: Store, window: Window) -> Stamp | None:
    """What the sums of a window's whole days are made from. Names of makings are random, so no two stores that differ have
    the same. None while an hour of the window waits to be computed.
    """
    rows = store.rows("store/answer_stamp", start_us=window.start_us, end_us=window.end_us)
    if any(row["owed"] for row in rows):
        return None
    return frozenset((row["cluster"], row["day_us"], row["stamp"]) for row in rows)


def whole(store: Store) -> bool:
    """Whether whole days alone tell the question that sql/billing/kind.sql was asked: then the stamp names all of it."""
    return not store.sql("select 1 from fine_span limit 1")
