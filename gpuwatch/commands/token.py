"""The `gpuwatch token` commands: create, list and revoke API tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands import hints
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    DataOption,
    FormatOption,
    actor,
    names,
    now_us,
    print_stderr,
    program,
    show,
    state_only,
)
from gpuwatch.core.errors import StoreError, UnreadableInput, UsageError
from gpuwatch.output.listing import Listing, choose

if TYPE_CHECKING:
    from gpuwatch.state import State
    from gpuwatch.state.tokens import Token

COLUMNS = ("id", "name", "scope", "teams", "state", "created_at", "created_by", "expires_at")
MAX_DAYS = 3660
_SPAN = re.compile(r"(\d{1,5})([hd])")


def create(
    context: typer.Context,
    scope: Annotated[str, typer.Option("--scope", metavar="ingest|read|admin", help="Permissions of the token.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="User of the token, shown in the audit log.")
    ] = "",
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="T,...", help="Limit a read token to these teams.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="90d", help="Lifetime in hours (h) or days (d); default: unlimited."),
    ] = None,
    data: DataOption = DEFAULT_DATA,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="table|json|csv", help="Print the token's record; default: the token alone."),
    ] = None,
) -> None:
    """Create a token and print it once. It cannot be shown again."""
    from gpuwatch.policy.known_names import team_doubts
    from gpuwatch.state.tokens import Tokens

    choose(form, True)
    at_us = now_us(context)
    teams = None if team is None else names(team)
    with _state(data, create=True) as state:
        first = not Tokens(state).exist()
        token, text = Tokens(state).create(name or scope, scope, teams, _until(expires, at_us), actor(), at_us)
    bound = "" if token.teams is None else f", teams {', '.join(token.teams)}"
    print_stderr(f"token {token.id}: scope {token.scope}{bound}; store it now, it is shown only once")
    if token.teams and (known_teams := hints.teams_at(data)):
        for doubt in team_doubts(token.teams, known_teams):
            print_stderr(doubt)
    if first:
        admin = f"; create an admin token too: {program()} token create --scope admin --data {quote(str(data))}"
        print_stderr(
            "this is the first token: from now on the pages and the API require one, even on this machine"
            + ("" if scope == "admin" else admin)
        )
    if form is None:
        typer.echo(text)
    else:
        show(Listing((*COLUMNS, "token"), [_record(token, at_us) | {"token": text}]), form)


def list_(context: typer.Context, data: DataOption = DEFAULT_DATA, form: FormatOption = None) -> None:
    """List all tokens, without their secrets. Includes revoked and expired ones."""
    from gpuwatch.state.tokens import Tokens

    choose(form, True)
    at_us = now_us(context)
    with _state(data) as state:
        found = Tokens(state).list()
    items = [_record(token, at_us) for token in found]
    show(
        Listing(COLUMNS, items, foot=[] if items else ["No tokens: requests from this machine have admin rights."]),
        form,
    )


def _record(token: Token, at_us: int) -> dict[str, object]:
    """A token without its secret."""
    from gpuwatch.core.clock import rfc3339

    return {
        "id": token.id,
        "name": token.name,
        "scope": token.scope,
        "teams": None if token.teams is None else list(token.teams),
        "state": "valid" if token.valid_at(at_us) else "expired" if token.revoked_us is None else "revoked",
        "created_at": rfc3339(token.created_us),
        "created_by": token.created_by,
        "expires_at": None if token.expires_us is None else rfc3339(token.expires_us),
    }


def revoke(
    context: typer.Context,
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of the token from gpuwatch token list.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Revoke a token immediately."""
    from gpuwatch.state.tokens import Tokens

    with _state(data) as state:
        changed = Tokens(state).revoke(identity, actor(), now_us(context))
    print_stderr(f"token {identity} {'revoked' if changed else 'was already revoked'}")


@contextmanager
def _state(data: Path, create: bool = False) -> Iterator[State]:
    """Only the state database, which can be opened while a server runs on the directory, or before the first start."""
    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    if not data.exists() and not create:
        raise StoreError(
            f"no gpuwatch data in {data}: import something or start gpuwatch serve first, or pass --data DIR"
        )
    with state_only(data) as state:
        yield state


def _until(text: str | None, at_us: int) -> int | None:
    from gpuwatch.core.clock import DAY_US, HOUR_US

    if text is None:
        return None
    match = _SPAN.fullmatch(text)
    length = int(match[1]) * (HOUR_US if match[2] == "h" else DAY_US) if match else 0
    if not 0 < length <= MAX_DAYS * DAY_US:
        raise UsageError(f"--expires {text}: use a time such as 12h or 90d, at most {MAX_DAYS}d")
    return at_us + length


tokens = typer.Typer(help="Create, list and revoke API tokens.", rich_markup_mode=None, no_args_is_help=True)
tokens.command("create")(create)
tokens.command("list")(list_)
tokens.command("revoke")(revoke)
group("token", tokens, place=270)
