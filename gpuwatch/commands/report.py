"""The `gpuwatch report` commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    now_us,
    opened,
    show,
)
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
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """What a week cost, where it went and who pays: a page and a table a fleet and a team."""
    from gpuwatch.cost import price_all
    from gpuwatch.report.files import last_week, write
    from gpuwatch.report.weekly import weekly as make

    choose(form, True)
    with opened(data, config) as (store, state, _):
        price_all(store, state)
        at_us, teams = now_us(context), list(dict.fromkeys(team)) if team else None
        files = make(store, state, week or last_week(at_us), teams, at_us)
        written = write(files, out)
    rows = [{"file": str(path), "bytes": len(file.content)} for path, file in zip(written, files, strict=True)]
    show(Listing(("file", "bytes"), rows), form)
