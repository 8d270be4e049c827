"""The commands that look after a data directory: backup, samples, restore, repair, verify."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    ConfigOption,
    DataOption,
    FormatOption,
    now_us,
    opened,
    print_stderr,
    program,
    settings_of,
    show,
    write,
)
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import progress
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.analysis.repair import Repaired
    from gpuwatch.store.clock_damage import Damage

NO = 1
"""The exit code of a ledger that is not what its records give."""
COLUMNS = ("action", "what", "count", "from", "until", "note")
CHECKED = ("check", "result", "differing", "first")
"""What was compared, equal or not, how many rows differ, and the first of them."""
DAYS_MAX = 100_000
"""Requests for days of samples."""
FILES = ("cluster", "day", "samples", "bytes", "result", "file")
STOP_FIRST = "stop it first; repair needs the directory for itself"


def backup(
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new directory.")] = Path("gpuwatch-backup"),
) -> None:
    """Back up a data directory. Works while it is served; gpuwatch restore copies it back."""
    from gpuwatch.commands.remote import post
    from gpuwatch.service.backup import backup as copy

    note = lockfile.find(data)
    if note is not None:
        answer = post(note, "/api/v1/backup", {"directory": str(target.absolute())})
        total = int(answer["telemetry_bytes"]) + int(answer["state_bytes"])
    else:
        with opened(data, config) as (store, state, _):
            done = copy(store, state, target)
        total = done.telemetry_bytes + done.state_bytes
    write(f"{target}: {total} bytes; gpuwatch restore copies it back\n")


def samples(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go; days that are there are kept.")],
    data: DataOption = DEFAULT_DATA,
    doubles: Annotated[
        bool, typer.Option("--doubles", help="No decimals, for programs that want one type of number. Larger files.")
    ] = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Write the raw samples as Parquet files, one for each cluster and day. Works while the directory is served; days that
    are there already are skipped.
    """
    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        rows = _served_samples(note, target.absolute(), doubles)
    else:
        from gpuwatch.store.private_files import users_umask
        from gpuwatch.store.sample_files import export

        with opened(data, config) as (store, _, _), users_umask(), progress("samples") as step:
            found = export(store, target, doubles=doubles, progress=lambda done, total: step(done, total, "day"))
            rows = [file.facts() for file in found]
    foot = () if rows else ("No sealed samples: run gpuwatch analyze first, or give the right --data.",)
    show(Listing(FILES, rows, foot=foot, spare=("file",)), form)


def _served_samples(note: lockfile.Note, target: Path, doubles: bool) -> list[dict[str, Any]]:
    """The files that a server writes: a request for each that it has to write."""
    from gpuwatch.commands.remote import post

    rows: list[dict[str, Any]] = []
    for _ in range(DAYS_MAX):
        after = {"after": [rows[-1]["cluster"], rows[-1]["day"]]} if rows else {}
        answer = post(note, "/api/v1/samples", {"directory": str(target), "doubles": doubles} | after)
        rows += answer["files"]
        if not answer["more"]:
            break
    return rows


