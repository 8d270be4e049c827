"""Import kind `slurm-json`: the answers of `sacct --json`, `squeue --json`, `sinfo --json` (22.05) and slurmrestd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.clock import zone
from gpuwatch.collectors.json_stream import Piece, pieces
from gpuwatch.collectors.kubernetes_json import mapping
from gpuwatch.collectors.slurm_files import Row, batches
from gpuwatch.collectors.slurm_json_shapes import accounting_rows, controller_rows, moment_us, node_of
from gpuwatch.errors import UnreadableInput
from gpuwatch.model import Rejects, Rows, Source
from gpuwatch.registry import importer

MAX_WAITING = 200_000
"""Nodes and running jobs of one document that wait for its end, which says when it was written."""
MAX_REASON = 200
OTHER = frozenset({"meta", "errors", "statistics", "partitions", "qos", "QOS", "TRES", "pings", "associations"})
"""Members of answers that are Slurm's too and hold neither jobs nor nodes."""


@importer("slurm-json", "Slurm's JSON: sacct --json, squeue --json, slurmrestd jobs and nodes", (".json", ".json.gz"))
def read(source: Source, rejects: Rejects) -> Rows:
    """Yields `claim`, `pending` and `node` rows; jobs of the controller and of the accounting database may be mixed.

    Times are seconds since the epoch, so the time zone of the source does not matter. A job or node that cannot be
    read is refused alone, with its line. Raises UnreadableInput for a file that is not Slurm's JSON.
    """
    yield from batches(_rows(source, rejects))


def _rows(source: Source, rejects: Rejects) -> Iterator[Row]:
    answer = _Answer(source, rejects, zone("UTC"))
    seen: frozenset[str] = frozenset()
    for piece in pieces(source.path, rejects):
        if piece.key is None:
            seen |= piece.value
            yield from answer.finish()
            answer = _Answer(source, rejects, answer.tz)
        else:
            yield from answer.take(piece)
    yield from answer.finish()
    if seen & {"jobs", "nodes"}:
        return
    if not seen & OTHER:
        raise UnreadableInput(f"{source.path}: neither jobs nor nodes of Slurm; run `sacct --json` or `squeue --json`")
    rejects.add("ignored: Slurm's answer holds neither jobs nor nodes", source.path, 1)


@dataclass
class _Answer:
    """One JSON document of Slurm."""

    source: Source
    rejects: Rejects
    tz: ZoneInfo
    written_us: int | None = None
    spoken_us: int = 0
    """The last instant that a job of the controller tells of: the answer was written no earlier."""
    nodes: list[Row] = field(default_factory=list)
    running: list[Row] = field(default_factory=list)

    def take(self, piece: Piece) -> Iterator[Row]:
        """Rows of one member or item; nodes and running jobs of the controller wait for the end."""
        key, value, path = piece.key, piece.value, self.source.path
        try:
            if key == "last_update":
                self.written_us = moment_us({key: value}, key)
            elif key == "errors":
                reason = mapping({key: value}, key).get("error") or "no reason told"
                raise ValueError(f"Slurm answered with an error: {reason}"[:MAX_REASON])
            elif key in ("jobs", "nodes"):
                if not isinstance(value, dict):
                    raise ValueError(f"an item of {key} is not an object")
                yield from self._job(value) if key == "jobs" else self._node(value)
        except ValueError as error:
            self.rejects.add(_printable(str(error)), path, piece.line, _printable(_name(value)))

    def finish(self) -> Iterator[Row]:
        """What waited. The controller's jobs that run lived when it wrote; a node list without a time has none."""
        yield from ((table, row | {"observed_us": self.written_us}) for table, row in self.nodes)
        alive_us = max(self.written_us or 0, self.spoken_us)
        for table, row in self.running:
            yield table, row | {"evidence_us": max(row["evidence_us"], alive_us)}

    def _job(self, job: dict[str, Any]) -> Iterator[Row]:
        if isinstance(job.get("tres"), dict) and isinstance(job.get("time"), dict):
            yield from accounting_rows(job, self.source.cluster, self.tz)
            return
        if "job_state" not in job:
            raise ValueError("neither a job of the controller nor one of the accounting database")
        for table, row in controller_rows(job, self.source.cluster):
            self.spoken_us = max(self.spoken_us, row["evidence_us"] or 0)
            if table == "claim" and row["end_us"] is None and len(self.running) < MAX_WAITING:
                self.running.append((table, row))
            else:
                yield table, row

    def _node(self, node: dict[str, Any]) -> Iterator[Row]:
        if len(self.nodes) >= MAX_WAITING:
            raise ValueError(f"more than {MAX_WAITING} nodes in one answer")
        self.nodes.append(node_of(node, replace(self.source, observed_us=None), self.tz))
        yield from ()


def _name(value: Any) -> str:
    """What to call a refused item."""
    if not isinstance(value, dict):
        return str(value)
    return " ".join(f"{key}={value[key]}" for key in ("job_id", "name", "description") if value.get(key))


def _printable(text: str) -> str:
    """JSON may escape half a surrogate pair, which no UTF-8 column can hold: it becomes `?`."""
    return text.encode("utf-8", "replace").decode()
