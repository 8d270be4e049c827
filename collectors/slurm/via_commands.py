"""Queries Slurm through its own commands: scontrol, sacct and sacctmgr.

squeue is not used: `scontrol show job` also lists pending jobs, from the same state of slurmctld, with more columns.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence

from gpuwatch.collectors.shared.changes import NewRejects
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.collectors.slurm.command import environment, output_of
from gpuwatch.collectors.slurm.partitions import QOS_COLUMNS, qos_rows
from gpuwatch.collectors.slurm.queries import numbers_of, require_readable
from gpuwatch.collectors.slurm.sacct import FIELDS, parse_sacct
from gpuwatch.collectors.slurm.scontrol import parse_scontrol
from gpuwatch.core.clock import from_us
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

MAX_LOST_JOBS = 1000
"""The number of jobs in one sacct query by number."""
DELIMITER = "^|^"
"""Separates sacct's columns; a plain bar may occur in a job's name."""

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


class CommandClient:
    """Runs the commands on this machine."""

    max_lost = MAX_LOST_JOBS

    def __init__(self, cluster: str, folder: str, conf_file: str, timeout_s: float, max_bytes: int) -> None:
        """`folder` contains the commands, "" to search the PATH; the limits apply to each command."""
        self._cluster, self._folder = cluster, folder
        self._env = environment(os.environ, conf_file)
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._new_rejects = NewRejects()

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        return await self._query(JOBS, parse_scontrol, at_us, rejects)

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        return await self._query(NODES, parse_scontrol, at_us, rejects)

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        rows = await self._query(PARTITIONS, parse_scontrol, at_us, rejects)
        rows += await self._query(RESERVATIONS, parse_scontrol, at_us, rejects)
        return rows + (await self._query(QOS, _parse_qos, at_us, rejects) if accounting else [])

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        return await self._query((*SACCT, "--starttime", _utc(since_us)), parse_sacct, at_us, rejects)

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """See SlurmClient."""
        options = job_options(runs)
        return await self._query((*SACCT, *options), parse_sacct, at_us, rejects) if options else []

    async def _query(self, command: tuple[str, ...], parse: Parse, at_us: int, rejects: Rejects) -> list[Row]:
        argv = [os.path.join(self._folder, command[0]), *command[1:]]
        output = await output_of(argv, self._env, self._timeout_s, self._max_bytes)
        name = " ".join((command[0], *command[2:])) if command[0] == "scontrol" else command[0]
        source, rejected = Source(name, self._cluster, "UTC", at_us), Rejects()
        # The output of a big cluster has tens of megabytes: a thread parses it, so that other sources go on.
        rows = await asyncio.to_thread(lambda: list(parse(_lines(output), source, rejected)))
        if command == JOBS:
            require_readable(name, rows, rejected)
        self._new_rejects.add(name, rejected, rejects)
        return rows


def job_options(runs: Sequence[RunKey]) -> list[str]:
    """sacct's options to select runs by job number, none if no key contains a number."""
    since_us, numbers = numbers_of(runs)
    return ["--starttime", _utc(since_us), "--jobs", ",".join(numbers)] if numbers else []


def _parse_qos(lines: Lines, source: Source, rejects: Rejects) -> list[Row]:
    try:
        return qos_rows(lines, source)
    except ValueError as error:
        raise UnreadableInput(f"{error}; run `{' '.join(QOS)}` by hand as this user") from error


def _utc(us: int) -> str:
    return from_us(us).strftime("%Y-%m-%dT%H:%M:%S")


def _lines(output: bytes) -> Lines:
    lines = output.decode(errors="replace").split("\n")
    return ((number, line.rstrip("\r")) for number, line in enumerate(lines, start=1))
