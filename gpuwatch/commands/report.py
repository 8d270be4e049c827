"""The `gpuwatch report` commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
    PaperOption,
    actor,
    file_content,
    names,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.report.format_registry import chosen_formats, format_names
from gpuwatch.store import lockfile

report = typer.Typer(help="Write weekly reports and set recipients.", rich_markup_mode=None, no_args_is_help=True)
recipients = typer.Typer(
    help="Show and set who receives reports by e-mail.", rich_markup_mode=None, no_args_is_help=True
)
report.add_typer(recipients, name="recipients")
OUT = Path("gpuwatch-reports")
RECIPIENTS = "/api/v1/recipients"
FILE_MAX_BYTES = 4 << 20
TeamsOption = Annotated[list[str] | None, typer.Option("--team", metavar="T", help="Only this team (repeatable).")]
FormatsOption = Annotated[
    str | None, typer.Option("--formats", metavar="F,...", help=f"{', '.join(format_names())}; default: all.")
]


@report.command("weekly")
def weekly(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory; files go to DIR/WEEK/.")] = OUT,
    data: DataOption = DEFAULT_DATA,
    week: Annotated[
        str | None,
        typer.Option("--week", metavar="2026-W47", help="An ISO week; default: the last with 6 full days of data."),
    ] = None,
    team: TeamsOption = None,
    formats: FormatsOption = None,
    paper: PaperOption = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write the weekly report files of the fleet and each team."""
    _write(context, out, data, week, team, formats, paper, config, form)


@report.command("monthly")
def monthly(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory; files go to DIR/MONTH/.")] = OUT,
    data: DataOption = DEFAULT_DATA,
    month: Annotated[
        str | None,
        typer.Option(
            "--month",
            metavar="2026-11",
            help="A calendar month; default: the last with 24 full days of data, or the most.",
        ),
    ] = None,
    team: TeamsOption = None,
    formats: FormatsOption = None,
    paper: PaperOption = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write the same files for a calendar month."""
    _write(context, out, data, month, team, formats, paper, config, form, monthly=True)


def _write(
    context: typer.Context,
    out: Path,
    data: Path,
    period: str | None,
    team: list[str] | None,
    formats: str | None,
    paper: str | None,
    config: Path | None,
    form: str | None,
    monthly: bool = False,
) -> None:
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.report.files import unzipped, write
    from gpuwatch.report.html.index import write_index
    from gpuwatch.report.report_window import default_month, default_week
    from gpuwatch.report.weekly import weekly as make

    choose(form, True)
    wanted = [form.name for form in chosen_formats(names([formats]) if formats else None)]
    if paper not in (None, "a4", "letter"):
        raise UsageError(f"--paper {paper}: use a4 or letter")
    at_us, teams = now_us(context), list(dict.fromkeys(team)) if team else None
    if (note := lockfile.find(data)) is not None:
        question = {
            "week": period or ("month" if monthly else None),
            "format": "zip",
            "formats": ",".join(wanted),
            "paper": paper,
        }
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
                period or (default_month if monthly else default_week)(store, at_us),
                teams,
                at_us,
                formats=wanted,
                paper=paper or settings.report_paper,
                method=settings.mig_share_method,
            )
    written = write(files, out)
    index = [write_index(folder) for folder in dict.fromkeys(path.parent for path in written)]
    if choose(form, sys.stdout.isatty()) == "table":
        show(_by_report(written, index), "table")
        return
    rows = [{"file": str(path), "bytes": len(file.content)} for path, file in zip(written, files, strict=True)]
    show(Listing(("file", "bytes"), rows), form)


def _by_report(written: Sequence[Path], index: Sequence[Path]) -> Listing:
    """One row for the fleet and each team, for a terminal."""
    from gpuwatch.core.words import size
    from gpuwatch.report.html.index import FLEET, FOR_FLEET, FOR_TEAM, groups, title

    sizes = {path.name: path.stat().st_size for path in written}
    found = groups(sizes)
    rows = [
        {
            "report": title(stem),
            "written": f"{stem}.{{{','.join(suffixes)}}}" if len(suffixes) > 1 else f"{stem}.{suffixes[0]}",
            "size": size(sum(sizes[f"{stem}.{suffix}"] for suffix in suffixes)),
        }
        for stem, suffixes in found.items()
    ]
    foot = [f"Fleet: {FOR_FLEET}"] if FLEET in found else []
    foot += [f"Team: {FOR_TEAM}"] if any(stem != FLEET for stem in found) else []
    return Listing(
        ("report", "written", "size"), rows, foot=[*foot, *(f"Open {path}: it links to all of them." for path in index)]
    )


@recipients.command("show")
def show_(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """Show the recipients by team; team `*` is the fleet."""
    from gpuwatch.alerts.report_recipients import Recipients

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        items: list[dict[str, Any]] = remote.every(note, RECIPIENTS, {})["items"]
    else:
        with opened(data, config) as (_, state, _settings):
            items = Recipients.read(state).rows()
    rows = [{"team": item["team"], "to": " ".join(item["to"])} for item in sorted(items, key=lambda one: one["team"])]
    foot = (
        []
        if rows
        else [
            "No recipients. Set them with gpuwatch report recipients set FILE; see docs/act/reports.md for the format."
        ]
    )
    show(Listing(("team", "to"), rows, foot=foot), form)


@recipients.command("set")
def set_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: team,to")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replace the recipients with a file. Nothing changes if a row is invalid."""
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
        print_stderr(warning)
    summary = f"{done['rows']} {'team' if done['rows'] == 1 else 'teams'} with recipients, version {done['version']}"
    typer.echo(f"{summary}{'' if done['changed'] else ', unchanged'}")


group("report", report, place=210)
