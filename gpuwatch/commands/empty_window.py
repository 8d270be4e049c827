"""What is said of a window without GPU time: when the data ends, and a window that has some."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

from gpuwatch.commands import remote
from gpuwatch.commands.shared import say
from gpuwatch.core.clock import DAY_US, Window, parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from gpuwatch.store.database import Store
    from gpuwatch.store.lockfile import Note

BACK_US = 7 * DAY_US
"""Length of the window that is proposed, at most."""


def stored(store: Store, gpu_seconds: str) -> str | None:
    """The line for an answer of so many GPU-seconds from these books; None where there are some."""
    from gpuwatch.audit.summary import whole_window

    return None if Decimal(gpu_seconds) else words(whole_window(store))


def outside(store: Store, span: Window) -> str | None:
    """The line for a window that these books do not touch; None for one that they do."""
    from gpuwatch.audit.summary import whole_window

    known = whole_window(store)
    touched = known is not None and known.start_us < span.end_us and span.start_us < known.end_us
    return None if touched else words(known)


def served(note: Note, gpu_seconds: str) -> str | None:
    """As `stored`, of the books that a server holds."""
    if Decimal(gpu_seconds):
        return None
    as_of = json.loads(remote.get(note, "/api/v1/fleet", {}))["as_of"]
    if as_of is None:
        return words(None)
    end_us = parse_rfc3339(as_of)
    return words(Window(end_us - BACK_US, end_us))


def words(known: Window | None) -> str:
    """The line, by what the books know; None: nothing."""
    if known is None:
        return "No GPU time in this window; the books are empty: gpuwatch doctor says what to bring"
    start = rfc3339(max(known.start_us, known.end_us - BACK_US))
    end = rfc3339(known.end_us)
    return f"No GPU time in this window; data ends at {end}: try --window {start},{end}"


def tell(line: str | None) -> None:
    """On stderr: what is printed stays as it is for programs."""
    if line is not None:
        say(line)
