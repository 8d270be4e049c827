"""A connection that sees one state of the store, whatever others commit meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from gpuwatch.core.errors import Misdirected
from gpuwatch.store.database import Store


class Snapshot(Store):
    """All of its statements are in one transaction, which changes no permanent table. What it makes ends with it."""

    @classmethod
    @contextmanager
    def of(cls, store: Store) -> Iterator[Self]:
        """A snapshot of a store as it is now."""
        with cls(store._connection.cursor(), store.path, store.changes) as found, Store.transaction(found):
            found.sql("select 1 from store_identity")  # DuckDB takes the state at the first table
            yield found

    @contextmanager
    def workspace(self) -> Iterator[Self]:
        """This connection itself: another one would see another state."""
        yield self

    def cursor(self) -> Store:  # type: ignore[override]
        """Another connection to the store as it is by then."""
        return Store(self._connection.cursor(), self.path, self.changes)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A part of the snapshot, which is one transaction already."""
        yield

    def _note(self, text: str, changing: bool) -> None:
        """Raises Misdirected for a statement that changes a permanent table: with its transaction it is undone."""
        super()._note(text, changing)
        if self._written:
            raise Misdirected(
                "this process answers from a copy and changes no data: send it to the one that has the data"
            )