def restore(
    context: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="A directory that gpuwatch backup wrote.")],
    data: DataOption = DEFAULT_DATA,
    state_only: Annotated[
        bool, typer.Option("--state-only", help="Only tokens, prices, policies and settings; keep the telemetry.")
    ] = False,
    store_only: Annotated[
        bool, typer.Option("--store-only", help="Only the telemetry; keep tokens, prices, policies and settings.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Copy a backup into a data directory that no server uses. What it replaces is kept in DIR/replaced-TIME."""
    from gpuwatch.service.restore import Parts
    from gpuwatch.service.restore import restore as copy_back
    from gpuwatch.state.server import Server
    from gpuwatch.store.private_files import private_umask

    if state_only and store_only:
        raise UsageError("--state-only and --store-only: give one of them; without both, everything is restored")
    if (note := lockfile.find(data)) is not None:
        raise StoreError(f"{data} is in use by process {note.pid}, which serves {note.url}: stop it first")
    parts = Parts(not store_only, not state_only, Server.of(settings_of(config)))
    with private_umask():
        kept = copy_back(source, data, now_us(context), parts)
    write(f"{data}: restored from {source}{f'; the former files are in {kept}' if kept else ''}\n")


def repair(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be done; change nothing.")] = False,
    withdraw: Annotated[
        str | None,
        typer.Option(
            "--withdraw",
            metavar="START,END",
            help="Withdraw what was recorded for this time (RFC 3339) instead of for the future.",
        ),
    ] = None,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Undo what a wrong clock did to the data: records of the future, and days whose samples were deleted by mistake."""
    from gpuwatch.analysis.repair import Repaired, repair
    from gpuwatch.core.clock import parse_window
    from gpuwatch.store.clock_damage import Span, after, find

    choose(form, True)
    at_us = now_us(context)
    span = after(at_us)
    if withdraw is not None:
        window = parse_window(withdraw, at_us)
        span = Span(window.start_us, window.end_us)
    with opened(data, config, instead=STOP_FIRST) as (store, state, settings), progress("repair") as step:
        damage = find(store, settings, span)
        done = Repaired()
        if damage.found and not dry_run:
            done = repair(
                store, state, settings, damage, at_us, progress=lambda what, done, total: step(done, total, what)
            )
    rows = rows_of(damage, done)
    foot = ["Nothing to repair."]
    if rows and dry_run:
        again = "" if withdraw is None else f" --withdraw {quote(withdraw)}"
        foot = [f"Nothing was changed. To repair: {program()} repair --data {quote(str(data))}{again}"]
    elif rows:
        foot = [f"Repaired. Check it: {program()} doctor --data {quote(str(data))}"]
    show(Listing(COLUMNS, rows, extra={"dry_run": dry_run}, foot=foot), form)


def rows_of(damage: Damage, done: Repaired) -> list[dict[str, Any]]:
    """One row for each thing that is withdrawn, reinstated, or cannot be recovered."""
    from gpuwatch.core.clock import DAY_US, HOUR_US, day_floor, rfc3339

    def row(action: str, what: str, count: float, from_us: int | None, until_us: int | None, note: str = "") -> Any:
        times = (None if at_us is None else rfc3339(at_us) for at_us in (from_us, until_us))
        return dict(zip(COLUMNS, (action, what, count, *times, note), strict=True))

    rows = [
        row(
            "withdraw", f"{one['kind']} records", one["rows"], one["first_us"], one["last_us"], "dated by a wrong clock"
        )
        for one in damage.future
    ]
    if damage.hours:
        note = f"{damage.gpu_hours:.1f} GPU-hours of capacity"
        rows.append(row("withdraw", "ledger hours", damage.hours, damage.span.from_us, damage.until_us, note))
    lost = {day_floor(one["hour_us"]): 0 for one in damage.retired}
    for one in damage.lost:
        lost[day_floor(one["hour_us"])] += one["recorded"] - one["stored"]
    for day_us, samples in lost.items():
        note = "all raw samples are there"
        if samples:
            note = f"{samples} raw samples cannot be recovered: these hours keep their ledger as it was computed"
        rows.append(row("reinstate", "day", 1, day_us, day_us + DAY_US, note))
    note = "computed again without all of its samples: what is not measured is unobserved"
    rows += [row("recompute", f"hour of {cluster}", 1, at, at + HOUR_US, note) for cluster, at in done.recomputed]
    return rows


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
    show(Listing(CHECKED, rows), form)
    if any(row["differing"] for row in rows):
        print_stderr("The ledger is not what the records give: report it with the first row above.")
        raise typer.Exit(NO)


def _row(check: str, differing: int, first: str | None) -> dict[str, Any]:
    return {"check": check, "result": "differs" if differing else "equal", "differing": differing, "first": first}


def _text(row: dict[str, Any] | None) -> str:
    return (
        "nothing" if row is None else ", ".join(f"{name} {value}" for name, value in row.items() if value is not None)
    )


command("backup", backup, place=150)
command("samples", samples, place=152)
command("restore", restore, place=155)
command("repair", repair, place=158)
command("verify", verify, place=159)
