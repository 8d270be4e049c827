"""Rows of `sacct -P`: the runs that held GPUs and the requests that wait. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import compact_json
from gpuwatch.collectors.shared.records import Row, fitting
from gpuwatch.collectors.shared.text_files import Lines
from gpuwatch.collectors.slurm.cluster_column import ClusterColumn
from gpuwatch.collectors.slurm.repeated_hour import GUESSED, PRINTED, RepeatedHour, elapsed_us
from gpuwatch.collectors.slurm.room import room_columns
from gpuwatch.collectors.slurm.run_times import ESTIMATED, RUNNING_STATES, TIME_LABEL, as_printed, run_times, submission
from gpuwatch.collectors.slurm.shares import SHARES_LABEL, requested_shares, tres_held
from gpuwatch.collectors.slurm.text import (
    Gpus,
    comment_labels,
    duration_us,
    expand_hostlist,
    known,
    least_count,
    spread,
    task_ids,
    tres_gpus,
)
from gpuwatch.collectors.slurm.waiting import Waiting
from gpuwatch.core.clock import zone
from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.model import Rejects, Source

FIELDS = (
    "JobID,JobIDRaw,User,Account,Partition,QOS,JobName,State,Submit,Eligible,Start,End,"
    "ElapsedRaw,Suspended,NNodes,NodeList,ReqTRES,AllocTRES,Reason,Comment"
)
"""The columns that are parsed."""
COMMAND = f"sacct -a -D -X -P -o {FIELDS}"
"""The command that prints all of them."""

NEEDED = ("state", "start", "end", "nodelist", "alloctres")
MAX_HEADER_LINE = 10
"""Blank lines allowed before the header."""

_JOB = re.compile(r"(\d+)(?:_(\d+)|_(\[.+)|\+(\d+))?")

Fields = dict[str, str]


def parse_sacct(lines: Lines, source: Source, rejects: Rejects) -> Iterator[Row]:
    """Yields `claim` rows (one per node and device type) and `pending` rows of a `sacct -P` text with a header.

    Requests that wait are dated to the newest time of the text; a repeated header begins another one.

    Columns are matched by name, in any order; the delimiter comes from the header. Steps are skipped because they
    repeat their job's GPUs. An invalid row is rejected on its own. Raises UnreadableInput without a usable header,
    UsageError for an unknown time zone.
    """
    tz = zone(source.timezone)
    numbered = iter(lines)
    header, delimiter, names = _header(numbered, source.path)
    clusters, waiting, repeated = ClusterColumn(source), Waiting(), RepeatedHour(tz)

    def finish() -> Iterator[Row]:
        for at, text, cluster, fields in repeated.finish():
            try:
                yield from _passed_on(fitting(job_rows(fields, cluster, tz)), cluster, fields, waiting)
            except ValueError as error:
                rejects.add(str(error), source.path, at, text)
        yield from waiting.finish()

    for number, line in numbered:
        if line == header:
            yield from finish()
        if not line.strip() or line == header:
            continue
        values = line.split(delimiter)
        if len(values) != len(names):
            rejects.add(_wrong_width(len(values) - len(names), delimiter), source.path, number, line)
            continue
        fields = dict(zip(names, values, strict=True))
        try:
            cluster = clusters.of(fields)
            rows = fitting(job_rows(fields, cluster, tz))
            rejects.naive_times |= any("naive_zone" in row for _, row in rows)
            repeated.note(cluster, fields)
            if not repeated.holds(number, line, cluster, fields, rows):
                yield from _passed_on(rows, cluster, fields, waiting)
        except ValueError as error:
            rejects.add(str(error), source.path, number, line)
    yield from finish()


def _passed_on(rows: list[Row], cluster: str, fields: Fields, waiting: Waiting) -> Iterator[Row]:
    """The rows of a record, except requests, which wait for the text's newest time."""
    yield from waiting.superseded(cluster, fields.get("jobid") or fields.get("jobidraw"))
    for table, row in rows:
        if table == "pending":
            yield from waiting.take(row)
        else:
            waiting.seen(row)
            yield table, row


