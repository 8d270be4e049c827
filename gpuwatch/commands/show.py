"""The demo command: simulate, import, analyse, and tell what the books say."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from gpuwatch.commands.answers import chargeback_listing
from gpuwatch.commands.data import tell
from gpuwatch.commands.shared import now_us, opened, progress, write
from gpuwatch.errors import StoreError, UsageError
from gpuwatch.output import terminal_width

DEMO_DATA = Path("gpuwatch-demo")


def demo(
    context: typer.Context,
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="Physical GPUs.")] = 64,
    days: Annotated[float, typer.Option("--days", metavar="D", help="Length of the history.")] = 7,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same fleet.")] = 1,
    port: Annotated[int, typer.Option("--port", metavar="P", help="Kept for the server; not used yet.")] = 8765,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Print the answers and end.")] = False,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where the demo keeps its data.")] = DEMO_DATA,
) -> None:
    """The embedded default, end to end: a simulated fleet through the real wire formats."""
    from gpuwatch import cost, demo, findings
    from gpuwatch.analyze import analyze
    from gpuwatch.clock import SECOND_US, rfc3339
    from gpuwatch.ingest import import_paths
    from gpuwatch.simulate import simulate

    if data.exists() and not data.is_dir():
        raise UsageError(f"--data {data}: is a file; name a directory")
    begun_us = now_us(context)
    # Another fleet goes beside the first, so that its files never mix with those already imported.
    bundle = data / "bundle"
    with opened(data, create=True) as (store, state, settings), progress("demo") as step:
        stamp = f"{gpus} GPUs, {days:g} days, seed {seed}"
        known = state.setting("demo")
        if known is None and store.sql("select count(*) from import_file")[0][0]:
            raise UsageError(f"--data {data}: holds data that no demo wrote; name another directory")
        if known not in (None, stamp):
            raise UsageError(f"--data {data}: holds the demo of {known}; name another directory, or remove this one")
        simulate(bundle, gpus=gpus, days=days, seed=seed, progress=lambda done, total: step(done, total, "simulate"))
        state.set_setting("demo", stamp, "demo", begun_us)
        tell(import_paths(store, state, "bundle", [bundle], cluster=None, now_us=now_us(context), progress=step))
        analyze(
            store, state, settings, now_us=now_us(context), progress=lambda what, done, total: step(done, total, what)
        )
        window = demo.whole_window(store)
        if window is None:
            raise StoreError(f"the books in {data} are empty after the analysis; run gpuwatch doctor --data {data}")
        bill = chargeback_listing(cost.chargeback(store, state, window), ["team"])
        found = findings.read(store)
        books = demo.read_books(store, window)
    seconds = (now_us(context) - begun_us) / SECOND_US
    width = terminal_width(sys.stdout)
    write(f"A simulated fleet: {stamp}.\n\n{demo.story(books, found, bill, width)}\nTook {seconds:.1f} s.\n")
    where = shlex.quote(str(data))
    span = f"{rfc3339(window.start_us)},{rfc3339(window.end_us)}"
    write(
        "Next, on the same data:\n"
        f"  gpuwatch findings --data {where} --open\n"
        f"  gpuwatch chargeback --data {where} --window {span} --by team,user\n"
        f"  gpuwatch ledger --data {where} --window {span} --by team,bucket\n"
        f"  gpuwatch doctor --data {where}\n"
    )
    if not no_serve:
        write("This version serves no pages: the commands above read the data.\n")
