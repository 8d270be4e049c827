"""The errors gpuwatch raises, as a tree. Each says what, which, and what to do."""

from __future__ import annotations


class GpuwatchError(Exception):
    """Base: its text is one line for a person; `exit_code` is the command line's (contract.md section 2)."""

    exit_code = 2


class UsageError(GpuwatchError):
    """The request itself is wrong: an option, a window, a setting."""


class UnreadableInput(GpuwatchError):
    """A named input cannot be read at all: missing, empty, binary, wrong kind."""


class StoreError(GpuwatchError):
    """The store cannot be opened, or is held by another process."""

    exit_code = 3


class StoreBusy(StoreError):
    """The queue in front of the store is full: the sender keeps its data and tries again."""


class SourceUnreachable(GpuwatchError):
    """A live source did not answer."""

    exit_code = 3


class BooksDoNotClose(GpuwatchError):
    """A device-hour whose buckets do not add up to its capacity; the message names it."""

    exit_code = 1