def job_rows(fields: Fields, cluster: str, tz: ZoneInfo) -> list[Row]:
    """Rows of one sacct record (column names in lower case); none for a step or a job without GPUs.

    Raises ValueError.
    """
    printed = fields.get("jobid") or fields.get("jobidraw") or ""
    if "." in printed:
        return []
    match = _JOB.fullmatch(printed)
    if not match:
        raise ValueError("JobID is not a job number")
    state = (fields["state"].split() or [""])[0]
    if state == "PENDING":
        return _pending(fields, printed, match, cluster, tz)
    gpus = tres_held(fields["alloctres"])
    if not gpus or known(fields["start"]) is None:
        return []
    return allocation_rows(
        _run(fields, printed, state, cluster, tz), gpus, fields["nodelist"], comment_labels(fields.get("comment"))
    )


def allocation_rows(run: dict[str, Any], gpus: tuple[Gpus, ...], nodelist: str, labels: dict[str, Any]) -> list[Row]:
    """One `claim` row per device type and node, for the GPUs of a whole job.

    Only totals are known here. If a total does not divide evenly, the first nodes get the remainder and the rows get
    the label `spread` = `estimated`. Raises ValueError when no node is named.
    """
    nodes = expand_hostlist(known(nodelist) or "")
    if not nodes:
        raise ValueError("GPUs allocated but no node in NodeList")
    rows: list[Row] = []
    for group in gpus:
        counts = spread(group.number if group.shares is None else group.shares, len(nodes))
        marked = labels | {"spread": "estimated"} if counts[0] != counts[-1] else labels
        for node, count in zip(nodes, counts, strict=True):
            here = group._replace(number=count) if group.shares is None else group._replace(number=1, shares=count)
            if count:
                rows.append(_claim(run, node, here, marked))
    return rows


def located_allocation_rows(run: dict[str, Any], located: list[tuple[str, Gpus]], labels: dict[str, Any]) -> list[Row]:
    """One `claim` row per node and device type, for GPUs whose nodes are known."""
    return [_claim(run, node, gpus, labels) for node, gpus in located]


def _claim(run: dict[str, Any], node: str, gpus: Gpus, labels: dict[str, Any]) -> Row:
    """A `claim` row; the label SHARES_LABEL has the shares that are held of devices that others hold too."""
    # A comment of the user cannot make shares of whole devices, or exact times doubtful.
    kept = {name: value for name, value in labels.items() if name not in (SHARES_LABEL, TIME_LABEL)}
    shared = {} if gpus.shares is None else {SHARES_LABEL: gpus.shares}
    return "claim", run | {
        "node": node,
        "gpu_type": gpus.gpu_type,
        "profile": gpus.profile,
        "device_count": gpus.number,
        "device_indexes": gpus.indexes,
        "labels": compact_json(kept | shared | run.get("labels", {})),
    }


def _run(fields: Fields, printed: str, state: str, cluster: str, tz: ZoneInfo) -> dict[str, Any]:
    """Columns shared by all allocations of a run."""
    length_us, suspended_us = elapsed_us(fields), duration_us(fields.get("suspended"))
    times = run_times(fields.get("submit"), fields["start"], fields["end"], length_us, tz)
    submit_us, start_us, end_us = times[:3]
    assert start_us is not None
    evidence_us = end_us if end_us is not None else start_us + (length_us or 0)
    # A job that released some of its nodes has two records with the same start. The second one's "submit" time is the
    # time of the resize, and its allocation starts then.
    start_us = min(max(start_us, submit_us or start_us), evidence_us)
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "sacct",
        "job_id": printed,
        "run_key": f"{fields.get('jobidraw') or printed}@{start_us}",
        "submit_us": submit_us,
        "start_us": start_us,
        "end_us": None if state in RUNNING_STATES else end_us,
        "evidence_us": evidence_us,
        "state": state,
        "user_name": known(fields.get("user")),
        "account": known(fields.get("account")),
        "queue": known(fields.get("partition")),
        "qos": known(fields.get("qos")),
        "name": fields.get("jobname") or None,
        "suspended_us": suspended_us,
        "labels": ESTIMATED if times.guessed or GUESSED in fields else {},
        **rule_column(fields.get("constraints")),
        **room_columns(fields["alloctres"], len(expand_hostlist(known(fields["nodelist"]) or ""))),
        **as_printed(fields.get(PRINTED) or fields["start"], tz),
    }


