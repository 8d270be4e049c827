"""Rows of scontrol's text: jobs, nodes, partitions and reservations, several lines a record or one (-o). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.records import Row, fitting
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.node import node_row
from gpuwatch.collectors.slurm.partitions import partition_row, reservation_row
from gpuwatch.collectors.slurm.sacct import RUNNING_STATES, claims, pending_rows
from gpuwatch.collectors.slurm.text import (
    Gpus,
    array_size,
    comment_labels,
    duration_us,
    expand_hostlist,
    gres_gpus,
    instant,
    known,
    labels_json,
    number_word,
    run_span,
    task_ids,
    tres_gpus,
    whole,
)
from gpuwatch.collectors.slurm.workload import PENDING_STATES, Facts, workload_rows
from gpuwatch.core.clock import SECOND_US, zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

MAX_RECORD_LINES = 100_000
MAX_RECORD_LINE_BYTES = 8 << 20

NOTHING = tuple(f"No {what} in the system" for what in ("jobs", "nodes", "partitions", "reservations"))
"""What scontrol prints when there is nothing to show."""
BEGINNINGS = ("JobId=", "NodeName=", "PartitionName=", "ReservationName=")
"""How a record starts."""

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z_]*(?:[/:][A-Za-z:_]+)*)=")
_FREE_TEXT = ("JobName", "Comment", "AdminComment", "SystemComment", "Command", "WorkDir", "StdErr", "StdIn", "StdOut")
_ONCE = frozenset(
    {
        *("JobId", "ArrayJobId", "ArrayTaskId", "HetJobId", "UserId", "Account", "QOS", "JobState", "Partition"),
        *("RunTime", "SubmitTime", "StartTime", "EndTime", "SuspendTime", "SecsPreSuspend"),
        *("NodeList", "NumNodes", "TRES", "AllocTRES", "ReqTRES", "NodeName", "State", "Gres", "Partitions"),
    }
)
"""Keys that decide. One that is there twice was forged or torn by a name or comment."""

Pairs = list[tuple[str, str]]


def parse_scontrol(lines: Lines, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Yields `claim`, `pending`, `workload`, `node`, `queue` and `reservation` rows of scontrol's text, mixed or not.

    A record that cannot be read is refused alone, with its first line. Raises UnreadableInput when there is no
    record at all, UsageError for an unknown time zone.
    """
    tz = zone(source.timezone)
    for number, record in _records(lines, source, rejects):
        try:
            yield from fitting(_record_rows(_pairs(record), source, tz))
        except ValueError as error:
            rejects.add(str(error), source.path, number, record[0])


def _record_rows(pairs: Pairs, source: Source, tz: ZoneInfo) -> list[Row]:
    """Rows of one record, which starts with one of BEGINNINGS. Raises ValueError."""
    fields = _fields(pairs)
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
    # Most jobs of many sites ask for no GPU: they are read no further.
    return rows + _workload(fields, rows, source, tz) if rows or _requested(fields) else []


def _job_rows(pairs: Pairs, cluster: str, tz: ZoneInfo) -> list[Row]:
    fields = _fields(pairs)
    raw, state = fields["JobId"], _word(fields, "JobState") or ""
    if not raw.isascii() or not raw.isdigit():
        raise ValueError("JobId is not a job number")
    if state in PENDING_STATES:
        return _pending(fields, _job_ids(fields), cluster, tz)
    if known(_word(fields, "StartTime")) is None:
        return []
    if known(_word(fields, "NodeList")) is None and not duration_us(_word(fields, "RunTime")):
        return []  # cancelled while it waited: its times are those of the cancellation, its TRES what it asked for
    if state == "COMPLETING" and known(_word(fields, "EndTime")) is None:
        return []  # requeued, and its processes end: its StartTime is an estimate of the next run
    located = _located(pairs)
    total = tres_gpus(_word(fields, "AllocTRES") or _word(fields, "TRES") or "") or gres_gpus(
        fields.get("JOB_GRES", "")
    )
    if not located and not total:
        return []
    run = _run(fields, state, cluster, tz)
    labels = comment_labels(fields.get("Comment"))
    if not located:
        # A total, spread evenly over the nodes as sacct's is: told as sacct's, it does not add up with what another dump
        # of the run said of each node.
        return claims(run | {"kind": "sacct"}, total, _word(fields, "NodeList") or "", labels)
    shared = run | {"labels": labels_json(labels)}
    return [("claim", shared | _device_columns(node, held)) for node, held in located]


def _device_columns(node: str, held: Gpus) -> dict[str, Any]:
    return {
        "node": node,
        "gpu_type": held.gpu_type,
        "profile": held.profile,
        "device_count": held.number,
        "device_indexes": held.indexes,
    }


