"""`gpuwatch imports` lists imports; `gpuwatch import --forget` takes one back."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    now_us,
    opened,
    program,
    show,
)
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

ROUTE = "/api/v1/imports"


def imports(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """List imports, the newest first. Take one back with gpuwatch import --forget ID."""
    from gpuwatch.imports.forget import COLUMNS
    from gpuwatch.imports.forget import imports as found

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        rows = remote.every(note, ROUTE, {})["items"]
    else:
        with opened(data, config) as (store, _, _):
            rows = found(store)
    foot = [] if rows else ["No imports."]
    show(Listing(COLUMNS, rows, foot=foot), form)


def forget(
    context: typer.Context, import_id: int, data: Path, config: Path | None, new_state: bool, form: str | None
) -> None:
    """Takes an import back and prints what that removed."""
    from gpuwatch.imports.forget import FORGOTTEN
    from gpuwatch.imports.forget import forget as take_back

    if (note := lockfile.find(data)) is not None:
        row = remote.delete(note, f"{ROUTE}/{import_id}")
        foot = "The server computes the touched hours again."
    else:
        with opened(data, config, new_state=new_state) as (store, state, _):
            row = take_back(store, import_id, now_us(context))
            state.record(actor(), now_us(context), f"import {import_id} forgotten", None, row["path"])
        foot = f"Next: {program()} analyze --data {quote(str(data))}"
    show(Listing(FORGOTTEN, [row], foot=[foot]), form)


command("imports", imports, place=45)
