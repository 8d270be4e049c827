"""The `gpuwatch demo` command: simulates a fleet, imports and analyzes it, prints a summary and serves it live."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

import typer

from gpuwatch.commands.registry import command
from gpuwatch.commands.serve import HOST, PORT, HostOption, PortOption, bind, run
from gpuwatch.commands.shared import now_us, opened, program, settings_of, write
from gpuwatch.commands.store.data import print_report
from gpuwatch.core.errors import StoreError, UsageError
from gpuwatch.output.progress import progress
from gpuwatch.output.terminal import terminal_width

if TYPE_CHECKING:
    from gpuwatch.simulate.live import LiveFleet
    from gpuwatch.store.database import Store

DEMO_DATA = Path("gpuwatch-demo")
STEP_S = 30
STAMP, BEGUN, UNTIL = "demo", "demo_begun_us", "demo_until_step"
ACTOR = "demo"
"""The actor in a demo's audit log; identifies an interrupted demo as such."""


def demo(
    context: typer.Context,
    size: Annotated[
        str, typer.Option("--size", metavar="full|small", help="full: 168 GPUs, 28 days; small: 40 GPUs, 9 days.")
    ] = "full",
    gpus: Annotated[int | None, typer.Option("--gpus", metavar="N", help="Number of physical GPUs.")] = None,
    days: Annotated[float | None, typer.Option("--days", metavar="D", help="Days of history.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same fleet.")] = 1,
    host: HostOption = HOST,
    port: PortOption = PORT,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Print the summary and exit.")] = False,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Data directory of the demo.")] = DEMO_DATA,
) -> None:
    """Try gpuwatch on a live simulated fleet. Imports and analyzes it, prints a summary and serves the pages."""
    from gpuwatch.core.clock import SECOND_US
    from gpuwatch.simulate.demo.plan import SIZES, sampling_text

    if size not in SIZES:
        raise UsageError(f"--size {size}: use {' or '.join(SIZES)}")
    gpus, days = gpus or SIZES[size].gpus, days or SIZES[size].days
    if data.exists() and not data.is_dir():
        raise UsageError(f"--data {data}: is a file; name a directory")
    bound = None if no_serve else bind(host, port)
    begun_us = now_us(context)
    stamp = f"{gpus} GPUs, {days:g} days, seed {seed}"
    fleet = _fleet(context, data, stamp, gpus, days, seed)
    summary = _prepare(context, data, stamp, fleet)
    seconds = (now_us(context) - begun_us) / SECOND_US
    sampling = sampling_text(fleet.epoch.start_us, fleet.past * fleet.step_s)
    write(f"A simulated fleet: {stamp}.\n{sampling}\n\n{summary}\nTook {seconds:.1f} s.\n")
    if bound is not None:
        _serve(context, data, fleet, host, port, bound)


def _fleet(context: typer.Context, data: Path, stamp: str, gpus: int, days: float, seed: int) -> LiveFleet:
    """The directory's fleet if it is still running, or else a new one whose history ends now."""
    from gpuwatch.simulate.live import LiveFleet
    from gpuwatch.simulate.live_demo import start_of
    from gpuwatch.state import FILE as STATE_FILE
    from gpuwatch.store import lockfile
    from gpuwatch.store.database import FILE_NAME

    begun = None
    if (data / FILE_NAME).exists() or (data / STATE_FILE).exists():
        with opened(data, create=True, embedded=True) as (store, state, _):
            known, begun = state.setting(STAMP), state.setting(BEGUN)
            if known is None and (_holds(store) or any(entry.actor != ACTOR for entry in state.audit())):
                raise UsageError(f"--data {data}: holds data that is not from a demo; use another directory")
            if known not in (None, stamp):
                raise UsageError(f"--data {data}: holds the demo of {known}; use another directory, or remove this one")
    if begun is not None:
        fleet = LiveFleet(gpus, days, seed, STEP_S, int(begun), shows=True)
        if fleet.step_at(now_us(context)) < fleet.past + fleet.ahead:
            return fleet
        # Its simulated time is over, so a new history replaces it. The directory holds only demo data.
        write(f"The demo in {data} has ended; creating a new one.\n")
    for name in (FILE_NAME, f"{FILE_NAME}.wal", *(STATE_FILE + tail for tail in ("", "-wal", "-shm")), lockfile.FILE):
        (data / name).unlink(missing_ok=True)
    for name in ("bundle", "late", "live", "tmp"):
        shutil.rmtree(data / name, ignore_errors=True)
    return LiveFleet(gpus, days, seed, STEP_S, start_of(now_us(context), days, STEP_S), shows=True)


