"""One job or node of Slurm's JSON, versions 21.08 to 25.11, as rows. Pure."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, string
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.json_values import moment_us, number_of, texts, tres_text, words
from gpuwatch.collectors.slurm.node import node_row
from gpuwatch.collectors.slurm.sacct import RUNNING_STATES, claims, job_rows, pending_rows
from gpuwatch.collectors.slurm.text import (
    MAX_DEVICES,
    Gpus,
    array_size,
    check_span,
    comment_labels,
    expand_hostlist,
    gres_gpus,
    known,
    labels_json,
    task_ids,
    tres_gpus,
)
from gpuwatch.collectors.slurm.workload import PENDING_STATES, Facts, workload_rows
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.model import Source

SHOWN_FIRST = ("COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "STOPPED", "SIGNALING")
"""Flags that `scontrol` prints instead of the state they come with."""

LONGEST_US = 10 * 366 * DAY_US
SKEW_US = 30 * SECOND_US
"""How far Slurm's clock may be ahead of ours. Time limits are whole minutes."""


def accounting_rows(job: Object, cluster: str, tz: ZoneInfo) -> list[Row]:
    """`claim` and `pending` rows of a job of `sacct --json` or of slurmrestd's /slurmdb; its steps are not read.

    Raises ValueError.
    """
    time, tres, state = mapping(job, "time"), mapping(job, "tres"), words(mapping(job, "state").get("current"))
    number = _job_number(job)
    fields = {
        "jobid": _printed_id(number, mapping(job, "array"), mapping(job, "het")),
        "jobidraw": str(number),
        "state": state[0] if state else "",
        "submit": _epoch(time, "submission"),
        "eligible": _epoch(time, "eligible"),
        "start": _epoch(time, "start"),
        "end": _epoch(time, "end"),
        "elapsedraw": _epoch(time, "elapsed") or "0",
        "suspended": f"0:{_count(time, 'suspended') or 0}",
        "planned": "" if (waited := _count(time, "planned")) is None else f"0:{waited}",
        "nodelist": string(job, "nodes") or "",
        "nnodes": str(_count(job, "allocation_nodes") or ""),
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


def controller_rows(job: Object, cluster: str, now_us: int | None = None) -> list[Row]:
    """`claim` and `pending` rows of a job of `squeue --json` or of slurmrestd's /slurm.

    A row's `kind` is the command whose text says the same: `scontrol` where the devices of each node are told, `sacct`
    where only totals are. So two records of one run never add up. `now_us` is when Slurm was asked, where that is
    known. Raises ValueError.
    """
    state = words(job.get("job_state"))
    if not state:
        raise Malformed("job_state is missing")
    if PENDING_STATES & set(state):
        return _pending(job, cluster)
    nodes, start_us = known(string(job, "nodes")), moment_us(job, "start_time")
    if nodes is None or start_us is None:
        return []  # cancelled while it waited: its times are those of the cancellation
    shown = next((word for word in SHOWN_FIRST if word in state), state[0])
    running = "COMPLETING" not in state and bool({*RUNNING_STATES, "RESIZING"} & set(state))
    # The end of a running job is its time limit.
    end_us = None if running else moment_us(job, "end_time")
    if not running and _requeued(job, state, now_us):
        return []
    if not running and end_us is None:
        return []
    if end_us is not None:
        check_span(start_us, end_us)
    run = _run(job, cluster, shown, start_us, end_us)
    labels = comment_labels(string(job, "comment"))
    if located := _located(job, nodes):
        shared = run | {"kind": "scontrol", "labels": labels_json(labels)}
        return [("claim", shared | _device_columns(node, held)) for node, held in located]
    if total := _detail_total(job) or tres_gpus(string(job, "tres_alloc_str") or ""):
        return claims(run, total, nodes, labels)
    # A site that does not account for GPUs tells only what was asked for, once the job has ended.
    return claims(run, asked, nodes, labels | {"gpus": "requested"}) if (asked := _asked(job)) else []


def workload_of(job: Object, rows: list[Row], cluster: str, now_us: int | None = None) -> list[Row]:
    """The `workload` row of a job of the controller, whose other rows are `rows`; none for a job without GPUs.

    Raises ValueError.
    """
    listed = words(job.get("job_state"))
    shown = next((word for word in SHOWN_FIRST if word in listed), listed[0])
    if _requeued(job, listed, now_us):
        shown = "REQUEUED"
    ids, waits = _job_ids(job), bool({shown} & PENDING_STATES)
    array = string(job, "array_task_string") if _count(job, "array_task_id") is None else None
    limit_min = _count(job, "time_limit")
    facts = Facts(
        uid=f"{_count(job, 'array_job_id')}_*" if array else ids[0],
        job_id=None if array else ids[0],
        name=string(job, "name"),
        state=shown,
        reason=known(string(job, "state_reason")),
        user=known(string(job, "user_name")),
        account=known(string(job, "account")),
        partition=known(string(job, "partition")),
        qos=known(string(job, "qos")),
        priority=_count(job, "priority"),
        nodes=_count(job, "node_count"),
        nodes_min=_count(job, "node_count"),
        tasks=_count(job, "tasks"),
        array_tasks=array_size(array) if array else None,
        submit_us=moment_us(job, "submit_time"),
        eligible_us=moment_us(job, "eligible_time"),
        start_us=None if waits or known(string(job, "nodes")) is None else moment_us(job, "start_time"),
        end_us=moment_us(job, "end_time"),
        preempt_us=moment_us(job, "preempt_time"),
        restarts=_count(job, "restart_cnt"),
        dependency=known(string(job, "dependency")),
        reservation=known(string(job, "resv_name")),
        time_limit_s=limit_min * 60 if limit_min is not None else None,
        message=known(string(job, "state_description")),
    )
    asked = tres_gpus(string(job, "tres_req_str") or "") or _asked(job)
    return workload_rows(facts, rows, asked, cluster, None)


def node_of(node: Object, source: Source, tz: ZoneInfo) -> Row:
    """The `node` row of a node of `sinfo --json` (22.05) or of slurmrestd's /nodes. Raises ValueError."""
    name = string(node, "name")
    if name is None or not name.strip():
        raise Malformed("name is missing")
    state = words(node.get("state")) + words(node.get("state_flags"))
    since = moment_us(node, "reason_changed_at")
    fields = {
        "NodeName": name,
        "State": "+".join(state),
        "Reason": (string(node, "reason") or "") + (f" [@{since // SECOND_US}]" if since else ""),
        "Partitions": ",".join(texts(node, "partitions")),
        "ActiveFeatures": ",".join(texts(node, "active_features")),
    }
    if node.get("gres") is not None:
        fields["Gres"] = string(node, "gres") or ""
    return node_row(fields, source, tz)


def _requeued(job: Object, state: list[str], now_us: int | None) -> bool:
    """Whether a job was put back and its processes still end: its start and end are then guesses of the next run.

    22.05 guesses an end in the future, up to 136 years from now; others tell none.
    """
    if "COMPLETING" not in state:
        return False
    start_us, end_us = moment_us(job, "start_time") or 0, moment_us(job, "end_time")
    return end_us is None or end_us - start_us >= LONGEST_US or (now_us is not None and end_us > now_us + SKEW_US)


def _run(job: Object, cluster: str, state: str, start_us: int, end_us: int | None) -> dict[str, Any]:
    """Columns that all claims of one run share."""
    changed_us = moment_us(job, "suspend_time")
    suspended_us: int | None = 0
    if changed_us is not None:
        ran_us = _count(job, "pre_sus_time")
        suspended_us = None if ran_us is None else max(0, changed_us - start_us - ran_us * SECOND_US)
    # What it held before it gave nodes back is told by accounting.
    start_us = max(start_us, moment_us(job, "resize_time") or start_us)
    seen = [moment_us(job, key) for key in ("suspend_time", "resize_time", "preempt_time", "last_sched_evaluation")]
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "sacct",
        "job_id": _job_ids(job)[0],
        "run_key": f"{_job_number(job)}@{start_us}",
        "submit_us": moment_us(job, "submit_time"),
        "start_us": start_us,
        "end_us": end_us,
        "evidence_us": end_us if end_us is not None else max([start_us, *(us for us in seen if us is not None)]),
        "state": state,
        "user_name": known(string(job, "user_name")),
        "account": known(string(job, "account")),
        "queue": known(string(job, "partition")),
        "qos": known(string(job, "qos")),
        "name": string(job, "name"),
        "suspended_us": suspended_us,
    }


