"""What one answer of a replica was made from: one state of its copy, and as of when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from gpuwatch.core.errors import StoreBusy
from gpuwatch.store.database import Store
from gpuwatch.store.snapshot import Snapshot


@dataclass
class Answered:
    """One answer. Threads that make it share this object."""

    as_of_us: int | None = None
    """Everything that was published until then is in it; None: it was not made from a copy."""
    seen: tuple[int, int] | None = None
    """The state of the copy that it was made from: its snapshot of the lake, and when that was copied."""

    def note(self, seen: tuple[int, int], as_of_us: int) -> None:
        """Notes what was read. Raises StoreBusy if the answer was begun with another state: it would mix two."""
        if self.seen is not None and self.seen != seen:
            raise StoreBusy("the copy of the lake was renewed in the middle of the answer; ask again")
        self.seen = seen
        self.as_of_us = as_of_us if self.as_of_us is None else min(self.as_of_us, as_of_us)


ANSWER: ContextVar[Answered | None] = ContextVar("answer", default=None)
"""The answer that this thread or task makes."""


@contextmanager
def snapshot(store: Store, as_of_us: Callable[[], int | None]) -> Iterator[Store]:
    """A connection of its own, all of whose statements see one state of the copy. `as_of_us`: the last pull without an error."""
    from gpuwatch.lake import mirror

    before_us = as_of_us()  # read first: what the snapshot has is at least as new
    with Snapshot.of(store) as found:
        pull = mirror.last_pull(found)
        if pull is None or not pull.whole:
            raise StoreBusy("the ledger is being copied from the lake; retry in a few seconds")
        if (answer := ANSWER.get()) is not None:
            answer.note((pull.snapshot, pull.pulled_us), max(pull.pulled_us, before_us or 0))
        yield found
