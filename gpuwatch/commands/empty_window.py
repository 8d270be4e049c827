"""The hint for a window without GPU time: when the data ends, and a window that has some."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

from gpuwatch.commands import remote
from gpuwatch.commands.shared import print_stderr
from gpuwatch.core.clock import DAY_US, Window, parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from gpuwatch.store.database import Store
    from gpuwatch.store.lockfile import Note

BACK_US = 7 * DAY_US
"""Longest window to suggest."""


def stored(store: Store, gpu_seconds: str) -> str | None:
    """The hint for a result with this many GPU-seconds; None if there are any."""
    from gpuwatch.audit.summary import whole_window

    return None if Decimal(gpu_seconds) else words(whole_window(store))


def outside(store: Store, span: Window) -> str | None:
    """The hint for a window that the ledger does not cover at all; None otherwise."""
    from gpuwatch.audit.summary import whole_window

    known = whole_window(store)
    touched = known is not None and known.start_us < span.end_us and span.start_us < known.end_us
    return None if touched else words(known)


def served(note: Note, gpu_seconds: str) -> str | None:
    """Same as `stored`, through a server."""
    if Decimal(gpu_seconds):
        return None
    as_of = json.loads(remote.get(note, "/api/v1/fleet", {}))["as_of"]
    if as_of is None:
        return words(None)
    end_us = parse_rfc3339(as_of)
    return words(Window(end_us - BACK_US, end_us))


def words(known: Window | None) -> str:
    """The hint, given the end of the ledger; None: the ledger is empty."""
    if known is None:
        return "No GPU time in this window; the ledger is empty: run gpuwatch doctor to see what is missing"
    start = rfc3339(max(known.start_us, known.end_us - BACK_US))
    end = rfc3339(known.end_us)
    return f"No GPU time in this window; data ends at {end}: try --window {start},{end}"


def print_hint(line: str | None) -> None:
    """Prints the hint on stderr, so that stdout stays machine-readable."""
    if line is not None:
        print_stderr(line)
