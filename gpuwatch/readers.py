"""Connections for those who read: a bounded number, each lent to one thread at a time."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager

from gpuwatch.errors import StoreBusy
from gpuwatch.store import Store

READERS_MAX = 8
WAIT_S = 10.0


class Readers:
    """Lends cursors of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: queue.LifoQueue[Store | None] = queue.LifoQueue()
        for _ in range(READERS_MAX):
            self._free.put(None)  # opened at first use

    @contextmanager
    def lend(self, wait_s: float = WAIT_S) -> Iterator[Store]:
        """A cursor for the block. Raises StoreBusy when all are in use for `wait_s`."""
        try:
            cursor = self._free.get(timeout=wait_s)
        except queue.Empty:
            raise StoreBusy(f"{READERS_MAX} questions are being answered; ask again in a few seconds") from None
        try:
            cursor = cursor or self._store.cursor()
            yield cursor
        except BaseException:
            # What failed half-way may hold a transaction or a result: it is not lent again.
            if cursor is not None:
                cursor.close()
                cursor = None
            raise
        finally:
            self._free.put(cursor)

    def close(self) -> None:
        """Closes the idle cursors."""
        while True:
            try:
                cursor = self._free.get_nowait()
            except queue.Empty:
                return
            if cursor is not None:
                cursor.close()
