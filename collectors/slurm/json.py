"""Import kind `slurm-json`: output of Slurm's commands with --json and responses of slurmrestd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import mapping
from gpuwatch.collectors.shared.json_stream import Element, elements
from gpuwatch.collectors.shared.records import Row, batches, fitting
from gpuwatch.collectors.slurm.job_list import JobList, lists_all
from gpuwatch.collectors.slurm.json_accounting import accounting_rows
from gpuwatch.collectors.slurm.json_rows import controller_rows, node_from_json, workload_from_json
from gpuwatch.collectors.slurm.json_values import moment_us
from gpuwatch.collectors.slurm.partitions import partition_from_json, qos_from_json, reservation_from_json
from gpuwatch.collectors.slurm.queue_totals import with_totals
from gpuwatch.collectors.slurm.waiting import Waiting
from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

MAX_DEFERRED = 500_000
"""Nodes, workloads and running jobs kept until the end of a document, where its time is known."""
MAX_REASON = 200
SUPPORTED_MEMBERS = frozenset({"jobs", "nodes", "partitions", "qos", "QOS", "reservations"})
IGNORED_MEMBERS = frozenset({"meta", "errors", "statistics", "TRES", "tres", "pings", "associations", "sinfo"})
"""Other members of Slurm's documents; they show that a file is Slurm's."""
NOTHING_FOUND = 9003
"""Slurm's error number of a query without results."""


@importer("slurm-json", "Slurm's JSON: sacct --json, squeue --json, slurmrestd jobs and nodes", (".json", ".json.gz"))
def read_slurm_json(source: Source, rejects: Rejects) -> Rows:
    """Yields rows of jobs (from the controller or the accounting database), nodes, partitions, QOS and reservations.

    Times are seconds since the epoch, so the source's time zone does not matter. An invalid job or node is rejected
    on its own, with its line. Raises UnreadableInput for a file that is not Slurm's JSON.
    """
    yield from batches(_rows(source, rejects))


def _rows(source: Source, rejects: Rejects) -> Iterator[Row]:
    seen: set[str] = set()
    yield from with_totals(document_rows(elements(source.path, rejects), source, rejects, seen=seen), {}, None)
    if seen & SUPPORTED_MEMBERS:
        return
    if not seen & IGNORED_MEMBERS:
        raise UnreadableInput(f"{source.path}: no Slurm jobs or nodes; run `sacct --json` or `squeue --json`")
    rejects.add("ignored: a Slurm document without jobs or nodes", source.path, 1)


def document_rows(
    found: Iterable[Element],
    source: Source,
    rejects: Rejects,
    requested_us: int | None = None,
    on_error: Callable[[str], None] | None = None,
    seen: set[str] | None = None,
) -> Iterator[Row]:
    """Rows of the documents in `found`; the names of their members are added to `seen`.

    `requested_us` is the time of a live request; a file may contain the time at which it was written. An error that
    Slurm reports is passed to `on_error`, or rejected without one.
    """
    document = _Document(source, rejects, zone("UTC"), requested_us, on_error)
    for piece in found:
        if piece.key is None:
            if seen is not None:
                seen |= piece.value
            yield from document.finish()
            document = _Document(source, rejects, document.tz, requested_us, on_error)
        else:
            yield from document.add(piece)
    yield from document.finish()


