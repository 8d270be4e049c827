"""Requests that wait in a text of Slurm: they did when it was written, so they are dated to its newest time. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.collectors.shared.records import Columns, Row

HELD_MAX = 200_000
"""Requests that are held back until a text ends; those beyond keep their own time."""


class Waiting:
    """Holds back the requests of a text until its newest time is known.

    A request whose job has a later record in the same text waited only until some time before that record: it keeps its own time.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], list[Columns]] = {}
        self._number = 0
        self._newest: dict[str, int] = {}

    def take(self, row: Columns) -> Iterator[Row]:
        """Takes a `pending` row, and yields it if there are too many."""
        self.seen(row)
        if self._number >= HELD_MAX:
            yield "pending", row
            return
        self._number += 1
        self._held.setdefault((row["cluster"], row["job_id"]), []).append(row)

    def seen(self, row: Columns) -> None:
        """Takes the time of any row: the text was not written earlier."""
        cluster = row["cluster"]
        self._newest[cluster] = max(self._newest.get(cluster, 0), row.get("evidence_us") or 0)

    def superseded(self, cluster: str, job_id: str | None) -> Iterator[Row]:
        """Yields the requests of a job of which a later record says something else."""
        rows = self._held.pop((cluster, job_id or ""), [])
        self._number -= len(rows)
        yield from (("pending", row) for row in rows)

    def finish(self, observed_us: int | None = None) -> Iterator[Row]:
        """Yields the others, at the end of the text. `observed_us`: when it was written, where it says so."""
        for (cluster, _), rows in self._held.items():
            at_us = max(self._newest[cluster], observed_us or 0)
            for row in rows:
                yield "pending", row | {"evidence_us": max(at_us, row["evidence_us"] or 0) or None}
        self._held, self._newest, self._number = {}, {}, 0
