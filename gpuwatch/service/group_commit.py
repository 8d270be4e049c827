"""Group commit: requests that arrive at about the same time share one transaction, and wait for it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gpuwatch.core.clock import DAY_US
from gpuwatch.core.errors import StoreBusy, StoreError
from gpuwatch.core.model import Points, Records, Rejects
from gpuwatch.store.cardinality import SeriesLimit
from gpuwatch.store.database import Store
from gpuwatch.store.stored_contexts import StoredContexts
from gpuwatch.store.time_bounds import Ahead, Span, happened, in_time, live

LINGER_S = 0.1
"""How long the first request of a group waits for others."""
PATIENT_S = 1.0
"""The same if no sender is waiting."""
ROWS_QUEUED_MAX = 2_000_000
"""Limit of queued rows; above it, senders are asked to retry later."""
ROWS_A_COMMIT = 500_000
REQUESTS_A_COMMIT = 1_000
FATAL = "database has been invalidated"
"""DuckDB's error message when the database must be reopened."""

Batches = Sequence[Records | Points]


@dataclass(frozen=True)
class _Request:
    source: str
    batches: Batches
    rows: int
    done: Future[None]
    patient: bool


@dataclass(frozen=True)
class Proof:
    """The time if another clock confirms it, else None; and what is called for a source with a record of a later time."""

    now_us: Callable[[], int | None]
    on_ahead: Callable[[str, Ahead], None]


