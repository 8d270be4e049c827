"""The command `gpuwatch lake clusters`: which cell has which cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuwatch.commands.shared import ConfigOption, FormatOption, settings_of, show
from gpuwatch.core.errors import UsageError
from gpuwatch.output.listing import Listing, choose

PLACES = ("cell", "cluster", "holder", "address")


def clusters(
    release: Annotated[
        str | None,
        typer.Option("--release", metavar="CLUSTER", help="Take it from its cell, which nobody must hold any more."),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """List which cell has which cluster, and the process that holds the cell and gets the data."""
    choose(form, True)
    from gpuwatch.state.cells import Cells
    from gpuwatch.state.server import Server

    server = Server.of(settings_of(config))
    if server is None:
        raise UsageError("cells share a state on PostgreSQL: name it with --state URL or [gpuwatch] state_url")
    cells = Cells(server)
    try:
        if release is not None and not cells.release(release):
            held = next((place for place in cells.places() if place.cluster == release), None)
            raise UsageError(
                f"--release {release}: no cell has this cluster"
                if held is None
                else f"--release {release}: {held.holder} at {held.address} holds cell {held.cell}, which has it; stop that one first"
            )
        places = cells.places()
    finally:
        cells.close()
    rows = [
        {**{name: getattr(place, name) for name in PLACES}, "held_s": max(0, place.left_us) // 1_000_000}
        for place in places
    ]
    show(Listing((*PLACES, "held_s"), rows), form)