def _located(pairs: Pairs) -> list[tuple[str, Gpus]]:
    """Devices by node of the lines `Nodes=gpu[01-02] CPU_IDs=... GRES=gpu:h100:4(IDX:0-3)`.

    Only those between the counts of the job and its minima are Slurm's own; a name or comment could imitate them
    elsewhere.
    """
    keys = [key for key, _ in pairs]
    first = keys.index("NumNodes") + 1 if "NumNodes" in keys else 0
    found: list[tuple[str, Gpus]] = []
    nodes: tuple[str, ...] = ()
    for key, value in takewhile(lambda pair: not pair[0].startswith("MinCPUs"), pairs[first:]):
        if key == "Nodes":
            nodes = expand_hostlist(value)
        elif key == "GRES":
            found.extend((node, held) for node in nodes for held in gres_gpus(value))
    return found


def _run(fields: dict[str, str], state: str, cluster: str, tz: ZoneInfo) -> dict[str, Any]:
    """Columns that all claims of one run share.

    EndTime of a running job is its time limit, not an end. RunTime leaves out the time suspended.
    """
    running = state in RUNNING_STATES
    run_time_us = duration_us(_word(fields, "RunTime"))
    suspend_us = instant(_word(fields, "SuspendTime"), tz)
    limit = None if running else _word(fields, "EndTime")
    start_us, end_us = run_span(_word(fields, "StartTime"), limit, run_time_us, tz)
    assert start_us is not None
    suspended_us: int | None = 0
    if suspend_us is not None:
        before_us = _seconds_us(_word(fields, "SecsPreSuspend"))
        if end_us is not None and run_time_us is not None:
            suspended_us = max(0, end_us - start_us - run_time_us)
        else:
            suspended_us = None if before_us is None else max(0, suspend_us - start_us - before_us)
    evidence_us = end_us if end_us is not None else start_us + (run_time_us or 0) + (suspended_us or 0)
    # What it held before it gave nodes back is told by accounting.
    start_us = min(max(start_us, instant(_word(fields, "ResizeTime"), tz) or start_us), evidence_us)
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "scontrol",
        "job_id": _job_ids(fields)[0],
        "run_key": f"{fields['JobId']}@{start_us}",
        "submit_us": instant(_word(fields, "SubmitTime"), tz),
        "start_us": start_us,
        "end_us": end_us,
        "evidence_us": evidence_us,
        "state": state,
        "user_name": _user(fields),
        "account": known(_word(fields, "Account")),
        "queue": known(_word(fields, "Partition")),
        "qos": known(_word(fields, "QOS")),
        "name": fields.get("JobName") or None,
        "suspended_us": suspended_us,
    }


def _pending(fields: dict[str, str], jobs: list[str], cluster: str, tz: ZoneInfo) -> list[Row]:
    """Rows of a waiting request. Its StartTime is an estimate; the last look at it is LastSchedEval."""
    submit_us = instant(_word(fields, "SubmitTime"), tz)
    seen = [instant(_word(fields, key), tz) for key in ("SubmitTime", "AccrueTime", "LastSchedEval")]
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": submit_us,
        "evidence_us": max((us for us in seen if us is not None), default=None),
        "node_count": whole(_word(fields, "NumNodes")),
        "user_name": _user(fields),
        "account": known(_word(fields, "Account")),
        "queue": known(_word(fields, "Partition")),
        "reason": known(_word(fields, "Reason")),
    }
    return pending_rows(request, jobs, _requested(fields))


def _requested(fields: dict[str, str]) -> tuple[Gpus, ...]:
    """GPUs a request asks for: its TRES, or its options where the site does not account for GPUs."""
    if gpus := tres_gpus(_word(fields, "ReqTRES") or _word(fields, "TRES") or ""):
        return gpus
    nodes = whole(_word(fields, "NumNodes"))
    times = {
        "TresPerJob": 1,
        "TresPerNode": nodes,
        "TresPerSocket": (nodes or 0) * (whole(_word(fields, "Socks/Node")) or 0),
        "TresPerTask": whole(_word(fields, "NumTasks")),
    }
    for key, factor in times.items():
        if factor and (each := gres_gpus(_word(fields, key) or "")):
            return tuple(held._replace(number=held.number * factor) for held in each)
    return ()


