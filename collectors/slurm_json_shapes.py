"""One job or node of Slurm's JSON, versions 21.08 to 25.11, as rows. Pure."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.clock import SECOND_US
from gpuwatch.collectors.kubernetes_json import Malformed, Object, mapping, mappings, string
from gpuwatch.collectors.slurm_accounting import RUNNING_STATES, claims, job_rows, pending_rows
from gpuwatch.collectors.slurm_control import PENDING_STATES
from gpuwatch.collectors.slurm_files import Row
from gpuwatch.collectors.slurm_node import node_row
from gpuwatch.collectors.slurm_text import (
    MAX_DEVICES,
    Gpus,
    comment_labels,
    expand_hostlist,
    gres_gpus,
    known,
    labels_json,
    task_ids,
    tres_gpus,
)
from gpuwatch.model import Source

MAX_NUMBER = 99_999_999_999
"""Eleven digits: the last second that a time can have, and more than anything else that is read."""
NO_VALUE = frozenset(size - less for size in (1 << 32, 1 << 64) for less in (1, 2))
"""INFINITE and NO_VAL of 32 and 64 bits: versions before 23.11 print them as numbers."""

SHOWN_FIRST = ("COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "STOPPED", "SIGNALING")
"""Flags that `scontrol` prints instead of the state they come with."""


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
        "alloctres": _tres_text(tres, "allocated"),
        "reqtres": _tres_text(tres, "requested"),
        "user": string(job, "user") or string(mapping(job, "association"), "user") or "",
        "account": string(job, "account") or "",
        "partition": string(job, "partition") or "",
        "qos": string(job, "qos") or "",
        "jobname": string(job, "name") or "",
        "reason": string(mapping(job, "state"), "reason") or "",
        "comment": string(mapping(job, "comment"), "job") or "",
    }
    return job_rows(fields, cluster, tz)


def controller_rows(job: Object, cluster: str) -> list[Row]:
    """`claim` and `pending` rows of a job of `squeue --json` or of slurmrestd's /slurm.

    A row's `kind` is the command whose text says the same: `scontrol` where the devices of each node are told, `sacct`
    where only totals are. So two records of one run never add up. Raises ValueError.
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
    if end_us is None and not running:
        return []  # requeued, and its processes end: its start is an estimate of the next run
    if end_us is not None and end_us < start_us:
        raise ValueError("end precedes start")
    run = _run(job, cluster, shown, start_us, end_us)
    labels = comment_labels(string(job, "comment"))
    if located := _located(job, nodes):
        shared = run | {"kind": "scontrol", "labels": labels_json(labels)}
        return [("claim", shared | _device_columns(node, held)) for node, held in located]
    if total := _detail_total(job) or tres_gpus(string(job, "tres_alloc_str") or ""):
        return claims(run, total, nodes, labels)
    # A site that does not account for GPUs tells only what was asked for, once the job has ended.
    return claims(run, asked, nodes, labels | {"gpus": "requested"}) if (asked := _asked(job)) else []


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
        "Partitions": ",".join(_texts(node, "partitions")),
        "ActiveFeatures": ",".join(_texts(node, "active_features")),
    }
    if node.get("gres") is not None:
        fields["Gres"] = string(node, "gres") or ""
    return node_row(fields, source, tz)


def number_of(value: Any) -> int | None:
    """The whole number of `5`, `5.0` or `{"set": true, "infinite": false, "number": 5}`; None where not set.

    Infinite, negative numbers and Slurm's markers for "no value" are not set either. Raises Malformed for other shapes.
    """
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise Malformed("a number is not one")
    if value < 0 or value in NO_VALUE:
        return None
    if value > MAX_NUMBER:
        raise Malformed(f"a number is larger than {MAX_NUMBER}")
    return int(value)


def moment_us(parent: Object, key: str) -> int | None:
    """The time under `key` in microseconds, None for 0 and where not set. Raises Malformed."""
    seconds = number_of(parent.get(key))
    return seconds * SECOND_US if seconds else None


def words(value: Any) -> list[str]:
    """Words of a state, a text in old versions and a list in newer ones, in upper case. Raises Malformed."""
    listed = value if isinstance(value, list) else [value]
    texts = [string({"state": word}, "state") or "" for word in listed]
    return [text.strip().upper() for text in texts if text.strip()]


def _run(job: Object, cluster: str, state: str, start_us: int, end_us: int | None) -> dict[str, Any]:
    """Columns that all claims of one run share."""
    changed_us = moment_us(job, "suspend_time")
    suspended_us: int | None = 0
    if changed_us is not None:
        ran_us = _count(job, "pre_sus_time")
        suspended_us = None if ran_us is None else max(0, changed_us - start_us - ran_us * SECOND_US)
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
    """GPUs that a job's options ask for; options per socket say nothing, as nobody tells the sockets."""
    times = {
        "tres_per_job": 1,
        "tres_per_node": _count(job, "node_count"),
        "tres_per_task": _count(job, "tasks"),
    }
    for key, factor in times.items():
        if factor and (each := gres_gpus(string(job, key) or "")):
            _check_count(max(held.number for held in each) * factor)
            return tuple(held._replace(number=held.number * factor) for held in each)
    return ()


def _located(job: Object, nodes: str) -> list[tuple[str, Gpus]]:
    """Devices by node: one text of `gres_detail` a node, in the order of the allocation. Empty when they do not fit."""
    details = _texts(job, "gres_detail", empty=True)
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
    for text in _texts(job, "gres_detail"):
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


def _tres_text(tres: Object, key: str) -> str:
    """The GPUs of a list of {type, name, id, count} as the text that `sacct -P` prints."""
    told = []
    for item in mappings(tres, key):
        name = string(item, "name") or ""
        if string(item, "type") == "gres" and name.split(":")[0] == "gpu" and (count := number_of(item.get("count"))):
            told.append(f"gres/{name}={count}")
    return ",".join(told)


def _count(parent: Object, key: str) -> int | None:
    number = number_of(parent.get(key))
    if number is not None and number >= 1 << 31 and key in ("node_count", "allocation_nodes"):
        raise Malformed(f"{key} is not a count of nodes")
    return number


def _epoch(parent: Object, key: str) -> str:
    number = number_of(parent.get(key))
    return str(number) if number else ""


def _texts(parent: Object, key: str, empty: bool = False) -> list[str]:
    """A list of texts, or a text with commas outside parentheses kept whole. Raises Malformed."""
    value = parent.get(key)
    listed = value if isinstance(value, list) else [value] if value else []
    texts = [string({key: item}, key) or "" for item in listed]
    return texts if empty else [text for text in texts if text]
