"""The `gpuwatch budget` commands: what is spent of a budget, and setting budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch import in_use
from gpuwatch.commands import remote
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    actor,
    names,
    now_us,
    opened,
    show,
)
from gpuwatch.errors import UnreadableInput
from gpuwatch.output import Listing, choose

budget = typer.Typer(help="Budgets of teams.", rich_markup_mode=None, no_args_is_help=True)
COLUMNS = ("team", "period", "amount", "spent", "currency", "spent_ratio", "forecast", "runs_out", "gpu_hours")
MORE = ("gpu_hours_quota", "gpu_hours_ratio", "window", "burn_down", "missing")
FILE_MAX_BYTES = 16 << 20


@budget.command("show")
def show_(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    team: Annotated[list[str] | None, typer.Option("--team", metavar="T", help="Only these; * is the fleet.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Each budget in the period that runs now: spent, the forecast for its end, and when it runs out."""
    from gpuwatch.budgets import statuses
    from gpuwatch.cost import price_all

    choose(form, True)
    wanted = names(team or ()) or None
    if (note := in_use.find(data)) is not None:
        items: list[dict[str, Any]] = json.loads(remote.get(note, "/api/v1/budgets", {"team": wanted}))["items"]
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            items = [status.as_dict() for status in statuses(store, state, now_us(context), wanted)]
    foot = [] if items else ["No budgets: gpuwatch budget set FILE; docs/budgets.md shows the file."]
    show(Listing((*COLUMNS, *MORE), items, shown=COLUMNS, foot=foot), form)


@budget.command("set")
def set_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: team,period,amount,currency,...")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replaces the budgets: all of the file, or nothing where a row is wrong."""
    from gpuwatch.budgets import CARD, parse_budgets, replace
    from gpuwatch.rate_table import whole

    try:
        if file.stat().st_size > FILE_MAX_BYTES:
            raise UnreadableInput(f"{file}: larger than {FILE_MAX_BYTES} bytes; split it")
        content = file.read_bytes()
    except OSError as error:
        raise UnreadableInput(f"{file}: {error.strerror or error}") from error
    if (note := in_use.find(data)) is not None:
        done = remote.send(note, "PUT", "/api/v1/budgets", content, "text/csv", {})
    else:
        kept = whole(parse_budgets, content, str(file))
        with opened(data, config) as (_, state, _settings):
            changed = replace(state, kept, actor(), file.name, now_us(context))
            done = {"changed": changed, "version": state.card_version(CARD), "rows": len(kept)}
    typer.echo(f"{done['rows']} budgets, version {done['version']}{'' if done['changed'] else ', as before'}")
