"""Import kinds for Slurm's text output: sacct, scontrol, slurm-topology."""

from __future__ import annotations

from gpuwatch.collectors.shared.records import batches
from gpuwatch.collectors.shared.text_files import MAX_FILE_BYTES, numbered_lines
from gpuwatch.collectors.slurm.job_list import JobList, dated
from gpuwatch.collectors.slurm.queue_totals import with_totals
from gpuwatch.collectors.slurm.sacct import parse_sacct
from gpuwatch.collectors.slurm.scontrol import parse_scontrol, with_time
from gpuwatch.collectors.slurm.scontrol_records import MAX_RECORD_LINE_BYTES
from gpuwatch.collectors.slurm.topology import parse_topology
from gpuwatch.core.model import Rejects, Rows, Source
from gpuwatch.core.registry import importer


@importer(
    "sacct", "Slurm accounting: text of `sacct -P` with its header", ("sacct.txt", "sacct.txt.gz"), naive_times=True
)
def read_sacct(source: Source, rejects: Rejects) -> Rows:
    """Allocations and pending requests, streamed line by line."""
    yield from batches(parse_sacct(numbered_lines(source.path, rejects), source, rejects))


@importer(
    "scontrol",
    "Slurm now: text of `scontrol show job -d`, `show node -d`, `show partition` and `show reservation`",
    ("scontrol_job.txt", "scontrol_job.txt.gz", "scontrol_node.txt", "scontrol_node.txt.gz"),
    naive_times=True,
)
def read_scontrol(source: Source, rejects: Rejects) -> Rows:
    """Allocations with device indexes, requests, workloads, nodes, partitions and reservations."""
    lines = numbered_lines(source.path, rejects, MAX_FILE_BYTES, MAX_RECORD_LINE_BYTES)
    rest, source = with_time(lines, source, rejects)
    jobs = JobList()
    rows = dated(parse_scontrol(rest, source, rejects, jobs), jobs, source.cluster, source.observed_us)
    yield from batches(with_totals(rows, {}, None))


@importer("slurm-topology", "Slurm's topology.conf or topology.yaml", ("topology.conf", "topology.yaml"))
def read_topology(source: Source, rejects: Rejects) -> Rows:
    """Links between switches or blocks and their nodes."""
    yield from batches(parse_topology(numbered_lines(source.path, rejects, MAX_FILE_BYTES), source, rejects))
