"""The commands `gpuwatch lake ...`: publish the ledger to a lake, check it, copy it from there, keep it small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands.fleet.clusters import clusters
from gpuwatch.commands.fleet.lake_shared import check_lease, lake_settings, opened_lake
from gpuwatch.commands.fleet.rebook import rebook
from gpuwatch.commands.registry import group
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    now_us,
    opened,
    print_stderr,
    settings_of,
    show,
)
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import progress
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.lake.connection import Lake
    from gpuwatch.lake.settings import LakeSettings
    from gpuwatch.lake.verify import TableReport
    from gpuwatch.store.database import Store

DIFFERS = 1
REBUILT = (
    "Prices, teams and tokens are not in the lake: give this directory the state of the lost one before it is served."
)
PUBLISHES_ITSELF = (
    "it publishes after each pass by itself if [lake] is in its settings; gpuwatch lake status shows when"
)
CHECKED = ("table", "units", "rows", "result", "differing", "cluster", "day", "store_rows", "lake_rows", "first")
CELLS = (
    *("cell", "published", "newest_day", "tables", "units", "rows", "files", "delete_files", "bytes"),
    *("epoch", "publishes", "holder"),
)


def publish(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace the cell of a data directory that is lost or given up.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Read the whole cell in the lake and repair what is not as published.")
    ] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write what has changed in the ledger and its records since the last time, in one transaction."""
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.lake.publish import publish_once

    with opened(data, config, instead=PUBLISHES_ITSELF) as (store, _, own):
        check_lease(settings, own)
        done = publish_once(settings, store, lambda: now_us(context), take_over=take_over, whole=whole)
    row = {"cell": settings.cell, "lake": settings.shown(), **asdict(done)}
    show(Listing(tuple(row), [row], foot=[] if done.tables else ["Nothing has changed since the last publish."]), form)


def status(config: ConfigOption = None, form: FormatOption = None) -> None:
    """List the cells of the lake: when each was published, by whom, and how many files it has."""
    choose(form, True)
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.lake.status import cells

    with opened_lake(lake_settings(config, cell=False)) as lake:
        rows = [
            {**asdict(cell), "published": rfc3339(cell.published_us), "bytes": cell.files_bytes} for cell in cells(lake)
        ]
    show(Listing(CELLS, [{name: row[name] for name in CELLS} for row in rows]), form)


