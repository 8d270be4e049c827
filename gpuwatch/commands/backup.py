"""The commands backup and restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, now_us, opened, write
from gpuwatch.core.errors import StoreError
from gpuwatch.store import lockfile


def backup(
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new directory.")] = Path("gpuwatch-backup"),
) -> None:
    """Back up a data directory. Works while it is served; gpuwatch restore copies it back."""
    from gpuwatch.commands.remote import post
    from gpuwatch.service.backup import backup as copy

    note = lockfile.find(data)
    if note is not None:
        answer = post(note, "/api/v1/backup", {"directory": str(target.absolute())})
        total = int(answer["telemetry_bytes"]) + int(answer["state_bytes"])
    else:
        with opened(data, config) as (store, state, _):
            done = copy(store, state, target)
        total = done.telemetry_bytes + done.state_bytes
    write(f"{target}: {total} bytes; gpuwatch restore copies it back\n")


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A directory that gpuwatch backup wrote.")],
    data: DataOption = DEFAULT_DATA,
    state_only: Annotated[
        bool, typer.Option("--state-only", help="Only tokens, prices, policies and settings; keep the telemetry.")
    ] = False,
) -> None:
    """Copy a backup into a data directory that no server uses. What it replaces is kept in DIR/replaced-TIME."""
    from gpuwatch.service.restore import restore as copy_back
    from gpuwatch.store.private_files import private_umask

    if (note := lockfile.find(data)) is not None:
        raise StoreError(f"{data} is in use by process {note.pid}, which serves {note.url}: stop it first")
    with private_umask():
        kept = copy_back(source, data, now_us(context), state_only)
    write(f"{data}: restored from {source}{f'; the former files are in {kept}' if kept else ''}\n")


command("backup", backup, place=150)
command("restore", restore, place=155)
