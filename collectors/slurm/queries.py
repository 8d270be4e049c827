"""The queries of a live Slurm source, run as commands or over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.core.errors import SourceUnreachable
from gpuwatch.core.model import Rejects


class SlurmClient(Protocol):
    """A way to query a Slurm cluster. Each method raises SourceUnreachable (or UnreadableInput) with what to do.

    `at_us` is when the round began. Invalid records are added to `rejects`, once even if they are returned repeatedly.
    """

    max_lost: int
    """The number of runs that `ended_of` accepts."""

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """Allocations, requests and workloads that slurmctld lists now."""

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """Nodes that slurmctld lists now."""

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """Partitions and reservations, with accounting also QOS, before with_totals() is applied."""

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """Allocations in the accounting database of runs that were active since `since_us`."""

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """Allocations of these runs in the accounting database, at any time."""


def require_readable(query: str, rows: Sequence[Row], rejected: Rejects) -> None:
    """Raises SourceUnreachable if all records were rejected: this does not mean that no job is running."""
    if rejected.total and not rows:
        reason = next(iter(rejected.counts))
        raise SourceUnreachable(
            f"{query}: none of {rejected.total} records can be parsed ({reason}); is this version of Slurm supported?"
        )


def numbers_of(runs: Sequence[RunKey]) -> tuple[int, list[str]]:
    """Earliest start (µs) and job numbers of runs, from keys of the form `7@<start in µs>`."""
    keys = [key.partition("@") for _, key in runs]
    known = [(number, int(start)) for number, _, start in keys if number.isdigit() and start.isdigit()]
    return min((start for _, start in known), default=0), sorted({number for number, _ in known})


def reindexed(rows: list[Row], minors: Mapping[str, Sequence[int]]) -> list[Row]:
    """Converts device indexes of allocations from device files (`File=/dev/nvidia[0-7]`) to NVML's order.

    `minors` has, by node, the minor number of each GPU in NVML's order. Other nodes, MIG slices, and indexes beyond
    the list are left unchanged.
    """
    return [(table, _reindexed(row, minors)) if table == "claim" else (table, row) for table, row in rows]


def _reindexed(row: dict[str, Any], minors: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    indexes, order = row.get("device_indexes"), list(minors.get(row["node"], ()))
    if not indexes or not order or row["profile"] is not None:
        return row
    files = [int(index) for index in indexes.split(",")]
    if not set(files) <= set(order):
        return row
    return row | {"device_indexes": ",".join(str(index) for index in sorted(order.index(file) for file in files))}
