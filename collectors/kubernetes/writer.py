"""Writes the tracked changes to the store, one round at a time, while the watches keep reading."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuwatch.collectors.kubernetes.changes import ClusterChanges
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.model import Records
from gpuwatch.core.registry import Sink

MAX_ROWS = 20_000
"""Rows that may wait; above that the watches pause, and the server buffers."""


class Writer:
    """Writes whenever it is notified; rows that arrive during a write go together into the next one."""

    def __init__(self, name: str, cluster: str, changes: ClusterChanges, sink: Sink, now_us: Callable[[], int]) -> None:
        self.problems: dict[str, str] = {}
        """Current failures by path: while there is any, no success is reported."""
        self._name, self._cluster, self._changes, self._sink, self._now_us = name, cluster, changes, sink, now_us
        self._read, self._heard = 0, False
        self._wake, self._written = asyncio.Event(), asyncio.Event()

    def notify(self, read: int | None = None) -> None:
        """Wakes the writer after an answer with `read` objects, or without an answer (None)."""
        self._read += read or 0
        self._heard |= read is not None
        self._wake.set()

    def refuse(self, reason: str, where: str) -> None:
        """Counts input that could not be read, for the data quality pages."""
        self._changes.outbox.refuse_input(reason, where)

    async def wait_for_room(self) -> None:
        """Returns once fewer than MAX_ROWS rows wait."""
        while self._changes.outbox.count > MAX_ROWS:
            self._written.clear()
            self._wake.set()
            await self._written.wait()

    async def run(self) -> None:
        """Writes forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            (read, heard), self._read, self._heard = (self._read, self._heard), 0, False
            tables, rejects = self._changes.take(self._now_us()), self._changes.outbox.take_rejects()
            self._written.set()
            batches: list[Records] = [
                batch for table, rows in tables.items() for batch in table_batches(table, rows, self._cluster)
            ]
            await write(self._sink, self._name, batches, rejects, self._now_us)
            if heard and not self.problems:
                self._sink.succeeded(self._name, self._now_us(), read)
