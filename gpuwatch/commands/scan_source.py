"""The source of a scan: a directory or a server, and how its result is described and continued."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from gpuwatch.commands import hints
from gpuwatch.commands.shared import program
from gpuwatch.core import words
from gpuwatch.core.errors import UsageError
from gpuwatch.output.progress import PartOf
from gpuwatch.output.time_left import Phases

if TYPE_CHECKING:
    from gpuwatch.scan.facts import Source
    from gpuwatch.store.database import Store


READ, SORTED, OWNED, HOURS, JUDGED = "read", "sorted", "owned", "hours", "judged"
SHARES = {READ: 0.5, SORTED: 0.05, OWNED: 0.05, HOURS: 0.28, JUDGED: 0.12}
"""What the phases of a scan take of its time: measured with 200 GPUs and 14 days."""


def scan_part() -> PartOf:
    """The part of a scan that is done, from what its steps are called."""
    phases, analyzing = Phases(SHARES), False

    def part(done: int, total: int, what: str) -> float:
        nonlocal analyzing
        phase = JUDGED if analyzing else READ
        if what == "sealing":
            phase = SORTED
        elif what.endswith(": who held what"):
            phase, analyzing = OWNED, True
        elif what.endswith(": hours") and analyzing:
            phase = HOURS
        return phases.part(phase, done, total)

    return part


def one_of(source: str | None, url: str | None, bundle: Path | None) -> tuple[str | None, Path | None]:
    """The server or the directory to scan; exactly one. Raises UsageError."""
    if sum(one is not None for one in (source, url, bundle)) != 1:
        raise UsageError(
            "scan: give one source: gpuwatch scan DIR, gpuwatch scan http://SERVER, --bundle DIR or --prometheus URL"
        )
    if source is None:
        return url, bundle
    return (source, None) if "://" in source else (None, Path(source))


def described(
    store: Store,
    bundle: Path | None,
    url: str | None,
    cluster: str,
    step_s: int,
    listed: bool,
    data: Path,
    window: Mapping[str, str] | None,
) -> Source:
    """What was scanned, how it is priced, and the commands that go on with the result."""
    from gpuwatch.rates.list_prices import SOURCE
    from gpuwatch.scan.facts import Source, prices_used

    where, name = quote(str(data)), program()
    live = f"{name} serve --data {where}"
    span = "" if window is None else f" --window {window['start']},{window['end']}"
    commands = [
        ("Open the dashboard on this data", live),
        ("Charges by team", f"{name} chargeback --data {where}{span} --by team,user"),
        ("What lacks, and how to add it", f"{name} doctor --data {where}"),
    ]
    if url is not None:
        table = f'printf \'[[prometheus]]\\nurl = "%s"\\ncluster = "%s"\\n\' {quote(url)} {quote(cluster)}'
        commands.insert(
            1,
            (
                "Read on every minute",
                f"{table} > gpuwatch.toml && {live} --config gpuwatch.toml",
            ),
        )
    shown = f"the bundle {bundle.resolve().name}" if bundle is not None else "a Prometheus server"
    shown += f" (one sample every {step_s} s of each metric)" if step_s else ""
    shown += counted(store)
    last_us = store.sql("select max(end_us) from segment")[0][0]
    shown += f"; its last record is of {hints.minute(last_us)} UTC" if last_us is not None else ""
    return Source(
        shown, SOURCE if listed else "", prices_used(store) if listed else (), tuple(commands), f" --data {where}"
    )


def counted(store: Store) -> str:
    """`: 64 GPUs and 57 MIG slices on 17 nodes`; slices that only a scheduler knows are on GPUs that nobody names."""
    gpus, slices, nodes = store.sql(
        "select count(distinct (cluster, gpu)) filter (where gi >= 0 or profile is null),"
        " count(distinct (cluster, gpu)) filter (where gi < 0 and profile is not null), count(distinct (cluster, node)) from device"
    )[0]
    there = words.gpus_and_slices(gpus, slices)
    return f": {there} on {words.counted(nodes, 'node')}" if there else ""
