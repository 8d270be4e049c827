"""The option --window: what it takes, and where a default window ends."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.shared import now_us, print_stderr
from gpuwatch.core.clock import ENDED_US, HOUR_US, WINDOW_HELP, Window, parse_rfc3339, parse_window, rfc3339
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.store.database import Store

DEFAULT_WINDOW = "7d"


def _known(text: str | None) -> str | None:
    """Refuses an unknown window before any data is opened. Raises UsageError."""
    if text is not None:
        parse_window(text, time.time_ns() // 1000)
    return text


WindowOption = Annotated[str, typer.Option("--window", metavar="W", help=WINDOW_HELP, callback=_known)]


def window_of(text: str, context: typer.Context, known_end_us: int | None = None) -> Window:
    """The window given by --window, relative to now.

    Where none is given and the data ended more than ENDED_US ago (`known_end_us`: where it ends), the default ends with the data,
    and a line on stderr says so.
    """
    at_us = now_us(context)
    source = context.get_parameter_source("window")
    default = source is not None and source.name == "DEFAULT"
    if default and known_end_us is not None and known_end_us < at_us - ENDED_US:
        print_stderr(
            f"The data ends at {rfc3339(known_end_us)}: these are its last {text}. --window {text} counts back from now."
        )
        at_us = known_end_us
    return parse_window(text, at_us)


def window_in(text: str, context: typer.Context, store: Store) -> Window:
    """The window given by --window; the default one ends with the data of a store whose data ended."""
    from gpuwatch.ledger.totals import ledger_window

    known = ledger_window(store)
    return window_of(text, context, None if known is None else known.end_us)


def window_at(text: str, context: typer.Context, note: lockfile.Note) -> Window:
    """The same for the data of a server: its last hour counts as a whole one, as in a store."""
    from gpuwatch.commands import remote

    source = context.get_parameter_source("window")
    if source is None or source.name != "DEFAULT":
        return window_of(text, context)
    end = json.loads(remote.get(note, "/api/v1/coverage", {}))["end"]
    return window_of(text, context, None if end is None else -(-parse_rfc3339(end) // HOUR_US) * HOUR_US)