def verify(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Compare the lake with the data directory row by row. Exits with 1 if they differ, and names the first row.

    While a server has the directory, the lake is compared with what was noted when it was published.
    """
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.lake.verify import DAMAGED
    from gpuwatch.lake.verify import verify as compare

    rows: list[dict[str, Any]] = []
    with progress("verify") as step, opened_lake(settings) as lake:
        if (note := lockfile.find(data)) is not None:
            print_stderr(
                f"{data} is in use by process {note.pid}: the lake is compared with what was noted when it was published"
            )
            rows += [_row(report) for report in compare(lake, None, now_us(context))]
        else:
            with opened(data, config) as (store, _, _):
                reports = compare(lake, store, now_us(context), lambda done, total: step(done, total, "tables"))
                rows += [_row(report) for report in reports]
    show(Listing(CHECKED, rows, foot=_foot(rows, DAMAGED)), form)
    if any(row["differing"] for row in rows):
        raise typer.Exit(DIFFERS)


def pull(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    cell: Annotated[
        list[str] | None,
        typer.Option("--cell", metavar="NAME", help="Only this cell (repeatable); without it all cells."),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Copy what has changed in the lake into a directory that holds nothing else. Repeat it to bring the directory up to date."""
    choose(form, True)
    settings = lake_settings(config, cell=False)
    from gpuwatch.lake.pull import Puller

    puller = Puller(lambda: now_us(context), tuple(dict.fromkeys(cell or ())))
    with _copying(settings, data, config) as (lake, store), progress("pull") as step:
        done = puller.pull(lake, store, lambda rows, total: step(rows, total, "rows"))
    row = {"lake": settings.shown(), **asdict(done)}
    show(Listing(tuple(row), [row], foot=[] if done.tables else ["Nothing has changed since the last pull."]), form)


def rebuild(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Rebuild the data directory of a cell that lost its disk, from what it has published."""
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.core.clock import rfc3339
    from gpuwatch.lake.rebuild import rebuild as fill

    with _copying(settings, data, config) as (lake, store), progress("rebuild") as step:
        done = fill(lake, store, lambda: now_us(context), lambda rows, total: step(rows, total, "rows"))
    row = {
        "cell": settings.cell,
        "rows": done.rows,
        "published": rfc3339(done.published_us),
        "lost_hours": done.lost_hours,
    }
    show(Listing(tuple(row), [row], foot=[REBUILT]), form)


def export(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="An empty directory or a new one.", show_default=False)
    ],
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME", help="Only this table (repeatable).")
    ] = None,
    cell: Annotated[str | None, typer.Option("--cell", metavar="NAME", help="Another cell than [lake] cell.")] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write the tables of a cell as plain Parquet files, which need neither gpuwatch nor the catalogue."""
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.lake.export import export as write_tables

    with progress("export") as step, opened_lake(settings) as lake:
        chosen = lake if cell is None else lake.cell(cell)
        written = write_tables(chosen, to, tuple(table or ()), lambda done, total: step(done, total, "tables"))
        rows = [{"table": one.table, "files": one.files, "rows": one.rows, "bytes": one.size_bytes} for one in written]
    show(Listing(("table", "files", "rows", "bytes"), rows), form)


def maintain(
    keep_days: Annotated[
        int, typer.Option("--keep-days", metavar="D", min=0, max=3650, help="Days that old snapshots stay readable.")
    ] = 7,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Merge small files, forget old snapshots and delete files that nothing names. A server does it every hour."""
    choose(form, True)
    settings = lake_settings(config)
    from gpuwatch.lake.maintain import maintain as tidy

    with opened_lake(settings) as lake:
        row = asdict(tidy(lake, keep_days))
    show(Listing(tuple(row), [row]), form)


@contextmanager
def _copying(settings: LakeSettings, data: Path, config: Path | None) -> Iterator[tuple[Lake, Store]]:
    """The lake, and the store of a directory to fill, which need not exist yet. Its state is not opened."""
    from gpuwatch.store.database import Store
    from gpuwatch.store.private_files import private_umask

    own = settings_of(config)
    if data.exists() and not data.is_dir():
        raise UnreadableInput(f"--data {data}: is a file; name a directory")
    with (
        opened_lake(settings) as lake,
        private_umask(),
        Store.open(
            data, memory_limit=own.memory_limit, threads=own.threads, temp_directory=own.temp_directory
        ) as store,
    ):
        yield lake, store


def _row(report: TableReport) -> dict[str, Any]:
    """A table, with its first difference."""
    first = report.differences[0] if report.differences else None
    kinds = {difference.kind for difference in report.differences}
    return {
        "table": report.table,
        "units": report.units,
        "rows": report.rows,
        "result": " and ".join(sorted(kinds)) or "equal",
        "differing": len(report.differences),
        "cluster": None if first is None else first.key.cluster,
        "day": None if first is None or first.key.day is None else str(first.key.day),
        "store_rows": None if first is None else first.store_rows,
        "lake_rows": None if first is None else first.lake_rows,
        "first": None if first is None else first.row or None,
    }


def _foot(rows: list[dict[str, Any]], damaged: str) -> list[str]:
    results = " ".join(row["result"] for row in rows)
    if damaged in results:
        return ["damaged: the lake has other rows than were published. To repair it: gpuwatch lake publish --whole"]
    if any(row["differing"] for row in rows):
        return ["late: the data directory has changed since the last publish: gpuwatch lake publish"]
    return [f"{sum(row['rows'] for row in rows)} rows of {len(rows)} tables are equal."]


lakes = typer.Typer(
    help="Publish the ledger to a DuckLake, check it there, copy it from there.",
    rich_markup_mode=None,
    no_args_is_help=True,
)
lakes.command("publish")(publish)
lakes.command("status")(status)
lakes.command("clusters")(clusters)
lakes.command("verify")(verify)
lakes.command("export")(export)
lakes.command("maintain")(maintain)
lakes.command("pull")(pull)
lakes.command("rebuild")(rebuild)
lakes.command("rebook")(rebook)
group("lake", lakes, place=277)