def _pending(job: Object, cluster: str) -> list[Row]:
    """Rows of a waiting request. Its start is an estimate; the last look at it is the last evaluation."""
    seen = [moment_us(job, key) for key in ("submit_time", "accrue_time", "last_sched_evaluation")]
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": moment_us(job, "submit_time"),
        "evidence_us": max((us for us in seen if us is not None), default=None),
        "node_count": _count(job, "node_count"),
        "user_name": known(string(job, "user_name")),
        "account": known(string(job, "account")),
        "queue": known(string(job, "partition")),
        "reason": known(string(job, "state_reason")),
    }
    return pending_rows(request, _job_ids(job), tres_gpus(string(job, "tres_req_str") or "") or _asked(job))


def _asked(job: Object) -> tuple[Gpus, ...]:
    """GPUs that a job's options ask for; options per socket say nothing where nobody tells the sockets."""
    nodes = _count(job, "node_count")
    times = {
        "tres_per_job": 1,
        "tres_per_node": nodes,
        "tres_per_socket": (nodes or 0) * (_count(job, "sockets_per_node") or 0),
        "tres_per_task": _count(job, "tasks"),
    }
    for key, factor in times.items():
        if factor and (each := gres_gpus(string(job, key) or "")):
            _check_count(max(held.number for held in each) * factor)
            return tuple(held._replace(number=held.number * factor) for held in each)
    return ()


