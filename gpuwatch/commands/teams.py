"""The `gpuwatch teams` commands: the rules that decide which team a job belongs to."""

from __future__ import annotations

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
from gpuwatch.output.listing import Listing, choose
from gpuwatch.policy.ownership import COLUMNS
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROUTE = "/api/v1/teams"
FILE_MAX_BYTES = 64 << 20
NO_RULES = "No rules: the account or the namespace names the team. The team of a label's value: gpuwatch teams add 'label:team,*,*'"

app = typer.Typer(
    help="Show and set the rules that decide which team a job belongs to.",
    rich_markup_mode=None,
    no_args_is_help=True,
)


@app.command("show")
def show_(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """List the rules in the order in which they decide."""
    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        rows = remote.every(note, ROUTE, {})["items"]
    else:
        with opened(data, config) as (_, state, _settings):
            rows = _rows(state)
    show(Listing(COLUMNS, rows, foot=[] if rows else [NO_RULES]), form)


@app.command("set")
def set_(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="teams.csv with the columns match_kind,match,team; replaces all rules."),
    ],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replace all rules with a file. Nothing changes if a row is invalid."""
    content = file_content(file, FILE_MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        _confirm(remote.send(note, "PUT", ROUTE, content, "text/csv", {}))
        return
    _put(context, data, config, content, file.name)


@app.command("add")
def add_(
    context: typer.Context,
    lines: Annotated[
        list[str],
        typer.Argument(
            metavar="LINE...",
            help="Lines of teams.csv, such as 'namespace,vision-*,vision', or 'label:team,*,*' for the label's value.",
        ),
    ],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Add rules after the present ones. Nothing changes if a line is invalid."""
    if (note := lockfile.find(data)) is not None:
        held = remote.every(note, ROUTE, {})
        content = _csv(held["items"], lines)
        _confirm(remote.send(note, "PUT", ROUTE, content, "text/csv", {}, if_match=str(held["version"])))
        return
    _put(context, data, config, None, "teams add", lines)


def _put(
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
        rules = whole(parse_teams, _csv(_rows(state), added) if content is None else content, source)
        changed = replace_team_rules(state, rules, actor(), source, now_us(context))
        _confirm({"changed": changed, "rows": len(rules), "warnings": team_warnings(store, rules)})


def _rows(state: Any) -> list[dict[str, str]]:
    from gpuwatch.policy.repository import load_team_rules

    return [{name: getattr(rule, name) for name in COLUMNS} for rule in load_team_rules(state)]


def _csv(rows: Iterable[Mapping[str, str]], lines: Iterable[str]) -> bytes:
    """The rules as a file, with lines below them."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([row[name] for name in COLUMNS] for row in rows)
    return (text.getvalue() + "".join(f"{line}\n" for line in lines)).encode()


def _confirm(done: Mapping[str, Any]) -> None:
    for warning in done.get("warnings") or ():
        print_stderr(f"teams: {warning}")
    print_stderr(f"teams: {done['rows']} rules, {'in force' if done['changed'] else 'nothing changed'}")


group("teams", app, place=252)
