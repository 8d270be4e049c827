"""The commands about the state alone: `gpuwatch audit-log` (who changed what and when) and `gpuwatch state copy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command, group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    moment_us,
    names,
    now_us,
    print_stderr,
    show,
    state_only,
)
from gpuwatch.core import database_url
from gpuwatch.core.database_url import has_password
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

COLUMNS = ("id", "at", "actor", "what", "before", "after", "difference")
SHOWN = ("at", "actor", "what", "change")
LIMIT = 100
CHANGES_SHOWN = 6
"""Changed rows shown per table line; JSON has all."""


def audit_log(
    data: DataOption = DEFAULT_DATA,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Only changes since this time (RFC 3339).")
    ] = None,
    what: Annotated[
        list[str] | None, typer.Option("--what", metavar="rates|teams|policies|...", help="Only changes to these.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=1000, help="Number of changes, newest first.")
    ] = LIMIT,
    form: FormatOption = None,
) -> None:
    """List changes to rates, policies, owners and access. Newest first; includes billing periods."""
    choose(form, True)
    since_us, words = moment_us(since, "--since"), names(what or ())
    if (note := lockfile.find(data)) is not None:
        parameters = {"since": since, "what": ",".join(words) or None, "limit": limit}
        items = json.loads(remote.get(note, "/api/v1/audit", parameters))["items"]
    else:
        from gpuwatch.state.audit_log import entries, entry_words

        if not data.is_dir():
            raise StoreError(f"no gpuwatch data in {data}: import something first, or pass --data DIR")
        with state_only(data) as state:
            items = [entry_words(entry) for entry in entries(state, since_us=since_us, what=words, limit=limit)]
    rows = [{**item, "change": _change(item)} for item in items]
    show(Listing(COLUMNS, rows, shown=SHOWN, foot=[] if rows else ["No changes recorded."]), form)


def _change(item: dict[str, Any]) -> str:
    """A change in one line."""
    difference = item["difference"]
    if difference is None:
        return json.dumps(item["after"], ensure_ascii=False) if item["after"] is not None else ""
    changes = [f"{sign} {_words(row)}" for sign, side in (("-", "removed"), ("+", "added")) for row in difference[side]]
    count = difference["added_count"] + difference["removed_count"]
    more = f"; and {count - CHANGES_SHOWN} more" if count > CHANGES_SHOWN else ""
    return "; ".join(changes[:CHANGES_SHOWN]) + more


def _words(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value is not None)


def copy(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="URL of an empty PostgreSQL database, or a directory.", show_default=False
        ),
    ],
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="File with the password for TARGET.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Copy the state into an empty database, which replaces it. Stop the server first."""
    from gpuwatch.state import State
    from gpuwatch.state.copying import move
    from gpuwatch.state.server import Server
    from gpuwatch.store.private_files import private_umask

    if (note := lockfile.find(data)) is not None:
        raise StoreError(f"{data} is in use by process {note.pid}, which serves {note.url}: stop it first")
    if not data.is_dir():
        raise StoreError(f"no gpuwatch data in {data}: pass --data DIR")
    where: Server | Path = Path(target)
    if "://" in target:
        if (wrong := database_url.problem(target)) is not None:
            raise UsageError(f"TARGET: {wrong}")
        if has_password(target):
            print_stderr(
                "TARGET: other users of this machine see the password in its URL; use --password-file or PGPASSWORD"
            )
        where = Server(target, None if password_file is None else str(password_file))
    with private_umask(), state_only(data, config) as source, State.open(where) as new:
        counts = move(source, new, actor(), now_us(context))
        option = new.name if isinstance(where, Server) else ""
    rows = [{"table": table, "rows": count} for table, count in counts.items()]
    use = f"Use it from now on: GPUWATCH_STATE_URL={option}" if option else f"Use it from now on: --data {target}"
    show(Listing(("table", "rows"), rows, foot=[f"Copied {sum(counts.values())} rows. {use}"]), None)


states = typer.Typer(help="Move the state to another database.", rich_markup_mode=None, no_args_is_help=True)
states.command("copy")(copy)
command("audit-log", audit_log, place=170)
group("state", states, place=275)