def _holds(store: Store) -> bool:
    """Whether anything was ever imported, scraped or sent."""
    return bool(
        store.sql(
            "select exists(from import_file) or exists(from context) or exists(from claim) or exists(from node)"
            " or exists(from pending) or exists(from event)"
        )[0][0]
    )


def _prepare(context: typer.Context, data: Path, stamp: str, fleet: LiveFleet) -> str:
    """Simulates and imports data up to now, analyzes it, and returns a summary."""
    from gpuwatch.analysis.pipeline import analyze
    from gpuwatch.audit import summary as audit_summary
    from gpuwatch.billing import chargeback
    from gpuwatch.billing.listings import chargeback_listing
    from gpuwatch.billing.people_table import for_people
    from gpuwatch.billing.periods.close import find_corrections
    from gpuwatch.findings import read as findings_read
    from gpuwatch.imports.files import import_paths
    from gpuwatch.ledger.totals import ledger_window
    from gpuwatch.simulate.demo.records import decide

    with opened(data, create=True, embedded=True) as (store, state, settings), progress("demo") as step:
        if state.setting(STAMP) is None:
            fleet.write_history(data / "bundle", lambda done, total: step(done, total, "simulate"))
            state.note(BEGUN, str(fleet.epoch.start_us))
            state.note(UNTIL, str(fleet.past))
            state.note(STAMP, stamp)
        # Importing twice changes nothing, so an interrupted import continues here.
        print_report(
            import_paths(store, state, "bundle", [data / "bundle"], cluster=None, now_us=now_us(context), progress=step)
        )
        until, last = int(state.setting(UNTIL) or 0), fleet.step_at(now_us(context))
        if last > until:
            since = data / "live" / f"{until:06d}"
            fleet.write_since(since, until, last)
            report = import_paths(store, state, "bundle", [since], cluster=None, now_us=now_us(context))
            report.notes.clear()  # the first bundle already reported these
            print_report(report)
            state.note(UNTIL, str(last))

        def compute() -> None:
            at_us = now_us(context)
            analyze(store, state, settings, now_us=at_us, progress=lambda what, done, total: step(done, total, what))

        compute()
        decide(store, state, fleet.weeks, now_us(context))
        if fleet.weeks and fleet.write_late(data / "late"):
            report = import_paths(store, state, "bundle", [data / "late"], cluster=None, now_us=now_us(context))
            if report.samples or report.records:
                compute()
                chargeback.price_all(store, state)
                find_corrections(store, state, now_us(context))
        window = ledger_window(store)
        if window is None:
            raise StoreError(f"the ledger in {data} is empty after the analysis; run gpuwatch doctor --data {data}")
        chargeback.price_all(store, state)
        bill = for_people(chargeback_listing(chargeback.chargeback(store, state, window)), ["team"])
        found = findings_read.read(store)
        ledger = chargeback.ledger(store, state, window)
    width = terminal_width(sys.stdout)
    where, name = shlex.quote(str(data)), program()
    return (
        f"{audit_summary.story(ledger, found, bill, width)}\n"
        "Try these commands on the same data:\n"
        f"  {name} findings --data {where} --open\n"
        f"  {name} chargeback --data {where} --window 7d --by team,user\n"
        f"  {name} ledger --data {where} --window 7d --by team,bucket\n"
        f"  {name} doctor --data {where}\n"
    )


def _serve(context: typer.Context, data: Path, fleet: LiveFleet, host: str, port: int, bound: socket | None) -> None:
    from gpuwatch.service.service import Service
    from gpuwatch.service.uptime import machine_uptime
    from gpuwatch.settings import in_directory
    from gpuwatch.simulate.bundle import CLUSTER
    from gpuwatch.simulate.live import Exporters
    from gpuwatch.simulate.live_demo import Schedulers

    exporters = Exporters(fleet, context.find_root().obj)
    exporters.start()
    scrape = {"cluster": CLUSTER, "targets": exporters.targets, "interval_s": STEP_S}
    settings = replace(in_directory(settings_of(None)), analyze_interval_s=float(STEP_S))
    service = Service.open(data, settings, {"dcgm": [scrape]}, now_us=context.find_root().obj, uptime=machine_uptime())
    schedulers = Schedulers(fleet, service, data / "live")

    def ready(url: str) -> None:
        schedulers.start()
        write(f"\nThe fleet keeps running. Open {url}  (Ctrl-C to stop)\n")

    try:
        run(service, host, port, ready, bound)
    finally:
        schedulers.stop()
        exporters.stop()


command("demo", demo, place=10, embedded=True)
