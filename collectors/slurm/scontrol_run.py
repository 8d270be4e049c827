"""The columns of a run that a record of `scontrol show job` has: its job, its times and who it is of. Pure."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.slurm.room import room_columns
from gpuwatch.collectors.slurm.run_times import ESTIMATED, RUNNING_STATES, as_printed, run_times
from gpuwatch.collectors.slurm.sacct import rule_column
from gpuwatch.collectors.slurm.scontrol_records import first_word
from gpuwatch.collectors.slurm.text import (
    duration_us,
    integer,
    known,
    least_count,
    possible_times,
    task_ids,
)
from gpuwatch.core.clock import SECOND_US


def run_columns(fields: dict[str, str], state: str, cluster: str, tz: ZoneInfo) -> dict[str, Any]:
    """Columns shared by all allocations of a run.

    EndTime of a running job is that of its time limit, not an end. RunTime excludes suspended time.
    """
    running = state in RUNNING_STATES
    run_time_us = duration_us(first_word(fields, "RunTime"))
    printed = first_word(fields, "StartTime")
    # Of the two instants that a start can mean when clocks are set back, the limit shows which.
    until = None if running and len(possible_times(printed, tz)) < 2 else first_word(fields, "EndTime")
    length_us = duration_us(first_word(fields, "TimeLimit")) if running else run_time_us
    times = run_times(first_word(fields, "SubmitTime"), printed, until, length_us, tz)
    submit_us, start_us, end_us = times[:3]
    assert start_us is not None
    suspend_us = _since(start_us, first_word(fields, "SuspendTime"), tz)
    end_us = None if running else end_us
    suspended_us: int | None = 0
    if suspend_us is not None:
        before_us = _seconds_us(first_word(fields, "SecsPreSuspend"))
        if end_us is not None and run_time_us is not None:
            suspended_us = max(0, end_us - start_us - run_time_us)
        else:
            suspended_us = None if before_us is None else max(0, suspend_us - start_us - before_us)
    evidence_us = end_us if end_us is not None else start_us + (run_time_us or 0) + (suspended_us or 0)
    # What the job held before it released some of its nodes is in accounting.
    start_us = min(max(start_us, _since(start_us, first_word(fields, "ResizeTime"), tz) or start_us), evidence_us)
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "scontrol",
        "job_id": job_ids(fields)[0],
        "run_key": f"{fields['JobId']}@{start_us}",
        "submit_us": submit_us,
        "start_us": start_us,
        "end_us": end_us,
        "evidence_us": evidence_us,
        "state": state,
        "user_name": user_of(fields),
        "account": stated(fields, "Account"),
        "queue": stated(fields, "Partition"),
        "qos": stated(fields, "QOS"),
        "name": fields.get("JobName") or None,
        "suspended_us": suspended_us,
        "labels": ESTIMATED if times.guessed else {},
        **rule_column(first_word(fields, "Features")),
        **room_columns(
            first_word(fields, "AllocTRES") or first_word(fields, "TRES"),
            least_count(first_word(fields, "NumNodes")) or 1,
        ),
        **as_printed(first_word(fields, "StartTime"), tz),
    }


def _since(start_us: int, text: str | None, tz: ZoneInfo) -> int | None:
    """The first instant after the start that a printed time can mean, else any."""
    readings = sorted(possible_times(text, tz))
    return next((us for us in readings if us >= start_us), readings[0] if readings else None)


def job_ids(fields: dict[str, str]) -> list[str]:
    """Job ids as sacct prints them: plain, `array_task` (several for a pending range), or `het+offset`."""
    array, task = first_word(fields, "ArrayJobId"), first_word(fields, "ArrayTaskId")
    if array and task and task != "N/A":
        return task_ids(array, task)
    for name in ("Het", "Pack"):
        if (leader := first_word(fields, f"{name}JobId")) and (offset := first_word(fields, f"{name}JobOffset")):
            return [f"{leader}+{offset}"]
    return [fields["JobId"]]


def stated(fields: dict[str, str], key: str) -> str | None:
    return known(first_word(fields, key))


def user_of(fields: dict[str, str]) -> str | None:
    """`alice(1001)` -> alice."""
    return known((first_word(fields, "UserId") or "").partition("(")[0])


def _seconds_us(text: str | None) -> int | None:
    return None if (seconds := integer(text)) is None else seconds * SECOND_US
