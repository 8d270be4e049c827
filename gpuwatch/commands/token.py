"""Commands about API tokens: create, list, revoke."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands import unknown_names
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import DEFAULT_DATA, DataOption, FormatOption, actor, names, now_us, program, say, show
from gpuwatch.core.errors import StoreError, UnreadableInput, UsageError
from gpuwatch.output.listing import Listing, choose

if TYPE_CHECKING:
    from gpuwatch.state import State

COLUMNS = ("id", "name", "scope", "teams", "state", "created_at", "created_by", "expires_at")
MAX_DAYS = 3660
_SPAN = re.compile(r"(\d{1,5})([hd])")


def create(
    context: typer.Context,
    scope: Annotated[str, typer.Option("--scope", metavar="ingest|read|admin", help="What it may do.")],
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who uses it: shown in the audit log.")] = "",
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="T,...", help="A read token sees only these teams' rows.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="90d", help="Hours (h) or days (d) until it ends; default: never."),
    ] = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Makes a token and prints it once: it cannot be read again."""
    from gpuwatch.policy.known_names import team_doubts
    from gpuwatch.state.tokens import Tokens

    at_us = now_us(context)
    teams = None if team is None else names(team)
    with _state(data, create=True) as state:
        first = not Tokens(state).exist()
        token, text = Tokens(state).create(name or scope, scope, teams, _until(expires, at_us), actor(), at_us)
    bound = "" if token.teams is None else f", teams {', '.join(token.teams)}"
    say(f"token {token.id}: scope {token.scope}{bound}; keep it, it is shown once")
    if token.teams and (named := unknown_names.teams_at(data)):
        for doubt in team_doubts(token.teams, named):
            say(doubt)
    if first:
        admin = f"; make one for you too: {program()} token create --scope admin --data {quote(str(data))}"
        say(
            "it is the first token: from now on pages and API ask for one, also on this machine"
            + ("" if scope == "admin" else admin)
        )
    typer.echo(text)


def list_(context: typer.Context, data: DataOption = DEFAULT_DATA, form: FormatOption = None) -> None:
    """Every token, without what opens: also those that were revoked or have expired."""
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.state.tokens import Tokens

    choose(form, True)
    at_us = now_us(context)
    with _state(data) as state:
        found = Tokens(state).list()
    items = [
        {
            "id": token.id,
            "name": token.name,
            "scope": token.scope,
            "teams": None if token.teams is None else list(token.teams),
            "state": "valid" if token.valid_at(at_us) else "expired" if token.revoked_us is None else "revoked",
            "created_at": rfc3339(token.created_us),
            "created_by": token.created_by,
            "expires_at": None if token.expires_us is None else rfc3339(token.expires_us),
        }
        for token in found
    ]
    show(Listing(COLUMNS, items, foot=[] if items else ["No tokens: loopback is admin."]), form)


def revoke(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="As `gpuwatch token list` names it.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Ends a token at once."""
    from gpuwatch.state.tokens import Tokens

    with _state(data) as state:
        changed = Tokens(state).revoke(identity, actor(), now_us(context))
    say(f"token {identity} {'revoked' if changed else 'was revoked before'}")


@contextmanager
def _state(data: Path, create: bool = False) -> Iterator[State]:
    """The state alone: it may be opened beside a server that runs on the same directory, and before there is one."""
    from gpuwatch.state import State

    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    if not data.exists() and not create:
        raise StoreError(
            f"no gpuwatch data in {data}: import something or start gpuwatch serve first, or give --data DIR"
        )
    with State.open(data) as state:
        yield state


def _until(text: str | None, at_us: int) -> int | None:
    from gpuwatch.core.clock import DAY_US, HOUR_US

    if text is None:
        return None
    match = _SPAN.fullmatch(text)
    length = int(match[1]) * (HOUR_US if match[2] == "h" else DAY_US) if match else 0
    if not 0 < length <= MAX_DAYS * DAY_US:
        raise UsageError(f"--expires {text}: write a time such as 12h or 90d, at most {MAX_DAYS}d")
    return at_us + length


tokens = typer.Typer(help="API tokens: create, list, revoke.", rich_markup_mode=None, no_args_is_help=True)
tokens.command("create")(create)
tokens.command("list")(list_)
tokens.command("revoke")(revoke)
group("token", tokens, place=270)
