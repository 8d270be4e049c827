"""Import kind `slurm-json`: the answers of Slurm's commands with --json and of slurmrestd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import mapping
from gpuwatch.collectors.shared.json_stream import Piece, pieces
from gpuwatch.collectors.shared.records import Row, batches, fitting
from gpuwatch.collectors.slurm.json_rows import accounting_rows, controller_rows, node_of, workload_of
from gpuwatch.collectors.slurm.json_values import moment_us
from gpuwatch.collectors.slurm.partitions import completed, partition_of, qos_of, reservation_of
from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_WAITING = 500_000
"""Nodes, workloads and running jobs of one document that wait for its end, which says when it was written."""
MAX_REASON = 200
READ = frozenset({"jobs", "nodes", "partitions", "qos", "QOS", "reservations"})
OTHER = frozenset({"meta", "errors", "statistics", "TRES", "tres", "pings", "associations", "sinfo"})
"""Members of answers that are Slurm's too and hold nothing that is read."""
NOTHING_FOUND = 9003
"""Slurm's error number for a query without results."""


@importer("slurm-json", "Slurm's JSON: sacct --json, squeue --json, slurmrestd jobs and nodes", (".json", ".json.gz"))
def read(source: Source, rejects: Rejects) -> Rows:
    """Yields rows of jobs (of the controller and of the accounting database), nodes, partitions, QOS, reservations.

    Times are seconds since the epoch, so the time zone of the source does not matter. A job or node that cannot be
    read is refused alone, with its line. Raises UnreadableInput for a file that is not Slurm's JSON.
    """
    yield from batches(_rows(source, rejects))


def _rows(source: Source, rejects: Rejects) -> Iterator[Row]:
    seen: set[str] = set()
    yield from completed(answer_rows(pieces(source.path, rejects), source, rejects, seen=seen), {}, None)
    if seen & READ:
        return
    if not seen & OTHER:
        raise UnreadableInput(f"{source.path}: neither jobs nor nodes of Slurm; run `sacct --json` or `squeue --json`")
    rejects.add("ignored: Slurm's answer holds neither jobs nor nodes", source.path, 1)


def answer_rows(
    found: Iterable[Piece],
    source: Source,
    rejects: Rejects,
    answered_us: int | None = None,
    on_error: Callable[[str], None] | None = None,
    seen: set[str] | None = None,
) -> Iterator[Row]:
    """Rows of the documents that `found` brings; the members they had are added to `seen`.

    `answered_us` is when a live answer was asked for; a file tells itself when it was written, or not at all. An error
    that Slurm tells is handed to `on_error`, or refused where there is none.
    """
    answer = _Answer(source, rejects, zone("UTC"), answered_us, on_error)
    for piece in found:
        if piece.key is None:
            if seen is not None:
                seen |= piece.value
            yield from answer.finish()
            answer = _Answer(source, rejects, answer.tz, answered_us, on_error)
        else:
            yield from answer.take(piece)
    yield from answer.finish()


@dataclass
class _Answer:
    """One JSON document of Slurm."""

    source: Source
    rejects: Rejects
    tz: ZoneInfo
    answered_us: int | None = None
    on_error: Callable[[str], None] | None = None
    written_us: int | None = None
    spoken_us: int = 0
    """The last instant that a job of the controller tells of: the answer was written no earlier."""
    waiting: list[Row] = field(default_factory=list)
    """Rows that have the time at which the answer was written."""
    running: list[Row] = field(default_factory=list)

    def take(self, piece: Piece) -> Iterator[Row]:
        """Rows of one member or item; what needs the time of the answer waits for its end."""
        key, value, path = piece.key, piece.value, self.source.path
        try:
            if key == "last_update":
                self.written_us = moment_us({key: value}, key)
            elif key == "errors":
                self._error(mapping({key: value}, key))
            elif key in READ:
                if not isinstance(value, dict):
                    raise ValueError(f"an item of {key} is not an object")
                if key == "jobs":
                    yield from self._job(value)
                else:
                    told = replace(self.source, observed_us=self.answered_us)
                    self._wait(*fitting([_READERS[key or ""](value, told, self.tz)]))
        except ValueError as error:
            self.rejects.add(_printable(str(error)), path, piece.line, _printable(_name(value)))

    def finish(self) -> Iterator[Row]:
        """What waited. The controller's jobs that run lived when it wrote; a list without a time has none."""
        written_us = self.answered_us or self.written_us
        yield from ((table, row | {"observed_us": written_us}) for table, row in self.waiting)
        alive_us = max(written_us or 0, self.spoken_us)
        for table, row in self.running:
            yield table, row | {"evidence_us": max(row["evidence_us"], alive_us)}

    def _job(self, job: dict[str, Any]) -> Iterator[Row]:
        if isinstance(job.get("tres"), dict) and isinstance(job.get("time"), dict):
            yield from fitting(accounting_rows(job, self.source.cluster, self.tz))
            return
        if "job_state" not in job:
            raise ValueError("neither a job of the controller nor one of the accounting database")
        now_us = self.answered_us or self.source.observed_us
        rows = fitting(controller_rows(job, self.source.cluster, now_us))
        workloads = fitting(workload_of(job, rows, self.source.cluster, now_us))
        for table, row in rows:
            self.spoken_us = max(self.spoken_us, row["evidence_us"] or 0)
            if table == "claim" and row["end_us"] is None and len(self.running) < MAX_WAITING:
                self.running.append((table, row))
            else:
                yield table, row
        for workload in workloads:
            self._wait(workload)

    def _wait(self, row: Row) -> None:
        if len(self.waiting) >= MAX_WAITING:
            raise ValueError(f"more than {MAX_WAITING} nodes and workloads in one answer")
        self.waiting.append(row)

    def _error(self, told: dict[str, Any]) -> None:
        if told.get("error_number", told.get("errno")) == NOTHING_FOUND:
            return
        parts = [str(told[key]) for key in ("description", "error") if told.get(key)]
        reason = f"Slurm answered with an error: {': '.join(parts) or 'no reason told'}"[:MAX_REASON]
        if self.on_error is None:
            raise ValueError(reason)
        self.on_error(reason)


_READERS: Mapping[str, Callable[[dict[str, Any], Source, ZoneInfo], Row]] = {
    "nodes": node_of,
    "partitions": lambda item, source, _: partition_of(item, source),
    "qos": lambda item, source, _: qos_of(item, source),
    "QOS": lambda item, source, _: qos_of(item, source),
    "reservations": lambda item, source, _: reservation_of(item, source),
}


def _name(value: Any) -> str:
    """What to call a refused item."""
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{key}={value[key]}" for key in ("job_id", "name", "description") if value.get(key))


def _printable(text: str) -> str:
    """JSON may escape half a surrogate pair, which no UTF-8 column can hold: it becomes `?`."""
    return text.encode("utf-8", "replace").decode()