def _located(job: Object, nodes: str) -> list[tuple[str, Gpus]]:
    """Devices by node: one text of `gres_detail` a node, in the order of the allocation. Empty when they do not fit."""
    details = texts(job, "gres_detail", empty=True)
    if not any(details):
        return []
    names = _allocated_names(mapping(job, "job_resources"))
    if len(names) != len(details):
        names = list(expand_hostlist(nodes))
    if len(names) != len(details):
        return []
    return [(name, held) for name, text in zip(names, details, strict=True) for held in gres_gpus(text)]


def _detail_total(job: Object) -> tuple[Gpus, ...]:
    """All devices of `gres_detail` by type, where they cannot be told apart by node."""
    total: dict[tuple[str | None, str | None], int] = {}
    for text in texts(job, "gres_detail"):
        for held in gres_gpus(text):
            key = held.gpu_type, held.profile
            total[key] = total.get(key, 0) + held.number
    _check_count(max(total.values(), default=0))
    return tuple(Gpus(*key, number) for key, number in total.items())


def _check_count(gpus: int) -> None:
    if gpus > MAX_DEVICES:
        raise ValueError(f"GPU count is not a number up to {MAX_DEVICES}")


def _allocated_names(resources: Object) -> list[str]:
    """Names of the allocated nodes in Slurm's order: a list of objects whose place differs between versions."""
    told = resources.get("nodes")
    listed = told.get("allocation") if isinstance(told, dict) else resources.get("allocated_nodes")
    if not isinstance(listed, list) or not all(isinstance(node, dict) for node in listed):
        return []
    names = [string(node, "name") or string(node, "nodename") for node in listed]
    return [name for name in names if name]


def _device_columns(node: str, held: Gpus) -> dict[str, Any]:
    return {
        "node": node,
        "gpu_type": held.gpu_type,
        "profile": held.profile,
        "device_count": held.number,
        "device_indexes": held.indexes,
    }


def _job_ids(job: Object) -> list[str]:
    """Job ids as sacct prints them: plain, `array_task` (several while a range waits), or `het+offset`."""
    array, task = _count(job, "array_job_id"), _count(job, "array_task_id")
    if array and task is not None:
        return [f"{array}_{task}"]
    if array and (tasks := string(job, "array_task_string")):
        return task_ids(str(array), tasks)
    leader, offset = _count(job, "het_job_id"), _count(job, "het_job_offset")
    return [f"{leader}+{offset}" if leader and offset is not None else str(_job_number(job))]


def _printed_id(number: int, array: Object, het: Object) -> str:
    """The JobID column of `sacct -P` for a job of the accounting database."""
    leader, task = _count(array, "job_id"), _count(array, "task_id")
    if leader and task is not None:
        return f"{leader}_{task}"
    if leader and (tasks := string(array, "task")):
        return f"{leader}_[{tasks.strip('[]')}]"
    first, offset = _count(het, "job_id"), _count(het, "job_offset")
    return f"{first}+{offset}" if first and offset is not None else str(number)


def _job_number(job: Object) -> int:
    number = _count(job, "job_id")
    if not number:
        raise Malformed("job_id is not a job number")
    return number


def _count(parent: Object, key: str) -> int | None:
    number = number_of(parent.get(key))
    if number is not None and number >= 1 << 31 and key in ("node_count", "allocation_nodes"):
        raise Malformed(f"{key} is not a count of nodes")
    return number


def _epoch(parent: Object, key: str) -> str:
    number = number_of(parent.get(key))
    return str(number) if number else ""