def _workload(fields: dict[str, str], rows: list[Row], source: Source, tz: ZoneInfo) -> list[Row]:
    """The `workload` row of a job whose other rows are `rows`."""
    state, ids = _word(fields, "JobState") or "", _job_ids(fields)
    nodes = known(_word(fields, "NodeList"))
    if state == "COMPLETING" and known(_word(fields, "EndTime")) is None:
        state = "REQUEUED"
    least, _, most = (_word(fields, "NumNodes") or "").partition("-")
    tasks = _word(fields, "ArrayTaskId") or ""
    array = bool(_word(fields, "ArrayJobId")) and bool(tasks) and tasks != "N/A" and not tasks.isdigit()
    limit_us = duration_us(_word(fields, "TimeLimit"))
    facts = Facts(
        uid=f"{_word(fields, 'ArrayJobId')}_*" if array else ids[0],
        job_id=None if array else ids[0],
        name=fields.get("JobName") or None,
        state=state,
        reason=known(_word(fields, "Reason")),
        user=_user(fields),
        account=known(_word(fields, "Account")),
        partition=known(_word(fields, "Partition")),
        qos=known(_word(fields, "QOS")),
        priority=number_word(_word(fields, "Priority")),
        nodes=whole(most or least),
        nodes_min=whole(least),
        tasks=whole(_word(fields, "NumTasks")),
        array_tasks=array_size(tasks) if array else None,
        submit_us=instant(_word(fields, "SubmitTime"), tz),
        eligible_us=instant(_word(fields, "EligibleTime"), tz),
        start_us=None if state in PENDING_STATES or nodes is None else instant(_word(fields, "StartTime"), tz),
        end_us=instant(_word(fields, "EndTime"), tz),
        preempt_us=instant(_word(fields, "PreemptTime"), tz),
        restarts=whole(_word(fields, "Restarts")),
        dependency=known(_word(fields, "Dependency")),
        reservation=known(_word(fields, "Reservation")),
        time_limit_s=None if limit_us is None else limit_us // SECOND_US,
    )
    return workload_rows(facts, rows, _requested(fields), source.cluster, source.observed_us)


def _job_ids(fields: dict[str, str]) -> list[str]:
    """Job ids as sacct prints them: plain, `array_task` (several while a range waits), or `het+offset`."""
    array, task = _word(fields, "ArrayJobId"), _word(fields, "ArrayTaskId")
    if array and task and task != "N/A":
        return task_ids(array, task)
    for name in ("Het", "Pack"):
        if (leader := _word(fields, f"{name}JobId")) and (offset := _word(fields, f"{name}JobOffset")):
            return [f"{leader}+{offset}"]
    return [fields["JobId"]]


def _records(lines: Lines, source: Source, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Lines of each record with the number of its first; what stands before the first record is refused."""
    record: list[str] = []
    first, strays, seen = 0, False, False
    for number, line in lines:
        if line.startswith(BEGINNINGS):
            if record:
                yield first, record
            record, first, seen = [line], number, True
        elif line.startswith(NOTHING):
            seen = True
        elif record and len(record) < MAX_RECORD_LINES:
            record.append(line)
        elif record:
            rejects.add(f"record of more than {MAX_RECORD_LINES} lines", source.path, number, line)
        elif line.strip() and not strays:
            strays = True
            rejects.add("text before the first record", source.path, number, line)
    if record:
        yield first, record
    if not seen:
        raise UnreadableInput(
            f"{source.path}: no line starts with JobId=, NodeName=, PartitionName= or ReservationName=; run "
            "`scontrol show job -d` or `scontrol show node -d`"
        )


def _pairs(record: list[str]) -> Pairs:
    """Keys and values in order. Raises ValueError when a key that decides is there twice."""
    lines = [line.strip() for line in record if line.strip()]
    pairs: Pairs = []
    for line in lines:
        pairs.extend(_line_pairs(line, len(lines) > 1))
    once = [key for key, _ in pairs if key in _ONCE]
    if len(once) != len(set(once)):
        raise ValueError("a key is there twice: a name or comment imitates it, or two records ran into one")
    return pairs


def _line_pairs(line: str, several_lines: bool) -> Iterator[tuple[str, str]]:
    """Pairs of a line. In the form with several lines, free text reaches to the end of its line."""
    matches = list(_KEY.finditer(line))
    for i, match in enumerate(matches):
        if several_lines and match[1] in _FREE_TEXT:
            yield match[1], line[match.end() :].strip()
            return
        end = matches[i + 1].start() if i + 1 < len(matches) else len(line)
        yield match[1], line[match.end() : end].strip()


def _fields(pairs: Pairs) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in pairs:
        fields.setdefault(key, value)
    return fields


def _word(fields: dict[str, str], key: str) -> str | None:
    """First word of a value, None where there is none."""
    return next(iter(fields.get(key, "").split()), None)


def _user(fields: dict[str, str]) -> str | None:
    """`alice(1001)` -> alice."""
    return known((_word(fields, "UserId") or "").partition("(")[0])


def _seconds_us(text: str | None) -> int | None:
    return None if (seconds := number_word(text)) is None else seconds * SECOND_US
