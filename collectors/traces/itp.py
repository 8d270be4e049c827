"""Import kind `trace-itp`: jobs of Microsoft's ITP training clusters."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row, batches
from gpuwatch.collectors.traces.first_fit import FirstFit
from gpuwatch.collectors.traces.trace_table import seconds_us, table_rows, whole
from gpuwatch.core.clock import to_us
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer

COLUMNS = ("job_id", "submission_time", "duration", "num_gpu")
FIRST_DAY_US = to_us(datetime(2021, 3, 4, tzinfo=UTC))
"""The start of the times in the trace: the day on which its collection began."""
MAX_JOBS = 2_000_000
MAX_GPUS = 4096
"""The most GPUs of a job."""
LABELS = compact_json({"placement": "estimated"})


class Job(NamedTuple):
    """A row of the trace; times in microseconds since the epoch."""

    start_us: int
    job_id: str
    end_us: int
    gpus: int


@importer(
    "trace-itp", "ITP trace: clusterNN.csv(.gz) with job_id, submission_time, duration, num_gpu", (".csv", ".csv.gz")
)
def read_itp_trace(source: Source, rejects: Rejects) -> Rows:
    """Yields `claim` rows of a cluster's jobs, each from its submission for its duration.

    The trace has no start times, so jobs start when they are submitted. It has no nodes, so jobs get the first free
    GPUs of stand-in nodes named after the file. An invalid row is rejected with its line. Raises UnreadableInput.
    """
    yield from batches(_claims(source, rejects))


def _claims(source: Source, rejects: Rejects) -> Iterator[Row]:
    stem = Path(source.path).name.partition(".")[0]
    fleet = FirstFit(lambda number: f"{stem}-{number:04d}")
    for job in sorted(_jobs(source.path, rejects)):
        shared = {
            "cluster": source.cluster,
            "scheduler": "kubernetes",
            "kind": "trace-itp",
            "job_id": job.job_id,
            "run_key": f"{job.job_id}@{job.start_us}",
            "submit_us": job.start_us,
            "start_us": job.start_us,
            "end_us": job.end_us,
            "evidence_us": job.end_us,
            "labels": LABELS,
        }
        for node, gpus in fleet.place(job.start_us, job.end_us, job.gpus):
            yield "claim", shared | {"node": node, "device_count": gpus}


def _jobs(path: str, rejects: Rejects) -> Iterator[Job]:
    for line, row in table_rows(path, COLUMNS, rejects, MAX_JOBS):
        try:
            start_us = FIRST_DAY_US + seconds_us(row, "submission_time")
            gpus, length_us = whole(row, "num_gpu", MAX_GPUS), seconds_us(row, "duration")
            if not row["job_id"]:
                raise ValueError("no job_id")
            if not gpus or not length_us:
                raise ValueError("num_gpu or duration is 0: the job held no GPU")
        except ValueError as error:
            rejects.add(str(error), path, line, ",".join(row.values()))
            continue
        yield Job(start_us, row["job_id"], start_us + length_us, gpus)
