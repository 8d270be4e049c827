"""The errors that gpuwatch raises. Each message has the problem, the object, and what to do."""

from __future__ import annotations


class GpuwatchError(Exception):
    """Base class: its text is one line for people; `exit_code` is that of the command line."""

    exit_code = 2


class UsageError(GpuwatchError):
    """The request is wrong: an option, a window, a setting."""


class UnreadableInput(GpuwatchError):
    """An input cannot be read at all: missing, empty, binary, or of the wrong kind."""


class ChangedMeanwhile(GpuwatchError):
    """A list that was to be replaced is no longer the one that its editor read."""


class StoreError(GpuwatchError):
    """The store cannot be opened, or is in use by another process."""

    exit_code = 3


class Misdirected(StoreError):
    """This process never does that: another one does."""


class StoreBusy(StoreError):
    """The queue of the store is full: the sender keeps its data and tries again."""


class NotHolder(StoreBusy):
    """Another process has the lease of this work, or nobody: the sender goes to `address` ("": unknown), or tries again."""

    def __init__(self, words: str, address: str) -> None:
        super().__init__(words)
        self.address = address


class TimeNotConfirmed(StoreError):
    """The time of the data cannot be checked now: the sender keeps its data and tries again."""


class SourceUnreachable(GpuwatchError):
    """A live source did not respond."""

    exit_code = 3


class LedgerDoesNotClose(GpuwatchError):
    """A device-hour whose buckets do not add up to its capacity; the message names it."""

    exit_code = 1


def light(error: Exception) -> Exception:
    """An error for another thread; one of ours loses its traceback, which would keep its input and what was built of it."""
    if isinstance(error, GpuwatchError):
        error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
