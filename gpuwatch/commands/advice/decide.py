"""The `gpuwatch decide` commands: own or rent, spot, MIG slices, merged pools, and where to run a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands import hints, remote
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, FormatOption, names, opened, show
from gpuwatch.commands.windows import WindowOption, window_at, window_in
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.core.clock import Window

decide = typer.Typer(
    help="Estimate savings from measured use. Own or rent, spot capacity, MIG slices, merged pools, placement.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
TeamOption = Annotated[list[str] | None, typer.Option("--team", metavar="T", help="Only jobs of these teams.")]
HeadroomOption = Annotated[
    str | None, typer.Option("--headroom", metavar="SHARE", help="Headroom on top of measured use; default 0.10.")
]

OWN = ("cluster", "pool", "gpu_model", "gpus", "utilisation", "owned_price", "cloud_price", "break_even_utilisation")
OWN_SHOWN = (*OWN, "cheaper", "saved_by_owning_a_month", "payback_months", "currency", "missing")
SPOT = ("team", "job", "gpu_model", "longest_run_hours", "gpu_hours", "cost", "suitable", "saving", "currency", "why")
SIZE = (
    "team",
    "job",
    "gpu_model",
    "gpu_hours",
    "memory_mib",
    "sm_active_ratio",
    "mig_profile",
    "cost",
    "saving",
    "currency",
)
SPARE = (
    "payback_months",
    "cluster",
    "longest_run_hours",
    "memory_mib",
    "sm_active_ratio",
    "peak_gpus",
    "freed_gpus",
    "utilisation_before",
    "owned_price",
    "cloud_price",
)
"""Columns dropped from a narrow table."""
POOLS = ("gpu_model", "gpus", "peak_gpus", "needed_gpus", "freed_nodes", "freed_gpus", "utilisation_before")
POOLS_SHOWN = (*POOLS, "utilisation_after", "saving_a_month", "currency", "missing")


@decide.command("own-vs-cloud")
def own_vs_cloud(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    cloud_price: Annotated[
        str | None,
        typer.Option(
            "--cloud-price",
            metavar="PRICE",
            help="Cloud price per GPU-hour; default: the on-demand rate of the rate card.",
        ),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show break-even utilization and payback of owned GPUs. JSON adds the sensitivity."""
    from gpuwatch.advisor.fleet import own_vs_cloud as look

    given = {"cloud_price": cloud_price}
    _print_decision("own-vs-cloud", context, (data, config, form), window, given, {}, OWN_SHOWN, look)


@decide.command("spot")
def spot(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    team: TeamOption = None,
    discount: Annotated[
        str | None,
        typer.Option(
            "--spot-discount", metavar="SHARE", help="Spot discount, 0..1; default: from the rate card's spot rates."
        ),
    ] = None,
    interruptions: Annotated[
        str | None,
        typer.Option("--interruptions-an-hour", metavar="N", help="Spot interruptions per hour; default 0.05."),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List jobs that would be cheaper on spot capacity. Includes the cost of lost work."""
    from gpuwatch.advisor.jobs import spot_suitability

    given = {"spot_discount": discount, "interruptions_an_hour": interruptions}
    filters = {"team": names(team or ()) or None}

    def look(store: Any, state: Any, span: Window, assumed: Any) -> dict[str, Any]:
        return spot_suitability(store, state, span, filters["team"], assumed)

    _print_decision("spot", context, (data, config, form), window, given, filters, SPOT, look)


@decide.command("right-sizing")
def right_sizing(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    team: TeamOption = None,
    headroom: HeadroomOption = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List jobs that held a whole GPU but would fit in a MIG slice."""
    from gpuwatch.advisor.jobs import right_sizing as size

    filters = {"team": names(team or ()) or None}

    def look(store: Any, state: Any, span: Window, assumed: Any) -> dict[str, Any]:
        return size(store, state, span, filters["team"], assumed)

    _print_decision("right-sizing", context, (data, config, form), window, {"headroom": headroom}, filters, SIZE, look)


@decide.command("consolidate")
def consolidate(
    context: typer.Context,
    cluster: Annotated[str, typer.Option("--cluster", metavar="NAME", help="Cluster of the pools.")],
    pool: Annotated[list[str], typer.Option("--pool", metavar="P", help="Pool to merge (repeatable).")],
    data: DataOption = DEFAULT_DATA,
    window: WindowOption = "30d",
    headroom: HeadroomOption = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Show what several pools would need if merged. Lists utilization, freed nodes and savings."""
    from gpuwatch.advisor.merging import consolidation

    filters = {"cluster": cluster, "pool": names(pool)}

    def look(store: Any, state: Any, span: Window, assumed: Any) -> dict[str, Any]:
        return consolidation(store, state, span, cluster, names(pool), assumed)

    _print_decision(
        "consolidation", context, (data, config, form), window, {"headroom": headroom}, filters, POOLS_SHOWN, look
    )


def _print_decision(
    what: str,
    context: typer.Context,
    options: tuple[Path, Path | None, str | None],
    window: str,
    given: dict[str, str | None],
    filters: dict[str, Any],
    shown: Sequence[str],
    look: Callable[[Any, Any, Window, Any], dict[str, Any]],
) -> None:
    """Computes the result from the data directory, or requests it from the server that holds it, and prints it."""
    from gpuwatch.advisor.inputs import Assumptions
    from gpuwatch.billing.chargeback import price_all
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.policy.known_names import team_names

    data, config, form = options
    choose(form, True)
    assumed = Assumptions(**{name: _number(name, text) for name, text in given.items() if text})
    teams = filters.get("team")
    if (note := lockfile.find(data)) is not None:
        span = window_at(window, context, note)
        question = {"window": f"{rfc3339(span.start_us)},{rfc3339(span.end_us)}", **given, **filters}
        found = json.loads(remote.get(note, f"/api/v1/decisions/{what}", question))
        if teams and not found["items"]:
            hints.doubt_teams(teams, hints.served_teams(note))
    else:
        with opened(data, config) as (store, state, _):
            span = window_in(window, context, store)
            price_all(store, state)
            found = look(store, state, span, assumed)
            if teams and not found["items"]:
                hints.doubt_teams(teams, team_names(store, state))
    extra = {name: value for name, value in found.items() if name != "items"}
    columns = list(dict.fromkeys([*shown, *(name for item in found["items"] for name in item)]))
    spare = [name for name in SPARE if name in shown]
    show(Listing(columns, found["items"], extra, shown=shown, foot=_foot(found), spare=spare), form)


def _foot(found: dict[str, Any]) -> list[str]:
    """The assumptions, notes and counts below the table."""
    assumptions = ", ".join(f"{name} {value}" for name, value in found["assumptions"].items() if value is not None)
    counts = ("jobs", "jobs_unjudged", "jobs_without_price")
    return [
        f"Assumptions: {assumptions}",
        *found["notes"],
        *(f"{name}: {found[name]}" for name in counts if name in found),
        *(f"{item['gpu_model']}, {level['why']}" for item in found["items"] for level in item.get("levels") or ()),
    ]


def _number(name: str, text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal("nan")
    if not number.is_finite():
        raise UsageError(f"--{name.replace('_', '-')} {text!r}: not a decimal number such as 0.10")
    return number


group("decide", decide, place=240)