def _pending(fields: Fields, printed: str, match: re.Match[str], cluster: str, tz: ZoneInfo) -> list[Row]:
    """`pending` rows of one request: one per device type and, for an array, per task still waiting."""
    submit_us, eligible_us = submission(fields.get("submit"), [fields.get("eligible")], tz)
    waited_us = duration_us(fields.get("planned") or fields.get("reserved"))
    seen_us = eligible_us + waited_us if eligible_us is not None and waited_us is not None else submit_us
    jobs = task_ids(match[1], match[3]) if match[3] else [printed]
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": submit_us,
        "evidence_us": seen_us,
        "node_count": least_count(fields.get("nnodes")) or least_count(fields.get("reqnodes")),
        "user_name": known(fields.get("user")),
        "account": known(fields.get("account")),
        "queue": known(fields.get("partition")),
        "reason": known(fields.get("reason")),
        "node_rule": constraint_rule(fields.get("constraints")),
        **as_printed(fields.get("submit"), tz),
    }
    asked = fields.get("reqtres") or fields["alloctres"]
    return pending_rows(request | room_columns(asked), jobs, tres_gpus(asked) or requested_shares(asked))


def constraint_rule(text: str | None) -> str | None:
    """The `node_rule` of a request with a constraint, None without one."""
    constraint = known(text)
    return None if constraint is None else compact_json({"constraint": constraint})


def rule_column(text: str | None) -> dict[str, str]:
    """The column `node_rule` of a run with a constraint."""
    rule = constraint_rule(text)
    return {} if rule is None else {"node_rule": rule}


def pending_rows(request: dict[str, Any], jobs: list[str], gpus: tuple[Gpus, ...]) -> list[Row]:
    """One `pending` row per job id and device type. CPUs and memory are those of the whole request: of one type only."""
    if len(gpus) > 1:
        request = {name: value for name, value in request.items() if name not in ("cpu_milli", "memory_bytes")}
    return [
        (
            "pending",
            request
            | {"job_id": job, "device_count": group.number, "profile": group.profile, "gpu_type": group.gpu_type},
        )
        for job in jobs
        for group in gpus
    ]


def _header(lines: Iterator[tuple[int, str]], path: str) -> tuple[str, str, list[str]]:
    """Header line, delimiter and column names in lower case. Raises UnreadableInput."""
    line = ""
    for number, line in lines:
        if line.strip() or number >= MAX_HEADER_LINE:
            break
    between = set(re.findall(r"\W+", line.strip(" ")))
    delimiter = between.pop() if len(between) == 1 else ""
    names = line.lower().split(delimiter) if delimiter.strip(" ") else []
    if not {"jobid", "jobidraw"} & set(names):
        raise UnreadableInput(f"{path}: no header of `sacct -P` in its first line; run `{COMMAND}`")
    if missing := [name for name in NEEDED if name not in names]:
        raise UnreadableInput(f"{path}: columns {', '.join(missing)} are missing; run `{COMMAND}`")
    if len(set(names) - {""}) < len([name for name in names if name]):
        raise UnreadableInput(f"{path}: duplicate column; run `{COMMAND}`")
    return line, delimiter, names


def _wrong_width(excess: int, delimiter: str) -> str:
    if excess < 0:
        return "fewer fields than the header: a truncated line"
    return (
        f"more fields than the header: {delimiter!r} inside a job name or comment? (sacct --delimiter='^|^' avoids it)"
    )
