"""Plans and bills compared with the ledger: `gpuwatch budget` and `gpuwatch reconcile`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuwatch.commands import hints, remote
from gpuwatch.commands.registry import command, group
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
    print_stderr,
    show,
)
from gpuwatch.commands.windows import DEFAULT_WINDOW, WindowOption, window_of
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

budget = typer.Typer(help="Show and set team budgets.", rich_markup_mode=None, no_args_is_help=True)
COLUMNS = ("team", "period", "amount", "spent", "currency", "spent_ratio", "forecast", "runs_out", "gpu_hours")
SHOWN = (*COLUMNS, "missing")
MORE = ("gpu_hours_quota", "gpu_hours_ratio", "window", "burn_down", "missing")
SPARE = ("gpu_hours", "spent_ratio")
FILE_MAX_BYTES = 16 << 20


@budget.command("show")
def show_(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    team: Annotated[
        list[str] | None, typer.Option("--team", metavar="T", help="Only this team (repeatable); * is the fleet.")
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show each budget in its current period. Lists spending, forecast and when it runs out."""
    from gpuwatch.billing.budgets import statuses
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.policy.known_names import team_names

    choose(form, True)
    wanted = names(team or ()) or None
    if (note := lockfile.find(data)) is not None:
        items: list[dict[str, Any]] = json.loads(remote.get(note, "/api/v1/budgets", {"team": wanted}))["items"]
        if wanted and not items:
            hints.doubt_teams(wanted, hints.served_teams(note))
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            items = [status.as_dict() for status in statuses(store, state, now_us(context), wanted)]
            if wanted and not items:
                hints.doubt_teams(wanted, team_names(store, state))
    none = (
        "No budgets for these teams."
        if wanted
        else "No budgets. Set them with gpuwatch budget set FILE; see docs/charge-back/budgets.md for the format."
    )
    foot = [] if items else [none]
    if choose(form, sys.stdout.isatty()) == "table":
        items = [item | {"forecast": (item["forecast"] or {}).get("amount")} for item in items]
    show(Listing((*COLUMNS, *MORE), items, shown=SHOWN, foot=foot, spare=SPARE), form)


@budget.command("set")
def set_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV: team,period,amount,currency,...")],
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Replace all budgets with a file. Nothing changes if a row is invalid."""
    from gpuwatch.billing.budgets import CARD, parse_budgets, replace
    from gpuwatch.policy.known_names import team_doubts, team_names
    from gpuwatch.rates.csv_table import whole

    content = file_content(file, FILE_MAX_BYTES)
    if (note := lockfile.find(data)) is not None:
        done = remote.send(note, "PUT", "/api/v1/budgets", content, "text/csv", {})
        warnings = done["warnings"]
    else:
        kept = whole(parse_budgets, content, str(file))
        with opened(data, config) as (store, state, _settings):
            changed = replace(state, kept, actor(), file.name, now_us(context))
            done = {"changed": changed, "version": state.card_version(CARD), "rows": len(kept)}
            warnings = team_doubts((one.team for one in kept), team_names(store, state))
    for warning in warnings:
        print_stderr(warning)
    typer.echo(f"{done['rows']} budgets, version {done['version']}{'' if done['changed'] else ', unchanged'}")


def reconcile(
    context: typer.Context,
    window: WindowOption = DEFAULT_WINDOW,
    data: DataOption = DEFAULT_DATA,
    provider: Annotated[str | None, typer.Option("--provider", metavar="P", help="aws, azure, gcp, oci, ...")] = None,
    by: Annotated[str, typer.Option("--by", metavar="day|node|account", help="Rows by day, node or account.")] = "day",
    cost: Annotated[
        str, typer.Option("--cost", metavar="effective|billed", help="Which cost of the bill to compare.")
    ] = "effective",
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Compare cloud bills with gpuwatch's charges. Explains each difference."""
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.billing.reconcile.compare import reconcile as compared
    from gpuwatch.billing.reconcile.listing import reconcile_answer, reconcile_listing
    from gpuwatch.core.clock import rfc3339

    chosen = choose(form, sys.stdout.isatty())
    span = window_of(window, context)
    if (note := lockfile.find(data)) is not None:
        parameters = {
            "window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}",
            "provider": provider,
            "by": by,
            "cost": cost,
        }
        answer = remote.every(note, "/api/v1/reconcile", parameters)
    else:
        with opened(data, config) as (store, state, _):
            price_all(store, state)
            found = compared(store, state, span, now_us=now_us(context), by=by, provider=provider, cost=cost)
        answer = reconcile_answer(found)
    show(reconcile_listing(answer, cents=chosen == "table"), chosen)


command("reconcile", reconcile, place=110)
group("budget", budget, place=220)
