"""The commands that bring data in: import, imports, analyze, simulate."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands import remote
from gpuwatch.commands.registry import command
from gpuwatch.commands.shared import (
    DEFAULT_DATA,
    MAX_NOTES,
    ConfigOption,
    DataOption,
    FormatOption,
    NewStateOption,
    NewStoreOption,
    actor,
    moment_us,
    now_us,
    opened,
    print_stderr,
    program,
    show,
)
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.output.listing import Listing, choose
from gpuwatch.output.progress import Step, progress
from gpuwatch.store import lockfile

if TYPE_CHECKING:
    from gpuwatch.imports.files import ImportReport
    from gpuwatch.settings import Settings
    from gpuwatch.state import State
    from gpuwatch.store.database import Store

BUNDLE = "bundle"
IMPORTS = "/api/v1/imports"
BILLS = "bill-"
STRICT_EXIT = 2
STOP_FIRST = "stop it, import, then start it again; only bills can be imported while a server is running"


def import_(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="bundle, openmetrics, sacct, k8s-json, ...")
    ] = None,
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH...", help="Files or directories.")] = None,
    data: DataOption = DEFAULT_DATA,
    cluster: Annotated[str | None, typer.Option("--cluster", metavar="NAME", help="Cluster name for the data.")] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone",
            metavar="TZ",
            help="Time zone of local times without an offset. Default: that of the cluster in [timezones] of --config, or UTC.",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 2 if any row was rejected.")] = False,
    forget: Annotated[
        int | None, typer.Option("--forget", metavar="ID", min=1, help="Undo an import; see gpuwatch imports.")
    ] = None,
    new_state: NewStateOption = False,
    new_store: NewStoreOption = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Import history from files. Importing a file twice changes nothing; with other options, it replaces the first time."""
    from gpuwatch.core.clock import rfc3339, zone
    from gpuwatch.core.registry import importers
    from gpuwatch.imports.cluster_zones import of_file
    from gpuwatch.imports.files import import_paths
    from gpuwatch.imports.unknown_kind import unknown_kind

    choose(form, True)
    if forget is not None:
        if kind is not None:
            raise UsageError("import: --forget takes an id and no KIND or PATH; gpuwatch imports lists the ids")
        return _forget(context, forget, data, config, new_state, form)
    if kind is None or not paths:
        raise UsageError("import: KIND and PATH are missing, e.g. gpuwatch import bundle DIR; or give --forget ID")
    if timezone is not None:
        zone(timezone)
    known = sorted({BUNDLE, *importers()})
    if kind not in known:
        raise unknown_kind(kind, known)
    for path in paths:
        if not path.exists():
            raise UnreadableInput(f"{path}: no such file or directory")
        if kind == BUNDLE and not path.is_dir():
            raise UnreadableInput(f"{path}: a bundle is a directory")
    note = lockfile.find(data) if kind.startswith(BILLS) else None
    with progress("import") as step:
        if note is not None:
            report = remote.send_bills(note, kind, paths, step)
        else:
            with opened(data, config, create=True, instead=STOP_FIRST, new_state=new_state, new_store=new_store) as (
                store,
                state,
                _,
            ):
                report = import_paths(
                    store,
                    state,
                    kind,
                    paths,
                    cluster=cluster,
                    now_us=now_us(context),
                    timezone=timezone,
                    zones=of_file(config),
                    progress=step,
                )
    print_report(report)
    row = {
        "files": report.files,
        "repeated": report.repeated,
        "samples": report.samples,
        "records": report.records,
        "from": None if report.from_us is None else rfc3339(report.from_us),
        "to": None if report.to_us is None else rfc3339(report.to_us),
        "assumed_zone": report.assumed_zone,
        "rejected": report.rejected,
        "unreadable": len(report.unreadable),
    }
    shown = tuple(name for name, value in row.items() if value is not None)
    foot = [f"Next: {program()} analyze --data {quote(str(data))}"]
    show(Listing(tuple(row), [row], shown=shown, foot=foot), form)
    if report.failed or (strict and report.rejected):
        raise typer.Exit(STRICT_EXIT)


def imports(data: DataOption = DEFAULT_DATA, config: ConfigOption = None, form: FormatOption = None) -> None:
    """List imports, the newest first. Undo one with gpuwatch import --forget ID."""
    from gpuwatch.imports.forget import COLUMNS
    from gpuwatch.imports.forget import imports as found

    choose(form, True)
    if (note := lockfile.find(data)) is not None:
        rows = remote.every(note, IMPORTS, {})["items"]
    else:
        with opened(data, config) as (store, _, _):
            rows = found(store)
    foot = [] if rows else ["No imports."]
    show(Listing(COLUMNS, rows, foot=foot), form)


def _forget(
    context: typer.Context, import_id: int, data: Path, config: Path | None, new_state: bool, form: str | None
) -> None:
    """Undoes an import and prints what that removed."""
    from gpuwatch.imports.forget import FORGOTTEN
    from gpuwatch.imports.forget import forget as take_back

    if (note := lockfile.find(data)) is not None:
        row = remote.delete(note, f"{IMPORTS}/{import_id}")
        foot = "The server computes the touched hours again."
    else:
        with opened(data, config, new_state=new_state) as (store, state, _):
            row = take_back(store, import_id, now_us(context))
            state.record(actor(), now_us(context), f"import {import_id} forgotten", None, row["path"])
        foot = f"Next: {program()} analyze --data {quote(str(data))}"
    show(Listing(FORGOTTEN, [row], foot=[foot]), form)


