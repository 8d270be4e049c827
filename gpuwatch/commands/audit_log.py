"""The `gpuwatch audit-log` command: who changed what, and which rows."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, DataOption, FormatOption, moment_us, names, show
from gpuwatch.core.errors import StoreError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

COLUMNS = ("id", "at", "actor", "what", "before", "after", "difference")
SHOWN = ("at", "actor", "what", "change")
LIMIT = 100
CHANGES_SHOWN = 6
"""Rows of a difference that a table line names; json has more."""


def audit_log(
    data: DataOption = DEFAULT_DATA,
    since: Annotated[str | None, typer.Option("--since", metavar="T", help="RFC 3339; changes from then on.")] = None,
    what: Annotated[
        list[str] | None, typer.Option("--what", metavar="rates|teams|policies|...", help="Only changes of these.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="The newest so many.")] = LIMIT,
    form: FormatOption = None,
) -> None:
    """Every change of rates, policies, owners, periods and access, the newest first."""
    choose(form, True)
    since_us, words = moment_us(since, "--since"), names(what or ())
    if (note := lockfile.find(data)) is not None:
        asked = {"since": since, "what": ",".join(words) or None, "limit": limit}
        items = json.loads(remote.get(note, "/api/v1/audit", asked))["items"]
    else:
        from gpuwatch.state import State
        from gpuwatch.state.audit_log import entries, entry_words

        if not data.is_dir():
            raise StoreError(f"no gpuwatch data in {data}: import something first, or give --data DIR")
        with State.open(data) as state:
            items = [entry_words(entry) for entry in entries(state, since_us=since_us, what=words, limit=limit)]
    rows = [{**item, "change": _change(item)} for item in items]
    show(Listing(COLUMNS, rows, shown=SHOWN, foot=[] if rows else ["No change is noted."]), form)


def _change(item: dict[str, Any]) -> str:
    """A difference, or what was noted, in one line."""
    difference = item["difference"]
    if difference is None:
        return json.dumps(item["after"], ensure_ascii=False) if item["after"] is not None else ""
    told = [f"{sign} {_words(row)}" for sign, side in (("-", "removed"), ("+", "added")) for row in difference[side]]
    count = difference["added_count"] + difference["removed_count"]
    more = f"; and {count - CHANGES_SHOWN} more" if count > CHANGES_SHOWN else ""
    return "; ".join(told[:CHANGES_SHOWN]) + more


def _words(row: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items() if value is not None)


command("audit-log", audit_log, place=170)
