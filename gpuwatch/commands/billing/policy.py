"""The `gpuwatch policy` commands: show, set and compare chargeback policies; and `gpuwatch teams`: which team a job belongs to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    file_content,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.commands.windows import DEFAULT_WINDOW, WindowOption, window_of
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuwatch.core.clock import Window

policy = typer.Typer(help="Show, set and compare chargeback policies.", rich_markup_mode=None, no_args_is_help=True)
COLUMNS = ("name", "valid_from", "valid_to", "basis", "payers", "more")
CHANGES = ("team", "now", "then", "difference", "currency")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="TOML or JSON with policies; see docs/charge-back/policies.md.")
]


@policy.command("show")
def show_(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show the policies and when they apply. JSON has the full definitions and the history."""
    from gpuwatch.billing.policy_document import answer, summary
    from gpuwatch.policy.repository import stored_policies

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        response: dict[str, Any] = json.loads(remote.get(note, "/api/v1/policies", {}))
    else:
        with opened(data, config) as (_, state, _settings):
            response = answer(state, now_us(context))
    foot = [f"In effect now: {response['in_force']} (version {response['version']})."]
    if not response["items"]:
        foot = [
            "No policies: teams pay for what they hold, the platform for the rest. Set them with gpuwatch policy set FILE."
        ]
    shown = _is_table(form)
    rows = [summary(item) for item in stored_policies(response["items"])] if shown else response["items"]
    fields = tuple(response["items"][0]) if response["items"] else COLUMNS
    extra = {name: response[name] for name in ("version", "in_force", "history")}
    show(Listing(COLUMNS if shown else fields, rows, extra, foot=foot), form)


@policy.command("set")
def set_(
    context: typer.Context, file: FileArgument, data: DataOption = DEFAULT_DATA, config: ConfigOption = None
) -> None:
    """Replace all policies with a file. Nothing changes if it is invalid."""
    from gpuwatch.policy.parse import MAX_BYTES

    content = file_content(file, MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        done = remote.send(note, "PUT", "/api/v1/policies", content, _kind(content), {})
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.policy_document import replace

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            done = replace(store, state, content, file.name, actor(), now_us(context))
    typer.echo(f"{done['rows']} policies, version {done['version']}{'' if done['changed'] else ', unchanged'}")


@policy.command("what-if")
def what_if_(
    context: typer.Context,
    file: FileArgument,
    window: WindowOption = DEFAULT_WINDOW,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Compare charges with the policies in a file. Nothing is changed."""
    from gpuwatch.policy.parse import MAX_BYTES

    choose(form, True)
    content, span = file_content(file, MAX_BYTES), window_of(window, context)
    if (note := lockfile.find(data)) is not None:
        parameters = {"window": _exact(span)}
        response = remote.send(note, "POST", "/api/v1/policies/what-if", content, _kind(content), parameters)
    else:
        from gpuwatch.billing.chargeback import price_all
        from gpuwatch.billing.policy_document import difference_answer, proposed
        from gpuwatch.billing.what_if import closed_in, compare

        with opened(data, config) as (store, state, _):
            price_all(store, state)
            rules = proposed(store, state, content, str(file))
            response = difference_answer(compare(store, state, span, rules), span, closed_in(state, span))
    foot = [f"Window: {response['window']['start']} to {response['window']['end']}, UTC"]
    show(Listing(CHANGES, response["items"], {"window": response["window"]}, foot=foot), form)


def _kind(content: bytes) -> str:
    return "application/json" if content.lstrip().startswith(b"{") else "application/toml"


def _is_table(form: str | None) -> bool:
    import sys

    return choose(form, sys.stdout.isatty()) == "table"


def _exact(span: Window) -> str:
    from gpuwatch.core.clock import rfc3339

    return f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}"


group("policy", policy, place=230)


MATCH_KINDS = "match_kind: namespace, account, user, queue, or label:NAME."
TEAM_COLUMNS = ("match_kind", "match", "team")
TEAMS_ROUTE = "/api/v1/teams"
TEAMS_FILE_MAX_BYTES = 64 << 20
NO_RULES = "No rules: the account or the namespace names the team. The team of a label's value: gpuwatch teams add 'label:team,*,*'"

teams = typer.Typer(
    help="Show and set the rules that decide which team a job belongs to.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@teams.command("show")
def show_teams(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """List the rules in the order in which they decide."""
    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        rows = remote.every(note, TEAMS_ROUTE, {})["items"]
    else:
        with opened(data, config) as (_, state, _settings):
            rows = _team_rows(state)
    show(Listing(TEAM_COLUMNS, rows, foot=[] if rows else [NO_RULES]), form)


@teams.command("set")
def set_teams(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help=f"teams.csv with the columns match_kind,match,team; replaces all rules. {MATCH_KINDS}"
        ),
    ],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replace all rules with a file. Nothing changes if a row is invalid."""
    content = file_content(file, TEAMS_FILE_MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        _confirm_teams(remote.send(note, "PUT", TEAMS_ROUTE, content, "text/csv", {}))
        return
    _put_teams(context, data, config, content, file.name)


@teams.command("add")
def add_teams(
    context: typer.Context,
    lines: Annotated[
        list[str],
        typer.Argument(
            metavar="LINE...",
            help="Lines of teams.csv, such as 'namespace,vision-*,vision', or 'label:team,*,*' for the label's value. "
            + MATCH_KINDS,
        ),
    ],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Add rules after the present ones. Nothing changes if a line is invalid."""
    if (note := lockfile.find(data)) is not None:
        held = remote.every(note, TEAMS_ROUTE, {})
        content = _teams_file(held["items"], lines)
        _confirm_teams(remote.send(note, "PUT", TEAMS_ROUTE, content, "text/csv", {}, if_match=str(held["version"])))
        return
    _put_teams(context, data, config, None, "teams add", lines)


def _put_teams(
    context: typer.Context,
    data: Path,
    config: Path | None,
    content: bytes | None,
    source: str,
    added: Iterable[str] = (),
) -> None:
    """Replaces the rules by those of a file; without one, by the present ones and the added lines."""
    from gpuwatch.policy.ownership import parse_teams
    from gpuwatch.policy.repository import replace_team_rules
    from gpuwatch.quality.rate_checks import team_warnings
    from gpuwatch.rates.csv_table import whole

    with opened(data, config, create=True) as (store, state, _):
        rules = whole(parse_teams, _teams_file(_team_rows(state), added) if content is None else content, source)
        changed = replace_team_rules(state, rules, actor(), source, now_us(context))
        _confirm_teams({"changed": changed, "rows": len(rules), "warnings": team_warnings(store, rules)})


def _team_rows(state: Any) -> list[dict[str, str]]:
    from gpuwatch.policy.repository import load_team_rules

    return [{name: getattr(rule, name) for name in TEAM_COLUMNS} for rule in load_team_rules(state)]


def _teams_file(rows: Iterable[Mapping[str, str]], lines: Iterable[str]) -> bytes:
    """The rules as a file, with lines below them."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TEAM_COLUMNS)
    writer.writerows([row[name] for name in TEAM_COLUMNS] for row in rows)
    return (text.getvalue() + "".join(f"{line}\n" for line in lines)).encode()


def _confirm_teams(done: Mapping[str, Any]) -> None:
    for warning in done.get("warnings") or ():
        print_stderr(f"teams: {warning}")
    rules = "1 rule" if done["rows"] == 1 else f"{done['rows']} rules"
    print_stderr(f"teams: {rules}, {'in force' if done['changed'] else 'nothing changed'}")


group("teams", teams, place=252)