def print_report(report: ImportReport) -> None:
    """Prints missing data, unreadable files and one example per reason for rejected rows, on stderr."""
    lines = [*report.notes, *(f"unreadable: {text}" for text in report.unreadable)]
    totals: dict[str, int] = {}
    first: dict[str, tuple[str, int, str]] = {}
    for rejects in report.rejects:
        for reason, count in rejects.faults.items():
            totals[reason] = totals.get(reason, 0) + count
            first.setdefault(reason, rejects.first[reason])
    for reason, count in totals.items():
        file, line, example = first[reason]
        times = "once" if count == 1 else f"{count} times"
        lines.append(f"{file}:{line}: {reason} ({times}){f': {example}' if example else ''}")
    for text in lines[:MAX_NOTES]:
        print_stderr(f"gpuwatch: {text}")
    if len(lines) > MAX_NOTES:
        print_stderr(f"gpuwatch: and {len(lines) - MAX_NOTES} more; gpuwatch doctor lists rejects")


def analyze_new(context: typer.Context, store: Store, state: State, settings: Settings, step: Step) -> int:
    """Analyzes new data and prices all of it; names failed rules on stderr. Returns the time of the analysis."""
    from gpuwatch.analysis.pipeline import analyze
    from gpuwatch.billing.chargeback import price_all

    at_us = now_us(context)
    report = analyze(store, state, settings, now_us=at_us, progress=lambda what, done, total: step(done, total, what))
    for text in report.failed_rules:
        print_stderr(f"gpuwatch: rule failed, the others ran: {text}")
    price_all(store, state)
    return at_us


def analyze(
    context: typer.Context,
    data: DataOption = DEFAULT_DATA,
    since: Annotated[
        str | None, typer.Option("--since", metavar="T", help="Recompute from this time (RFC 3339).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="T", help="Recompute up to this time (RFC 3339).")
    ] = None,
    detector: Annotated[list[str] | None, typer.Option("--detector", metavar="ID", help="Only these rules.")] = None,
    retain: Annotated[bool, typer.Option("--retain", help="Afterwards delete data past its retention.")] = False,
    new_state: NewStateOption = False,
    new_store: NewStoreOption = False,
    config: ConfigOption = None,
    form: FormatOption = None,
) -> None:
    """Compute the ledger and findings. By default for all new or changed data; repeating it changes nothing."""
    from gpuwatch.analysis.pipeline import analyze as run_analysis
    from gpuwatch.core.clock import Window

    choose(form, True)
    since_us, until_us = moment_us(since, "--since"), moment_us(until, "--until")
    if since_us is not None and until_us is not None:
        Window(since_us, until_us)
    with (
        opened(data, config, new_state=new_state, new_store=new_store) as (store, state, settings),
        progress("analyze") as step,
    ):
        report = run_analysis(
            store,
            state,
            settings,
            now_us=now_us(context),
            since_us=since_us,
            until_us=until_us,
            detectors=detector or (),
            retention=retain,
            progress=lambda what, done, total: step(done, total, what),
        )
    for text in report.failed_rules:
        print_stderr(f"gpuwatch: rule failed, the others ran: {text}")
    row = {"clusters": report.clusters, "hours": report.hours, "findings": report.findings}
    row["failed_rules"] = report.failed_rules
    show(Listing(tuple(row), [row], foot=[f"Next: {program()} findings --data {quote(str(data))}"]), form)


def simulate(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the bundle.")],
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="Number of physical GPUs.")] = 64,
    days: Annotated[float, typer.Option("--days", metavar="D", help="Days of history.")] = 7,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same bytes.")] = 1,
    step_s: Annotated[int, typer.Option("--step", "--step-s", metavar="N", help="Seconds between samples.")] = 30,
    scenes: Annotated[
        str,
        typer.Option(
            "--scenes",
            metavar="WHICH",
            help="Which detectors' test cases to include, as far as --gpus allows: none, default, all, or detector ids with commas.",
        ),
    ] = "default",
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="FIELD",
            help="Leave out metrics whose name contains this (repeatable), e.g. SM_ACTIVE.",
        ),
    ] = None,
    drop: Annotated[float, typer.Option("--drop", metavar="RATIO", help="Share of samples to drop at random.")] = 0.0,
    form: FormatOption = None,
) -> None:
    """Write a bundle of a simulated fleet. The expected findings are in its truth.json."""
    from gpuwatch.simulate import simulate as write_bundle

    choose(form, True)
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: is a file; name a directory")
    try:
        with progress("simulate") as step:
            truth = write_bundle(
                out,
                gpus=gpus,
                days=days,
                seed=seed,
                step_s=step_s,
                progress=lambda done, total: step(done, total, ""),
                scenes=scenes,
                without=without or (),
                drop=drop,
            )
    except OSError as error:
        raise UnreadableInput(f"--out {out}: {error.strerror or error}; name another directory") from error
    row = {"out": str(out), "gpus": gpus, "days": days, "seed": seed, "samples": truth.samples}
    show(Listing(tuple(row), [row], foot=[f"Next: {program()} import bundle {quote(str(out))}"]), form)


command("import", import_, place=40)
command("imports", imports, place=45)
command("analyze", analyze, place=60)
command("simulate", simulate, place=140)
