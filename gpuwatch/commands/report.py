"""The `gpuwatch report` commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

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
    names,
    now_us,
    opened,
    say,
    show,
)
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.report.format_registry import chosen_formats, format_names
from gpuwatch.store import lockfile

report = typer.Typer(help="Reports to forward.", rich_markup_mode=None, no_args_is_help=True)
recipients = typer.Typer(help="Who gets reports by e-mail.", rich_markup_mode=None, no_args_is_help=True)
report.add_typer(recipients, name="recipients")
RECIPIENTS = "/api/v1/recipients"
FILE_MAX_BYTES = 4 << 20


@report.command("weekly")
def weekly(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Files go to DIR/WEEK/.")],
    data: DataOption = DEFAULT_DATA,
    week: Annotated[
        str | None, typer.Option("--week", metavar="2026-W47", help="An ISO week; default: the one that ended last.")
    ] = None,
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="T", help="Only this team's files; may be repeated.")
    ] = None,
    formats: Annotated[
        str | None,
        typer.Option("--formats", metavar="F,...", help=f"{', '.join(format_names())}; default: all."),
    ] = None,
    paper: Annotated[
        str | None, typer.Option("--paper", metavar="a4|letter", help="Of the PDF; default: the setting report_paper.")
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """What a week cost, where it went and who pays: a set of files for the fleet and for each team."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.report.files import last_week, write
    from gpuwatch.report.weekly import weekly as make
    from gpuwatch.report.zip_file import unzipped

    choose(form, True)
    asked = [form.name for form in chosen_formats(names([formats]) if formats else None)]
    if paper not in (None, "a4", "letter"):
        raise UsageError(f"--paper {paper}: use a4 or letter")
    at_us, teams = now_us(context), list(dict.fromkeys(team)) if team else None
    if (note := lockfile.find(data)) is not None:
        question = {"week": week, "format": "zip", "formats": ",".join(asked), "paper": paper}
        each: list[str | None] = [None] if teams is None else [*teams]
        route = "/api/v1/reports/weekly"
        answers = [remote.get(note, route, {**question, "team": name}) for name in each]
        files = [file for answer in answers for file in unzipped(answer)]
    else:
        with opened(data, config) as (store, state, settings):
            price_all(store, state)
            files = make(
                store,
                state,
                week or last_week(at_us),
                teams,
                at_us,
                formats=asked,
                paper=paper or settings.report_paper,
                method=settings.mig_share_method,
            )
    written = write(files, out)
    rows = [{"file": str(path), "bytes": len(file.content)} for path, file in zip(written, files, strict=True)]
    show(Listing(("file", "bytes"), rows), form)


@recipients.command("show")
def show_(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """Addresses by team; team `*` is the fleet."""
    from gpuwatch.alerts.report_recipients import Recipients

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        items: list[dict[str, Any]] = remote.every(note, RECIPIENTS, {})["items"]
    else:
        with opened(data, config) as (_, state, _settings):
            items = Recipients.read(state).rows()
    rows = [{"team": item["team"], "to": " ".join(item["to"])} for item in sorted(items, key=lambda one: one["team"])]
    foot = [] if rows else ["Nobody: gpuwatch report recipients set FILE; docs/act/reports.md shows the file."]
    show(Listing(("team", "to"), rows, foot=foot), form)


@recipients.command("set")
def set_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: team,to")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replaces who gets reports: all of the file, or nothing where a row is wrong."""
    from gpuwatch.alerts.report_recipients import KIND, parse, replace
    from gpuwatch.policy.known_names import team_doubts, team_names

    items = parse(file_content(file, FILE_MAX_BYTES), str(file))
    if (note := lockfile.find(data)) is not None:
        body = json.dumps({"items": items}).encode()
        done = remote.send(note, "PUT", RECIPIENTS, body, "application/json", {})
    else:
        with opened(data, config) as (store, state, _settings):
            changed = replace(state, items, actor(), file.name, now_us(context))
            done = {"changed": changed, "version": state.card_version(KIND), "rows": len(items)}
            done["warnings"] = team_doubts((str(row["team"]) for row in items), team_names(store, state))
    for warning in done["warnings"]:
        say(warning)
    told = f"{done['rows']} {'team' if done['rows'] == 1 else 'teams'} with recipients, version {done['version']}"
    typer.echo(f"{told}{'' if done['changed'] else ', as before'}")


group("report", report, place=210)
