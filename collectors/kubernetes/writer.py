"""The book's news on its way to the store: one round at a time, while the watches read on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpuwatch.collectors.kubernetes.changes import Book
from gpuwatch.collectors.shared.live_write import write
from gpuwatch.collectors.shared.records import table_batches
from gpuwatch.core.model import Records, Rejects
from gpuwatch.core.registry import Sink

MAX_ROWS = 20_000
"""Rows that may wait; beyond, the watches read no further, and the server waits for them."""


class Writer:
    """Writes what the book has whenever it is told to look; what came meanwhile goes together."""

    def __init__(self, name: str, cluster: str, book: Book, sink: Sink, now_us: Callable[[], int]) -> None:
        self.problems: dict[str, str] = {}
        """What fails now, by path: while anything does, no success is told."""
        self._name, self._cluster, self._book, self._sink, self._now_us = name, cluster, book, sink, now_us
        self._read, self._heard = 0, False
        self._wake, self._written = asyncio.Event(), asyncio.Event()

    def look(self, read: int | None = None) -> None:
        """There may be news; `read` objects came in one answer, None where no answer came."""
        self._read += read or 0
        self._heard |= read is not None
        self._wake.set()

    def refuse(self, reason: str, where: str) -> None:
        """Counts something that could not be read, for the pages that show what a source lacks."""
        self._book.rejects.add(reason, where, 0)

    async def room(self) -> None:
        """Returns when the book has room for more."""
        while self._book.rows > MAX_ROWS:
            self._written.clear()
            self._wake.set()
            await self._written.wait()

    async def run(self) -> None:
        """Writes for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            (read, heard), self._read, self._heard = (self._read, self._heard), 0, False
            tables = self._book.take(self._now_us())
            rejects, self._book.rejects = self._book.rejects, Rejects()
            self._written.set()
            news: list[Records] = [
                b for table, rows in tables.items() for b in table_batches(table, rows, self._cluster)
            ]
            await write(self._sink, self._name, news, rejects, self._now_us)
            if heard and not self.problems:
                self._sink.succeeded(self._name, self._now_us(), read)
