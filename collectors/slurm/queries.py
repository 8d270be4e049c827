"""What a live Slurm source asks, however it is asked: by commands or over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.changes import RunKey
from gpuwatch.core.errors import SourceUnreachable
from gpuwatch.core.model import Rejects


class Asking(Protocol):
    """One way to ask a Slurm cluster. Each method raises SourceUnreachable (or UnreadableInput) with what to do.

    `at_us` is when the round began; what cannot be read goes to `rejects`, once, however often it is read.
    """

    max_lost: int
    """Runs that `ended_of` takes at once."""

    async def jobs(self, at_us: int, rejects: Rejects) -> list[Row]:
        """Claims, requests and workloads as slurmctld knows them now."""

    async def nodes(self, at_us: int, rejects: Rejects) -> list[Row]:
        """Nodes as slurmctld knows them now."""

    async def queues(self, at_us: int, accounting: bool, rejects: Rejects) -> list[Row]:
        """Partitions and reservations, with accounting also QOS; completed() has not been applied."""

    async def ended(self, since_us: int, at_us: int, rejects: Rejects) -> list[Row]:
        """Claims of the accounting database of runs that touch the time since `since_us`."""

    async def ended_of(self, runs: Sequence[RunKey], at_us: int, rejects: Rejects) -> list[Row]:
        """Claims of the accounting database of these runs, whenever they were."""


class Once:
    """Counts what is refused once, not again at each poll."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, int]] = {}

    def tell(self, question: str, refused: Rejects, rejects: Rejects) -> None:
        """Adds to `rejects` what `refused` has beyond the last answer to the same question."""
        told = self._told.get(question, {})
        for reason, count in refused.counts.items():
            if count > told.get(reason, 0):
                rejects.add(reason, *refused.first[reason], count=count - told.get(reason, 0))
        self._told[question] = refused.counts


def refuse_unread(question: str, rows: Sequence[Row], refused: Rejects) -> None:
    """Raises SourceUnreachable for an answer of which nothing could be read: it does not say that nothing runs."""
    if refused.total and not rows:
        reason = next(iter(refused.counts))
        raise SourceUnreachable(
            f"{question}: none of {refused.total} records can be read ({reason}); is this version of Slurm known here?"
        )


def numbers_of(runs: Sequence[RunKey]) -> tuple[int, list[str]]:
    """Earliest start (µs) and job numbers of runs whose keys tell them: `7@<start in µs>` does."""
    keys = [key.partition("@") for _, key in runs]
    known = [(number, int(start)) for number, _, start in keys if number.isdigit() and start.isdigit()]
    return min((start for _, start in known), default=0), sorted({number for number, _ in known})


def reindexed(rows: list[Row], minors: Mapping[str, Sequence[int]]) -> list[Row]:
    """Claims whose device indexes count device files (`File=/dev/nvidia[0-7]`), as NVML counts the devices.

    `minors` has, by node, the minor number of each GPU in NVML's order. Nodes that are not named, MIG slices, and
    indexes beyond the list stay as they are.
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
