"""The `gpuwatch report` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuwatch import in_use
from gpuwatch.commands import remote
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    names,
    now_us,
    opened,
    show,
)
from gpuwatch.errors import UsageError
from gpuwatch.output import Listing, choose

report = typer.Typer(help="Reports to forward.", rich_markup_mode=None, no_args_is_help=True)


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
        typer.Option("--formats", metavar="F,...", help="html, pdf, xlsx, csv, focus, parquet; default: all."),
    ] = None,
    paper: Annotated[
        str | None, typer.Option("--paper", metavar="a4|letter", help="Of the PDF; default: the setting report_paper.")
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """What a week cost, where it went and who pays: a set of files for the fleet and for each team."""
    from gpuwatch.cost import price_all
    from gpuwatch.report.files import last_week, write
    from gpuwatch.report.formats import FORMATS, check_formats
    from gpuwatch.report.weekly import weekly as make
    from gpuwatch.report.zipped import unzipped

    choose(form, True)
    asked = names([formats]) if formats else list(FORMATS)
    check_formats(asked)
    if paper not in (None, "a4", "letter"):
        raise UsageError(f"--paper {paper}: use a4 or letter")
    at_us, teams = now_us(context), list(dict.fromkeys(team)) if team else None
    if (note := in_use.find(data)) is not None:
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
