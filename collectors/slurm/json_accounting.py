"""Rows of the accounting database's jobs in Slurm's JSON, versions 21.08 to 25.11. Pure."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import Object, mapping, string
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.json_values import count_of, job_number, number_of, states_of, tres_text
from gpuwatch.collectors.slurm.sacct import job_rows


def accounting_rows(job: Object, cluster: str, tz: ZoneInfo) -> list[Row]:
    """`claim` and `pending` rows of a job of `sacct --json` or of slurmrestd's /slurmdb; its steps are skipped.

    Raises ValueError.
    """
    time, tres, state = mapping(job, "time"), mapping(job, "tres"), states_of(mapping(job, "state").get("current"))
    number = job_number(job)
    fields = {
        "jobid": _printed_id(number, mapping(job, "array"), mapping(job, "het")),
        "jobidraw": str(number),
        "state": state[0] if state else "",
        "submit": _epoch(time, "submission"),
        "eligible": _epoch(time, "eligible"),
        "start": _epoch(time, "start"),
        "end": _epoch(time, "end"),
        "elapsedraw": _epoch(time, "elapsed") or "0",
        "suspended": f"0:{count_of(time, 'suspended') or 0}",
        "planned": "" if (waited := count_of(time, "planned")) is None else f"0:{waited}",
        "nodelist": string(job, "nodes") or "",
        "nnodes": str(count_of(job, "allocation_nodes") or ""),
        "alloctres": tres_text(tres, "allocated"),
        "reqtres": tres_text(tres, "requested"),
        "user": string(job, "user") or string(mapping(job, "association"), "user") or "",
        "account": string(job, "account") or "",
        "partition": string(job, "partition") or "",
        "qos": string(job, "qos") or "",
        "jobname": string(job, "name") or "",
        "reason": string(mapping(job, "state"), "reason") or "",
        "comment": string(mapping(job, "comment"), "job") or "",
    }
    return job_rows(fields, cluster, tz)


def _printed_id(number: int, array: Object, het: Object) -> str:
    """The JobID column of `sacct -P` for a job of the accounting database."""
    leader, task = count_of(array, "job_id"), count_of(array, "task_id")
    if leader and task is not None:
        return f"{leader}_{task}"
    if leader and (tasks := string(array, "task")):
        return f"{leader}_[{tasks.strip('[]')}]"
    first, offset = count_of(het, "job_id"), count_of(het, "job_offset")
    return f"{first}+{offset}" if first and offset is not None else str(number)


def _epoch(parent: Object, key: str) -> str:
    number = number_of(parent.get(key))
    return str(number) if number else ""
