"""The `gpuwatch audit-log` command: who changed what and when."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, DataOption, FormatOption, moment_us, names, show, state_only
from gpuwatch.core.errors import StoreError
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


command("audit-log", audit_log, place=170)