@dataclass
class _Document:
    """One JSON document from Slurm."""

    source: Source
    rejects: Rejects
    tz: ZoneInfo
    requested_us: int | None = None
    on_error: Callable[[str], None] | None = None
    written_us: int | None = None
    latest_job_us: int = 0
    """The latest time in any of the controller's jobs: the document was not written earlier."""
    deferred: list[Row] = field(default_factory=list)
    """Rows that get the document's time as `observed_us`."""
    running: list[Row] = field(default_factory=list)
    """Allocations of running jobs, which get the document's time as evidence."""
    waiting: Waiting = field(default_factory=Waiting)
    jobs: JobList = field(default_factory=JobList)
    refused: int = field(init=False)
    """What was refused before this document."""

    def __post_init__(self) -> None:
        self.refused = self.rejects.total

    def add(self, piece: Element) -> Iterator[Row]:
        """Yields the rows of a member or item, except for those that need the document's time."""
        key, value, path = piece.key, piece.value, self.source.path
        try:
            if key == "last_update":
                self.written_us = moment_us({key: value}, key)
            elif key == "meta":
                if not (isinstance(value, dict) and lists_all(value.get("command"))):
                    self.jobs.incomplete()
            elif key == "errors":
                self._report_error(mapping({key: value}, key))
            elif key in SUPPORTED_MEMBERS:
                if not isinstance(value, dict):
                    raise ValueError(f"an item of {key} is not an object")
                if key == "jobs":
                    yield from self._job(value)
                else:
                    source = replace(self.source, observed_us=self.requested_us)
                    self._defer(*fitting([_PARSERS[key or ""](value, source, self.tz)]))
        except ValueError as error:
            self.rejects.add(_printable(str(error)), path, piece.line, _printable(_name(value)))

    def finish(self) -> Iterator[Row]:
        """Yields the deferred rows. The controller's running jobs were running or waiting when it wrote the document."""
        written_us = self.requested_us or self.written_us
        yield from ((table, row | {"observed_us": written_us}) for table, row in self.deferred)
        alive_us = max(written_us or 0, self.latest_job_us)
        for table, row in self.running:
            yield table, row | {"evidence_us": max(row["evidence_us"], alive_us)}
        yield from self.waiting.finish(alive_us)
        # A live source sees each job end. A job that is missing may be one that could not be read.
        whole = self.requested_us is None and self.rejects.total == self.refused and len(self.running) < MAX_DEFERRED
        if whole and self.running and (scope := self.jobs.scope()) is not None:
            yield "job_list", {"cluster": self.source.cluster, "at_us": alive_us} | scope

    def _job(self, job: dict[str, Any]) -> Iterator[Row]:
        if isinstance(job.get("tres"), dict) and isinstance(job.get("time"), dict):
            yield from fitting(accounting_rows(job, self.source.cluster, self.tz))
            return
        if "job_state" not in job:
            raise ValueError("not a job of the controller or of the accounting database")
        self.jobs.take_json(job)
        now_us = self.requested_us or self.source.observed_us
        rows = fitting(controller_rows(job, self.source.cluster, now_us))
        workloads = fitting(workload_from_json(job, rows, self.source.cluster, now_us))
        for table, row in rows:
            self.latest_job_us = max(self.latest_job_us, row["evidence_us"] or 0)
            if table == "claim" and row["end_us"] is None and len(self.running) < MAX_DEFERRED:
                self.running.append((table, row))
            elif table == "pending":
                yield from self.waiting.take(row)
            else:
                yield table, row
        for workload in workloads:
            self._defer(workload)

    def _defer(self, row: Row) -> None:
        if len(self.deferred) >= MAX_DEFERRED:
            raise ValueError(f"more than {MAX_DEFERRED} nodes and workloads in one document")
        self.deferred.append(row)

    def _report_error(self, error: dict[str, Any]) -> None:
        if error.get("error_number", error.get("errno")) == NOTHING_FOUND:
            return
        texts = [str(error[key]) for key in ("description", "error") if error.get(key)]
        reason = f"Slurm returned an error: {': '.join(texts) or 'no description'}"[:MAX_REASON]
        if self.on_error is None:
            raise ValueError(reason)
        self.on_error(reason)


_PARSERS: Mapping[str, Callable[[dict[str, Any], Source, ZoneInfo], Row]] = {
    "nodes": node_from_json,
    "partitions": lambda item, source, _: partition_from_json(item, source),
    "qos": lambda item, source, _: qos_from_json(item, source),
    "QOS": lambda item, source, _: qos_from_json(item, source),
    "reservations": lambda item, source, _: reservation_from_json(item, source),
}


def _name(value: Any) -> str:
    """The name of a rejected item for messages."""
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{key}={value[key]}" for key in ("job_id", "name", "description") if value.get(key))


def _printable(text: str) -> str:
    """Replaces lone surrogates, which JSON can escape but UTF-8 cannot encode, with `?`."""
    return text.encode("utf-8", "replace").decode()
