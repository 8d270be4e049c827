"""The `gpuwatch reconcile` command: compares cloud bills with the ledger."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    DEFAULT_WINDOW,
    ConfigOption,
    DataOption,
    FormatOption,
    WindowOption,
    now_us,
    opened,
    show,
    window_of,
)
from gpuwatch.output.listing import choose
from gpuwatch.store import lockfile


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
