"""Slurm asked through its own commands: scontrol, sacct, sacctmgr.

squeue is not run: `scontrol show job` lists the waiting jobs too, from the same memory of slurmctld, with more columns.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.collectors.slurm.command import environment, output_of
from gpuwatch.collectors.slurm.partitions import QOS_COLUMNS, qos_rows
from gpuwatch.collectors.slurm.queries import Once, numbers_of, refuse_unread
from gpuwatch.collectors.slurm.sacct import FIELDS, parse_sacct
from gpuwatch.collectors.slurm.scontrol import parse_scontrol
from gpuwatch.core.clock import from_us
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

MAX_LOST_JOBS = 1000
"""Jobs that one sacct is asked for by number."""
DELIMITER = "^|^"
"""Between sacct's columns: a plain bar may stand in a job's name."""

JOBS = ("scontrol", "--all", "show", "job", "-d")
NODES = ("scontrol", "--all", "show", "node", "-d")
PARTITIONS = ("scontrol", "--all", "show", "partition")
RESERVATIONS = ("scontrol", "--all", "show", "reservation")
QOS = ("sacctmgr", "--parsable2", "--readonly", "show", "qos", f"format={QOS_COLUMNS}")
SACCT = (
    *("sacct", "--allusers", "--duplicates", "--allocations", "--parsable2"),
    *(f"--delimiter={DELIMITER}", f"--format={FIELDS}"),
)

Parse = Callable[[Lines, Source, Rejects], Iterable[Row]]


class ByCommand:
    """Runs the commands on this machine. See slurm_asking.Asking."""

    max_lost = MAX_LOST_JOBS

    def __init__(self, cluster: str, folder: str, conf_file: str, timeout_s: float, max_bytes: int) -> None:
        """`folder` is where the commands are, "" for the PATH; bounds are those of one command."""
        self._cluster, self._folder = cluster, folder
        self._env = environment(os.environ, conf_file)
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._once = Once()

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        return await self._ask(JOBS, parse_scontrol, at_us, rejects)

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        return await self._ask(NODES, parse_scontrol, at_us, rejects)

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """See Asking."""
        rows = await self._ask(PARTITIONS, parse_scontrol, at_us, rejects)
        rows += await self._ask(RESERVATIONS, parse_scontrol, at_us, rejects)
        return rows + (await self._ask(QOS, _parse_qos, at_us, rejects) if accounting else [])

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        return await self._ask((*SACCT, "--starttime", _utc(since_us)), parse_sacct, at_us, rejects)

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """See Asking."""
        named = by_number(runs)
        return await self._ask((*SACCT, *named), parse_sacct, at_us, rejects) if named else []

    async def _ask(self, command: tuple[str, ...], parse: Parse, at_us: int, rejects: Rejects) -> list[Row]:
        argv = [os.path.join(self._folder, command[0]), *command[1:]]
        printed = await output_of(argv, self._env, self._timeout_s, self._max_bytes)
        name = " ".join((command[0], *command[2:])) if command[0] == "scontrol" else command[0]
        source, refused = Source(name, self._cluster, "UTC", at_us), Rejects()
        # A big cluster prints tens of megabytes: they are read beside the loop, which other sources share.
        rows = await asyncio.to_thread(lambda: list(parse(_lines(printed), source, refused)))
        if command == JOBS:
            refuse_unread(name, rows, refused)
        self._once.tell(name, refused, rejects)
        return rows


def by_number(runs: Sequence[RunKey]) -> list[str]:
    """sacct's options for runs by job number, none when their keys tell no number."""
    since_us, numbers = numbers_of(runs)
    return ["--starttime", _utc(since_us), "--jobs", ",".join(numbers)] if numbers else []


def _parse_qos(lines: Lines, source: Source, rejects: Rejects) -> list[Row]:
    try:
        return qos_rows(lines, source)
    except ValueError as error:
        raise UnreadableInput(f"{error}; run `{' '.join(QOS)}` by hand as this user") from error


def _utc(us: int) -> str:
    return from_us(us).strftime("%Y-%m-%dT%H:%M:%S")


def _lines(printed: bytes) -> Lines:
    lines = printed.decode(errors="replace").split("\n")
    return ((number, line.rstrip("\r")) for number, line in enumerate(lines, start=1))
