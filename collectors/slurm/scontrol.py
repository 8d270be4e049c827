"""Rows of scontrol's text: jobs, nodes, partitions and reservations, with or without `--oneliner`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.nvml.topo_matrix import date_of
from gpuwatch.collectors.shared.records import Row, fitting
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.node import node_row
from gpuwatch.collectors.slurm.partitions import partition_row, reservation_row
from gpuwatch.collectors.slurm.printed_times import as_printed
from gpuwatch.collectors.slurm.sacct import RUNNING_STATES, allocation_rows, located_allocation_rows, pending_rows
from gpuwatch.collectors.slurm.scontrol_records import Pairs, first_values, first_word, parse_pairs, split_records
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
    known,
    least_count,
    run_span,
    task_ids,
    tres_gpus,
)
from gpuwatch.collectors.slurm.workload import PENDING_STATES, Facts, workload_rows
from gpuwatch.core.clock import SECOND_US, zone
from gpuwatch.core.model import Rejects, Source

_LOCAL_TIME = re.compile(r"[=@]\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?![\d.]*(?:Z|[+-]\d\d))")
"""A time without an offset: of a job, a boot, a reservation, or the Reason of a node."""


def parse_scontrol(lines: Lines, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Yields `claim`, `pending`, `workload`, `node`, `queue` and `reservation` rows of scontrol's text, mixed or not.

    A first line `# observed 2026-11-21T02:08:29Z` sets the time of the text. An invalid record is rejected on its own, with its
    first line. Raises UnreadableInput when there is no
    record at all, UsageError for an unknown time zone.
    """
    tz = zone(source.timezone)
    rest = iter(lines)
    if (first := next(rest, None)) is not None:
        if first[1].startswith("# observed"):
            source = replace(
                source, observed_us=date_of(first[1], source.path, first[0], rejects) or source.observed_us
            )
        else:
            rest = chain((first,), rest)
    for number, record in split_records(rest, source, rejects):
        try:
            rows = fitting(_record_rows(parse_pairs(record), source, tz))
            rejects.naive_times |= bool(rows) and any(_LOCAL_TIME.search(text) for text in record)
            yield from rows
        except ValueError as error:
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
        return _pending(fields, _job_ids(fields), cluster, tz)
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
    run = _run(fields, state, cluster, tz)
    labels = comment_labels(fields.get("Comment"))
    if not located:
        # A total, spread evenly over the nodes as for sacct. It gets sacct's kind, so that it is not added to the
        # devices by node that another dump of the same run may have reported.
        return allocation_rows(run | {"kind": "sacct"}, total, first_word(fields, "NodeList") or "", labels)
    return located_allocation_rows(run, located, labels)


def _has_run(fields: dict[str, str], state: str) -> bool:
    """Whether the times of a job that is not pending are those of a run."""
    if _value(fields, "StartTime") is None:
        return False
    if _value(fields, "NodeList") is None and not duration_us(first_word(fields, "RunTime")):
        return False  # cancelled while pending: its times are those of the cancellation, its TRES is what it requested
    # A job that was requeued while its processes are ending has no end; its StartTime is an estimate for the next run.
    return state != "COMPLETING" or _value(fields, "EndTime") is not None


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


def _run(fields: dict[str, str], state: str, cluster: str, tz: ZoneInfo) -> dict[str, Any]:
    """Columns shared by all allocations of a run.

    EndTime of a running job is its time limit, not an end. RunTime excludes suspended time.
    """
    running = state in RUNNING_STATES
    run_time_us = duration_us(first_word(fields, "RunTime"))
    suspend_us = instant(first_word(fields, "SuspendTime"), tz)
    limit = None if running else first_word(fields, "EndTime")
    start_us, end_us = run_span(first_word(fields, "StartTime"), limit, run_time_us, tz)
    assert start_us is not None
    suspended_us: int | None = 0
    if suspend_us is not None:
        before_us = _seconds_us(first_word(fields, "SecsPreSuspend"))
        if end_us is not None and run_time_us is not None:
            suspended_us = max(0, end_us - start_us - run_time_us)
        else:
            suspended_us = None if before_us is None else max(0, suspend_us - start_us - before_us)
    evidence_us = end_us if end_us is not None else start_us + (run_time_us or 0) + (suspended_us or 0)
    # What the job held before it released some of its nodes is in accounting.
    start_us = min(max(start_us, instant(first_word(fields, "ResizeTime"), tz) or start_us), evidence_us)
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "scontrol",
        "job_id": _job_ids(fields)[0],
        "run_key": f"{fields['JobId']}@{start_us}",
        "submit_us": instant(first_word(fields, "SubmitTime"), tz),
        "start_us": start_us,
        "end_us": end_us,
        "evidence_us": evidence_us,
        "state": state,
        "user_name": _user(fields),
        "account": _value(fields, "Account"),
        "queue": _value(fields, "Partition"),
        "qos": _value(fields, "QOS"),
        "name": fields.get("JobName") or None,
        "suspended_us": suspended_us,
        **as_printed(first_word(fields, "StartTime"), tz),
    }


