"""Rows of scontrol's text: jobs, nodes, partitions and reservations, with or without `--oneliner`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, takewhile
from zoneinfo import ZoneInfo

from gpuwatch.collectors.nvml.topo_matrix import date_of
from gpuwatch.collectors.shared.records import Row, fitting
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.job_list import JobList
from gpuwatch.collectors.slurm.node import node_row
from gpuwatch.collectors.slurm.partitions import partition_row, reservation_row
from gpuwatch.collectors.slurm.room import room_columns
from gpuwatch.collectors.slurm.run_times import as_printed, submission
from gpuwatch.collectors.slurm.sacct import allocation_rows, constraint_rule, located_allocation_rows, pending_rows
from gpuwatch.collectors.slurm.scontrol_records import Pairs, first_values, first_word, parse_pairs, split_records
from gpuwatch.collectors.slurm.scontrol_run import job_ids, run_columns, stated, user_of
from gpuwatch.collectors.slurm.shares import gres_held, requested_shares, tres_held
from gpuwatch.collectors.slurm.text import (
    Gpus,
    array_size,
    comment_labels,
    duration_us,
    expand_hostlist,
    gres_gpus,
    instant,
    integer,
    least_count,
    tres_gpus,
)
from gpuwatch.collectors.slurm.workload import PENDING_STATES, Facts, workload_rows
from gpuwatch.core.clock import SECOND_US, zone
from gpuwatch.core.model import Rejects, Source

_LOCAL_TIME = re.compile(r"[=@]\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?![\d.]*(?:Z|[+-]\d\d))")
"""A time without an offset: of a job, a boot, a reservation, or the Reason of a node."""


def with_time(lines: Lines, source: Source, rejects: Rejects) -> tuple[Lines, Source]:
    """The lines of a text and its source with the time in its first line, if that is `# observed 2026-11-21T02:08:29Z`."""
    rest = iter(lines)
    if (first := next(rest, None)) is None:
        return rest, source
    if not first[1].startswith("# observed"):
        return chain((first,), rest), source
    return rest, replace(source, observed_us=date_of(first[1], source.path, first[0], rejects) or source.observed_us)


def parse_scontrol(lines: Lines, source: Source, rejects: Rejects, jobs: JobList | None = None) -> Iterator[Row]:
    """Yields `claim`, `pending`, `workload`, `node`, `queue` and `reservation` rows of scontrol's text, mixed or not.

    `jobs` takes each job. An invalid record is rejected on its own, with its first line. Raises UnreadableInput when there is no
    record at all, UsageError for an unknown time zone.
    """
    tz, jobs = zone(source.timezone), jobs or JobList()
    lines, source = with_time(lines, source, rejects)
    for number, record in split_records(iter(lines), source, rejects):
        try:
            pairs = parse_pairs(record)
            if pairs[0][0] == "JobId":
                jobs.take(first_values(pairs))
            rows = fitting(_record_rows(pairs, source, tz))
            rejects.naive_times |= bool(rows) and any(_LOCAL_TIME.search(text) for text in record)
            yield from rows
        except ValueError as error:
            jobs.lacks(record[0])
            rejects.add(str(error), source.path, number, record[0])


def _record_rows(pairs: Pairs, source: Source, tz: ZoneInfo) -> list[Row]:
    """Rows of one record, which starts with one of BEGINNINGS. Raises ValueError."""
    fields = first_values(pairs)
    kind, name = pairs[0]
    if not name:
        raise ValueError(f"{kind} is empty")
    if kind == "NodeName":
        return [node_row(fields, source, tz)]
    if kind == "PartitionName":
        return [partition_row(fields, source)]
    if kind == "ReservationName":
        return [reservation_row(fields, source, tz)]
    rows = _job_rows(pairs, source.cluster, tz)
    # At many sites most jobs ask for no GPU; they are skipped early.
    return rows + _workload(fields, rows, source, tz) if rows or _requested(fields) else []


def _job_rows(pairs: Pairs, cluster: str, tz: ZoneInfo) -> list[Row]:
    fields = first_values(pairs)
    raw, state = fields["JobId"], first_word(fields, "JobState") or ""
    if not raw.isascii() or not raw.isdigit():
        raise ValueError("JobId is not a job number")
    if state in PENDING_STATES:
        return _pending(fields, job_ids(fields), cluster, tz)
    if not _has_run(fields, state):
        return []
    located = _located(pairs)
    total = (
        tres_held(first_word(fields, "AllocTRES") or first_word(fields, "TRES") or "")
        or gres_held(fields.get("JOB_GRES", ""))
        or _requested_shares(fields)
    )
    if not located and not total:
        return []
    run = run_columns(fields, state, cluster, tz)
    labels = comment_labels(fields.get("Comment"))
    if not located:
        # A total, spread evenly over the nodes as for sacct. It gets sacct's kind, so that it is not added to the
        # devices by node that another dump of the same run may have reported.
        return allocation_rows(run | {"kind": "sacct"}, total, first_word(fields, "NodeList") or "", labels)
    return located_allocation_rows(run, located, labels)


def _has_run(fields: dict[str, str], state: str) -> bool:
    """Whether the times of a job that is not pending are those of a run."""
    if stated(fields, "StartTime") is None:
        return False
    if stated(fields, "NodeList") is None and not duration_us(first_word(fields, "RunTime")):
        return False  # cancelled while pending: its times are those of the cancellation, its TRES is what it requested
    # A job that was requeued while its processes are ending has no end; its StartTime is an estimate for the next run.
    return state != "COMPLETING" or stated(fields, "EndTime") is not None


def _located(pairs: Pairs) -> list[tuple[str, Gpus]]:
    """Devices by node, from the lines `Nodes=gpu[01-02] CPU_IDs=... GRES=gpu:h100:4(IDX:0-3)`.

    Only those between the job's counts and its minima are certainly written by Slurm; elsewhere a job name or comment
    could imitate them.
    """
    keys = [key for key, _ in pairs]
    first = keys.index("NumNodes") + 1 if "NumNodes" in keys else 0
    found: list[tuple[str, Gpus]] = []
    nodes: tuple[str, ...] = ()
    for key, value in takewhile(lambda pair: not pair[0].startswith("MinCPUs"), pairs[first:]):
        if key == "Nodes":
            nodes = expand_hostlist(value)
        elif key == "GRES":
            found.extend((node, group) for node in nodes for group in gres_held(value))
    return found


def _requested_shares(fields: dict[str, str]) -> tuple[Gpus, ...]:
    """The shares of GPUs that a job asked for on each node, where the site does not account for them."""
    nodes = least_count(first_word(fields, "NumNodes")) or 1
    found = gres_held(first_word(fields, "TresPerNode") or "")
    return tuple(group._replace(shares=group.shares * nodes) for group in found if group.shares is not None)


def _pending(fields: dict[str, str], jobs: list[str], cluster: str, tz: ZoneInfo) -> list[Row]:
    """Rows of a pending request. Its StartTime is an estimate; LastSchedEval is the last time it was considered."""
    submit_us, seen_us = _submission(fields, tz)
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": submit_us,
        "evidence_us": max((us for us in (submit_us, seen_us) if us is not None), default=None),
        "node_count": least_count(first_word(fields, "NumNodes")),
        "user_name": user_of(fields),
        "account": stated(fields, "Account"),
        "queue": stated(fields, "Partition"),
        "reason": stated(fields, "Reason"),
        "node_rule": constraint_rule(first_word(fields, "Features")),
        **room_columns(_tres(fields)),
        **as_printed(first_word(fields, "SubmitTime"), tz),
    }
    shares = requested_shares(_tres(fields)) or requested_shares(
        first_word(fields, "TresPerNode") or "", request["node_count"] or 1
    )
    return pending_rows(request, jobs, _requested(fields) or shares)


def _submission(fields: dict[str, str], tz: ZoneInfo) -> tuple[int | None, int | None]:
    """When a request that waits was submitted, and when the scheduler last considered it."""
    return submission(
        first_word(fields, "SubmitTime"), [first_word(fields, key) for key in ("AccrueTime", "LastSchedEval")], tz
    )


def _tres(fields: dict[str, str]) -> str:
    return first_word(fields, "ReqTRES") or first_word(fields, "TRES") or ""


def _requested(fields: dict[str, str]) -> tuple[Gpus, ...]:
    """The requested GPUs: from the job's TRES, or from its options where the site does not account for GPUs."""
    if gpus := tres_gpus(_tres(fields)):
        return gpus
    nodes = least_count(first_word(fields, "NumNodes"))
    factors = {
        "TresPerJob": 1,
        "TresPerNode": nodes,
        "TresPerSocket": (nodes or 0) * (least_count(first_word(fields, "Socks/Node")) or 0),
        "TresPerTask": least_count(first_word(fields, "NumTasks")),
    }
    for key, factor in factors.items():
        if factor and (each := gres_gpus(first_word(fields, key) or "")):
            return tuple(group._replace(number=group.number * factor) for group in each)
    return ()


