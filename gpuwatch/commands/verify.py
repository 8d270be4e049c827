"""The command verify: whether the stored ledger is what its records give."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import DEFAULT_DATA, ConfigOption, DataOption, FormatOption, opened, print_stderr, show
from gpuwatch.output.listing import Listing, choose

COLUMNS = ("check", "result", "differing", "first")
"""What was compared, equal or not, how many rows differ, and the first of them."""
NO = 1


def verify(
    data: DataOption = DEFAULT_DATA,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="Compute devices, runs and hours again from all records, in a copy, and compare."
        ),
    ] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Check that the ledger adds up and, with --rebuild, that it follows from the records. Exits with 1 if it does not."""
    from gpuwatch.analysis.rebuild import differences
    from gpuwatch.ledger.hours import unclosed

    choose(form, True)
    with opened(data, config) as (store, state, settings):
        rows: list[dict[str, Any]] = []
        spans = store.sql("select cluster, min(start_us), max(end_us) from capacity group by 1 order by 1")
        for cluster, start_us, end_us in spans:
            found = unclosed(store, cluster, start_us, end_us)
            rows.append(_row(f"hours of {cluster} add up", len(found), _text(found[0]) if found else None))
        if rebuild:
            differing = {one.table: one for one in differences(store, state, settings)}
            for table, one in differing.items():
                first = f"stored {_text(one.first_stored)}, rebuilt {_text(one.first_rebuilt)}"
                rows.append(_row(f"{table} is that of a rebuild", one.stored + one.rebuilt, first))
            if not differing:
                rows.append(_row("every table is that of a rebuild", 0, None))
    show(Listing(COLUMNS, rows), form)
    if any(row["differing"] for row in rows):
        print_stderr("The ledger is not what the records give: report it with the first row above.")
        raise typer.Exit(NO)


def _row(check: str, differing: int, first: str | None) -> dict[str, Any]:
    return {"check": check, "result": "differs" if differing else "equal", "differing": differing, "first": first}


def _text(row: dict[str, Any] | None) -> str:
    return (
        "nothing" if row is None else ", ".join(f"{name} {value}" for name, value in row.items() if value is not None)
    )


command("verify", verify, place=159)
