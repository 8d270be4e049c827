"""The command `gpuwatch lake rebook`: past hours computed again from the samples that the lake keeps."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.fleet.lake_shared import check_lease, lake_settings, opened_lake
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    moment_us,
    now_us,
    opened,
    print_stderr,
    show,
)
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import progress

if TYPE_CHECKING:
    from gpuwatch.rebook.compute import Runner

SERVED = "stop it first: no other process may write to its directory"


def rebook(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    since: Annotated[str | None, typer.Option("--since", metavar="T", help="From this time (RFC 3339).")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="T", help="Up to this time (RFC 3339).")] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Compute on this Ray cluster, or 'local' to start one here."),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Recompute past hours from the lake's samples after settings or rules have changed, then publish them."""
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.core.clock import Window
    from gpuwatch.rebook.rebook import rebook as run
    from gpuwatch.state.server import Server

    since_us, until_us = moment_us(since, "--since"), moment_us(until, "--until")
    if since_us is not None and until_us is not None:
        Window(since_us, until_us)
    with opened(data, config, instead=SERVED) as (store, state, own), progress("rebook") as step:
        check_lease(settings, own)
        with opened_lake(settings, create=True) as lake:
            done = run(
                lake,
                store,
                state,
                own,
                _runner(ray),
                lambda: now_us(context),
                since_us=since_us,
                until_us=until_us,
                # Where processes share a state, the one that serves the whole fleet finds the corrections.
                corrects=Server.of(own) is None,
                progress=lambda what, done, total: step(done, total, what),
            )
    for text in done.failed_rules:
        print_stderr(f"gpuwatch: rule failed, the others ran: {text}")
    row = {"cell": settings.cell, **asdict(done)}
    show(Listing(tuple(row), [row]), form)


def _runner(address: str | None) -> AbstractContextManager[Runner]:
    """Where tasks run: in this process without an address."""
    if address is None:
        from gpuwatch.rebook.compute import InTurn

        return nullcontext(InTurn())
    from gpuwatch.rebook.ray_cluster import connected

    return connected(address)