class GroupCommit:
    """The only writer of raw tables: a thread that appends submitted batches in groups.

    Calls `on_commit(seconds, rows, requests)` after each commit. If a group fails, its requests are retried one by one,
    so that a rejected one never fails the others. Calls `on_fatal(why)` if the store must be reopened.
    """

    def __init__(
        self,
        store: Store,
        now_us: Callable[[], int],
        raw_days: int,
        on_commit: Callable[[float, int, int], None] | None = None,
        on_fatal: Callable[[str], None] | None = None,
        span: Callable[[], Span] | None = None,
        proof: Proof | None = None,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`span` is when readings are taken; by default as long as raw samples are kept, by the clock.

        With `proof`, no record is stored with a time later than the proven one. `confirm` is called between a commit and its
        acknowledgement: if it raises StoreError, the senders keep their data.
        """
        self._store = store
        self._now_us = now_us
        self._span = span or (lambda: live(now_us(), raw_days * DAY_US))
        self._proof = proof or Proof(lambda: None, lambda source, ahead: None)
        self._limit = SeriesLimit()
        self._contexts = StoredContexts(store.changes)
        self._confirm = confirm
        self._on_commit = on_commit
        self._on_fatal = on_fatal
        self._queue: deque[_Request] = deque()
        self._rows = 0
        self._urgent = False  # a sender in the queue is waiting
        self._changed = threading.Condition()
        self._storing = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    @property
    def rows_queued(self) -> int:
        """Number of queued rows."""
        return self._rows

    @property
    def alive(self) -> bool:
        """Whether the writer runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Starts the writer with the label sets already in the store."""
        self._limit.load(self._store)
        self._thread.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block in which no batch is stored; senders wait for its end."""
        with self._storing:
            yield

    def stop(self) -> None:
        """Writes all accepted batches, then stops the writer."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def submit(
        self, source: str, batches: Batches, rejects: Rejects | None = None, *, patient: bool = False
    ) -> Future[None]:
        """Queues batches. The future completes when they are on disk, and fails with StoreError if they cannot be stored.

        Readings with an impossible time, and those above the limit of new label sets of a cluster, are left out and
        counted in `rejects`. With `patient`, no sender is waiting, so groups may be larger. Raises StoreBusy if the
        queue is full.
        """
        now_us = self._now_us()
        span = self._span()
        kept = [in_time(b, span, source, rejects) if isinstance(b, Points) else b for b in batches]
        kept = self._limit.admitted(self._happened(source, kept), now_us, source, rejects)
        rows = sum(b.rows.num_rows for b in kept)
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # can no longer be cancelled: the rows will be written
        with self._changed:
            if self._stopping:
                raise StoreBusy("the service is stopping; retry in a moment")
            # A single request larger than the whole queue is accepted if the queue is empty.
            if self._rows and self._rows + rows > ROWS_QUEUED_MAX:
                raise StoreBusy(f"{self._rows} rows are queued; retry in a few seconds")
            was_empty, was_urgent = not self._queue, self._urgent
            self._queue.append(_Request(source, kept, rows, done, patient))
            self._rows += rows
            self._urgent = was_urgent or not patient
            # The writer waits for the end of the group anyway: each needless wake-up costs as much as decoding 20 samples.
            if was_empty or self._urgent != was_urgent or self._is_full():
                self._changed.notify_all()
        return done

    def _happened(self, source: str, batches: list[Records | Points]) -> list[Records | Points]:
        """The batches without record times that lie ahead of a clock that others confirm."""
        proven_us = self._proof.now_us()
        if proven_us is None:
            return batches
        kept: list[Records | Points] = []
        for batch in batches:
            ahead = None
            if isinstance(batch, Records):
                batch, ahead = happened(batch, proven_us)
            kept.append(batch)
            if ahead is not None:
                self._proof.on_ahead(source, ahead)
        return kept

    def _is_full(self) -> bool:
        """Whether the queue is a whole group."""
        return self._rows >= ROWS_A_COMMIT or len(self._queue) >= REQUESTS_A_COMMIT

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._stopping:
                    self._changed.wait()
                if not self._queue:
                    return
                deadline, hurried = time.monotonic() + PATIENT_S, False
                while not self._stopping and not self._is_full():
                    if self._urgent and not hurried:
                        deadline, hurried = min(deadline, time.monotonic() + LINGER_S), True
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                group: list[_Request] = []
                rows = 0
                while self._queue and len(group) < REQUESTS_A_COMMIT and (not group or rows < ROWS_A_COMMIT):
                    group.append(self._queue.popleft())
                    rows += group[-1].rows
                self._urgent = any(not request.patient for request in self._queue)
            self._write(group)
            with self._changed:
                self._rows -= rows

    def _write(self, group: list[_Request]) -> None:
        begun = time.monotonic()
        try:
            self._append(group)
            self._confirm()
        except Exception as error:  # noqa: BLE001 - reported to the senders, who keep their data
            if len(group) > 1 and not isinstance(error, StoreError):
                for request in group:
                    self._write([request])
                return
            if FATAL in str(error) and self._on_fatal is not None:
                self._on_fatal(_words(error))
            for request in group:
                request.done.set_exception(error if isinstance(error, StoreError) else StoreError(_words(error)))
            return
        if self._on_commit is not None:
            self._on_commit(time.monotonic() - begun, sum(r.rows for r in group), len(group))
        for request in group:
            request.done.set_result(None)

    def _append(self, group: list[_Request]) -> None:
        with self._storing:
            batches = self._contexts.without([batch for request in group for batch in request.batches])
            together = merged(batches)
            self._store.prepare(together)
            with self._store.transaction():
                for batch in together:
                    self._store.append(batch)
            self._contexts.committed(batches)


def merged(batches: Batches) -> list[Records | Points]:
    """One batch per table, contexts first; points get new series numbers to keep senders apart."""
    out: list[Records | Points] = []
    tables: dict[tuple[str, tuple[str, ...]], list[pa.Table]] = {}
    points: list[Points] = []
    for batch in batches:
        if isinstance(batch, Points):
            points.append(batch)
        else:
            tables.setdefault((batch.table, tuple(batch.rows.column_names)), []).append(batch.rows)
    for (name, _), rows in sorted(tables.items(), key=lambda item: item[0][0] != "context"):
        whole = pa.concat_tables(rows)
        if name == "context":
            whole = _distinct(whole)
        out.append(Records(name, whole))
    if len(points) == 1:
        out.append(points[0])
    elif points:
        out.append(_joined(points))
    return out


def _joined(points: list[Points]) -> Points:
    """Points of many senders in one batch; each sender's series numbers are shifted past the previous ones."""
    series: list[pa.Table] = []
    rows: list[pa.Table] = []
    shift = 0
    for each in points:
        numbers = each.series.column("series").to_numpy()
        moved = pa.array((numbers + shift).astype(np.int32))
        series.append(each.series.set_column(0, "series", moved))
        used = each.rows.column("series").to_numpy()
        rows.append(each.rows.set_column(0, "series", pa.array((used + shift).astype(np.int32))))
        shift += int(numbers.max()) + 1 if len(numbers) else 0
    return Points(pa.concat_tables(series), pa.concat_tables(rows))


def _distinct(contexts: pa.Table) -> pa.Table:
    """One row per context, since several senders may send the same one."""
    ids = contexts.column("context_id").to_numpy()
    _, first = np.unique(ids, return_index=True)
    return contexts.take(pa.array(np.sort(first)))


def _words(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"cannot store the batch: {first}"
