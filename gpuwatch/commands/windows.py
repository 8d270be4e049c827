"""The option --window: what it takes, and where a window that counts back ends."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.shared import now_us, print_stderr
from gpuwatch.core.clock import ENDED_US, HOUR_US, WINDOW_HELP, Window, parse_rfc3339, parse_window, rfc3339
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

DEFAULT_WINDOW = "7d"
_BACK = re.compile(r"\d{1,5}[hdw]")
"""A window that counts back from the end."""


def _known(text: str | None) -> str | None:
    """Refuses an unknown window before any data is opened. Raises UsageError."""
    if text is not None:
        parse_window(text, time.time_ns() // 1000)
    return text


WindowOption = Annotated[str, typer.Option("--window", metavar="W", help=WINDOW_HELP, callback=_known)]


def window_of(text: str, context: typer.Context, known_end_us: int | None = None) -> Window:
    """The window given by --window, relative to now.

    Hours, days or weeks back (`7d`, the default) are the last ones of the data where that ended more than ENDED_US ago
    (`known_end_us`: where it ends), as on pages; a line on stderr says so.
    """
    at_us = now_us(context)
    if _BACK.fullmatch(text) and known_end_us is not None and known_end_us < at_us - ENDED_US:
        end = rfc3339(known_end_us)
        print_stderr(f"The data ends at {end}: these are its last {text}. For other times: --window START,END.")
        at_us = known_end_us
    return parse_window(text, at_us)


def window_in(text: str, context: typer.Context, store: Store) -> Window:
    """The window given by --window; `7d` and the like end with the data of a store whose data ended."""
    from gpuwatch.ledger.totals import ledger_window

    known = ledger_window(store)
    return window_of(text, context, None if known is None else known.end_us)


def window_at(text: str, context: typer.Context, note: lockfile.Note) -> Window:
    """The same for the data of a server: its last hour counts as a whole one, as in a store."""
    from gpuwatch.commands import remote

    if not _BACK.fullmatch(text):
        return window_of(text, context)
    end = json.loads(remote.get(note, "/api/v1/coverage", {}))["end"]
    return window_of(text, context, None if end is None else -(-parse_rfc3339(end) // HOUR_US) * HOUR_US)