def _pending(fields: dict[str, str], jobs: list[str], cluster: str, tz: ZoneInfo) -> list[Row]:
    """Rows of a pending request. Its StartTime is an estimate; LastSchedEval is the last time it was considered."""
    submit_us = instant(first_word(fields, "SubmitTime"), tz)
    seen = [instant(first_word(fields, key), tz) for key in ("SubmitTime", "AccrueTime", "LastSchedEval")]
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": submit_us,
        "evidence_us": max((us for us in seen if us is not None), default=None),
        "node_count": least_count(first_word(fields, "NumNodes")),
        "user_name": _user(fields),
        "account": _value(fields, "Account"),
        "queue": _value(fields, "Partition"),
        "reason": _value(fields, "Reason"),
        **as_printed(first_word(fields, "SubmitTime"), tz),
    }
    shares = requested_shares(_tres(fields)) or requested_shares(
        first_word(fields, "TresPerNode") or "", request["node_count"] or 1
    )
    return pending_rows(request, jobs, _requested(fields) or shares)


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
    state, ids = first_word(fields, "JobState") or "", _job_ids(fields)
    nodes = _value(fields, "NodeList")
    if state == "COMPLETING" and _value(fields, "EndTime") is None:
        state = "REQUEUED"
    least, _, most = (first_word(fields, "NumNodes") or "").partition("-")
    array = _waiting_tasks(fields)
    limit_us = duration_us(first_word(fields, "TimeLimit"))
    facts = Facts(
        uid=f"{first_word(fields, 'ArrayJobId')}_*" if array else ids[0],
        job_id=None if array else ids[0],
        name=fields.get("JobName") or None,
        state=state,
        reason=_value(fields, "Reason"),
        user=_user(fields),
        account=_value(fields, "Account"),
        partition=_value(fields, "Partition"),
        qos=_value(fields, "QOS"),
        priority=integer(first_word(fields, "Priority")),
        nodes=least_count(most or least),
        nodes_min=least_count(least),
        tasks=least_count(first_word(fields, "NumTasks")),
        array_tasks=array_size(array) if array else None,
        submit_us=instant(first_word(fields, "SubmitTime"), tz),
        eligible_us=instant(first_word(fields, "EligibleTime"), tz),
        start_us=None if state in PENDING_STATES or nodes is None else instant(first_word(fields, "StartTime"), tz),
        end_us=instant(first_word(fields, "EndTime"), tz),
        preempt_us=instant(first_word(fields, "PreemptTime"), tz),
        restarts=least_count(first_word(fields, "Restarts")),
        dependency=_value(fields, "Dependency"),
        reservation=_value(fields, "Reservation"),
        time_limit_s=None if limit_us is None else limit_us // SECOND_US,
    )
    return workload_rows(facts, rows, _requested(fields), source.cluster, source.observed_us)


def _waiting_tasks(fields: dict[str, str]) -> str | None:
    """The range of waiting tasks of an array job, None for a single task and for any other job."""
    tasks = first_word(fields, "ArrayTaskId") or "N/A"
    single = tasks == "N/A" or tasks.isdigit() or not first_word(fields, "ArrayJobId")
    return None if single else tasks


def _job_ids(fields: dict[str, str]) -> list[str]:
    """Job ids as sacct prints them: plain, `array_task` (several for a pending range), or `het+offset`."""
    array, task = first_word(fields, "ArrayJobId"), first_word(fields, "ArrayTaskId")
    if array and task and task != "N/A":
        return task_ids(array, task)
    for name in ("Het", "Pack"):
        if (leader := first_word(fields, f"{name}JobId")) and (offset := first_word(fields, f"{name}JobOffset")):
            return [f"{leader}+{offset}"]
    return [fields["JobId"]]


def _value(fields: dict[str, str], key: str) -> str | None:
    return known(first_word(fields, key))


def _user(fields: dict[str, str]) -> str | None:
    """`alice(1001)` -> alice."""
    return known((first_word(fields, "UserId") or "").partition("(")[0])


def _seconds_us(text: str | None) -> int | None:
    return None if (seconds := integer(text)) is None else seconds * SECOND_US