def _workload(fields: dict[str, str], rows: list[Row], source: Source, tz: ZoneInfo) -> list[Row]:
    """The `workload` row of a job with the allocations or requests `rows`."""
    state, ids = first_word(fields, "JobState") or "", job_ids(fields)
    nodes = stated(fields, "NodeList")
    if state == "COMPLETING" and stated(fields, "EndTime") is None:
        state = "REQUEUED"
    least, _, most = (first_word(fields, "NumNodes") or "").partition("-")
    array = _waiting_tasks(fields)
    limit_us = duration_us(first_word(fields, "TimeLimit"))
    facts = Facts(
        uid=f"{first_word(fields, 'ArrayJobId')}_*" if array else ids[0],
        job_id=None if array else ids[0],
        name=fields.get("JobName") or None,
        state=state,
        reason=stated(fields, "Reason"),
        user=user_of(fields),
        account=stated(fields, "Account"),
        partition=stated(fields, "Partition"),
        qos=stated(fields, "QOS"),
        priority=integer(first_word(fields, "Priority")),
        nodes=least_count(most or least),
        nodes_min=least_count(least),
        tasks=least_count(first_word(fields, "NumTasks")),
        array_tasks=array_size(array) if array else None,
        submit_us=_submission(fields, tz)[0]
        if state in PENDING_STATES
        else instant(first_word(fields, "SubmitTime"), tz),
        eligible_us=instant(first_word(fields, "EligibleTime"), tz),
        start_us=None if state in PENDING_STATES or nodes is None else instant(first_word(fields, "StartTime"), tz),
        end_us=instant(first_word(fields, "EndTime"), tz),
        preempt_us=instant(first_word(fields, "PreemptTime"), tz),
        restarts=least_count(first_word(fields, "Restarts")),
        dependency=stated(fields, "Dependency"),
        reservation=stated(fields, "Reservation"),
        time_limit_s=None if limit_us is None else limit_us // SECOND_US,
    )
    return workload_rows(facts, rows, _requested(fields), source.cluster, source.observed_us)


def _waiting_tasks(fields: dict[str, str]) -> str | None:
    """The range of waiting tasks of an array job, None for a single task and for any other job."""
    tasks = first_word(fields, "ArrayTaskId") or "N/A"
    single = tasks == "N/A" or tasks.isdigit() or not first_word(fields, "ArrayJobId")
    return None if single else tasks
