"""A pool of read connections, each used by one thread at a time and for a limited time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from gpuwatch.core.errors import StoreBusy
from gpuwatch.store.database import Store

READERS_MAX = 8
WAIT_S = 10.0
QUESTION_S_MAX = 300.0
"""Time limit of one request, so that slow ones cannot block all others."""
WATCH_S = 1.0
PROBE_WAIT_S = 1.0
"""How long one probe waits for another."""


SnapshotOf = Callable[[Store], AbstractContextManager[Store]]
"""Makes a connection that sees one state of a store."""


@dataclass
class _Loan:
    cursor: Store
    until_s: float
    late: bool = False


class Probe:
    """A connection for readiness alone. The service stays ready for data while queries use all others."""

    def __init__(self, cursor: Store) -> None:
        self._cursor = cursor
        self._lock = threading.Lock()

    def problems(self) -> list[str]:
        """Why the store does not respond; empty if it does."""
        if not self._lock.acquire(timeout=PROBE_WAIT_S):
            return ["the store does not respond: an earlier probe is still waiting"]
        try:
            self._cursor.sql("select 1")
        except Exception as error:  # noqa: BLE001 - whatever it is, the store does not respond
            return [f"the store does not respond: {error}"]
        finally:
            self._lock.release()
        return []

    def close(self) -> None:
        """Closes the connection."""
        with self._lock:
            self._cursor.close()


class Readers:
    """A pool of cursors on one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._free: queue.LifoQueue[Store | None] = queue.LifoQueue()
        for _ in range(READERS_MAX):
            self._free.put(None)  # opened at first use
        self._lent: dict[int, _Loan] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="readers", daemon=True)

    @contextmanager
    def lend(
        self, wait_s: float = WAIT_S, question_s: float | None = QUESTION_S_MAX, snapshot: SnapshotOf | None = None
    ) -> Iterator[Store]:
        """A cursor for the block, or what `snapshot` makes of the store.

        Raises StoreBusy if none is free within `wait_s`, or the block exceeds `question_s`.
        """
        try:
            cursor = self._free.get(timeout=wait_s)
        except queue.Empty:
            raise StoreBusy(f"{READERS_MAX} requests are in progress; retry in a few seconds") from None
        loan: _Loan | None = None
        try:
            cursor = cursor or self._store.cursor()
            if snapshot is None:
                loan = self._begin(cursor, question_s)
                yield cursor
            else:
                with snapshot(self._store) as own:
                    loan = self._begin(own, question_s)
                    yield own
                    self._end(loan)
        except BaseException as error:
            # After an error a cursor may hold a transaction or a result, so it is not reused.
            self._end(loan)
            if cursor is not None:
                cursor.close()
                cursor = None
            # An interrupted transaction raises KeyboardInterrupt, which would end the server.
            if loan is not None and loan.late and isinstance(error, Exception | KeyboardInterrupt):
                raise StoreBusy(f"the request took longer than {question_s:g} s; choose a shorter window") from error
            raise
        finally:
            self._end(loan)
            if cursor is not None and loan is not None and loan.late:
                cursor.close()
                cursor = None
            self._free.put(cursor)

    def close(self) -> None:
        """Closes the idle cursors."""
        self._closed.set()
        while True:
            try:
                cursor = self._free.get_nowait()
            except queue.Empty:
                return
            if cursor is not None:
                cursor.close()

    def _begin(self, cursor: Store, question_s: float | None) -> _Loan | None:
        if question_s is None:
            return None
        loan = _Loan(cursor, time.monotonic() + question_s)
        with self._lock:
            self._lent[id(loan)] = loan
            if self._watcher.ident is None:
                self._watcher.start()
        return loan

    def _end(self, loan: _Loan | None) -> None:
        """Stops the watchdog: the cursor is no longer interrupted."""
        if loan is not None:
            with self._lock:
                self._lent.pop(id(loan), None)

    def _watch(self) -> None:
        """Interrupts a slow block repeatedly until it ends, since between two queries there is nothing to interrupt."""
        while not self._closed.wait(WATCH_S):
            with self._lock:
                for loan in self._lent.values():
                    if time.monotonic() > loan.until_s:
                        loan.late = True
                        loan.cursor.interrupt()
