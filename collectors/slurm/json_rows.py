"""Rows of the controller's jobs and nodes in Slurm's JSON, versions 21.08 to 25.11. Pure."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from gpuwatch.collectors.shared.json_fields import Malformed, Object, mapping, string
from gpuwatch.collectors.shared.records import Row
from gpuwatch.collectors.slurm.json_values import count_of, job_number, moment_us, states_of, texts
from gpuwatch.collectors.slurm.node import node_row
from gpuwatch.collectors.slurm.room import node_numbers, room_columns
from gpuwatch.collectors.slurm.run_times import RUNNING_STATES, check_span
from gpuwatch.collectors.slurm.sacct import (
    allocation_rows,
    constraint_rule,
    located_allocation_rows,
    pending_rows,
    rule_column,
)
from gpuwatch.collectors.slurm.shares import gres_held, requested_shares, tres_held
from gpuwatch.collectors.slurm.text import (
    MAX_DEVICES,
    Gpus,
    array_size,
    comment_labels,
    expand_hostlist,
    gres_gpus,
    known,
    task_ids,
    tres_gpus,
)
from gpuwatch.collectors.slurm.workload import PENDING_STATES, Facts, workload_rows
from gpuwatch.core.clock import DAY_US, SECOND_US
from gpuwatch.core.model import Source

SHOWN_FIRST = ("COMPLETING", "CONFIGURING", "RESIZING", "REQUEUED", "STOPPED", "SIGNALING")
"""Flags that `scontrol` prints instead of the base state."""

LONGEST_US = 10 * 366 * DAY_US
SKEW_US = 30 * SECOND_US
"""How far Slurm's clock may be ahead of ours."""


def controller_rows(job: Object, cluster: str, now_us: int | None = None) -> list[Row]:
    """`claim` and `pending` rows of a job of `squeue --json` or of slurmrestd's /slurm.

    A row's `kind` is the command whose text has the same information: `scontrol` with devices by node, `sacct` with
    totals only. This way two records of one run are never added up. `now_us` is the time of the request, if known.
    Raises ValueError.
    """
    state = states_of(job.get("job_state"))
    if not state:
        raise Malformed("job_state is missing")
    if PENDING_STATES & set(state):
        return _pending(job, cluster)
    nodes, start_us = known(string(job, "nodes")), moment_us(job, "start_time")
    if nodes is None or start_us is None:
        return []  # cancelled while pending: its times are those of the cancellation
    running = "COMPLETING" not in state and bool({*RUNNING_STATES, "RESIZING"} & set(state))
    # The end time of a running job is its time limit.
    end_us = None if running else moment_us(job, "end_time")
    if not running and (end_us is None or _requeued(job, state, now_us)):
        return []
    if end_us is not None:
        check_span(start_us, end_us)
    run = _run(job, cluster, _shown_state(state), start_us, end_us)
    return _allocations(job, run, nodes)


def _allocations(job: Object, run: dict[str, Any], nodes: str) -> list[Row]:
    """The `claim` rows of a run, from the best account of its devices that the job has."""
    labels = comment_labels(string(job, "comment"))
    if located := _located(job, nodes):
        return located_allocation_rows(run | {"kind": "scontrol"}, located, labels)
    if total := _detail_total(job) or tres_held(string(job, "tres_alloc_str") or ""):
        return allocation_rows(run, total, nodes, labels)
    # At a site that does not account for GPUs, an ended job only has what it requested.
    requested = _requested_by_options(job) or _requested_shares(job)
    return allocation_rows(run, requested, nodes, labels | {"gpus": "requested"}) if requested else []


def workload_from_json(job: Object, rows: list[Row], cluster: str, now_us: int | None = None) -> list[Row]:
    """The `workload` row of a job with the allocations or requests `rows`; none for a job without GPUs.

    Raises ValueError.
    """
    states = states_of(job.get("job_state"))
    state = "REQUEUED" if _requeued(job, states, now_us) else _shown_state(states)
    ids, waits = _job_ids(job), state in PENDING_STATES
    array = string(job, "array_task_string") if count_of(job, "array_task_id") is None else None
    limit_min = count_of(job, "time_limit")
    facts = Facts(
        uid=f"{count_of(job, 'array_job_id')}_*" if array else ids[0],
        job_id=None if array else ids[0],
        name=string(job, "name"),
        state=state,
        reason=known(string(job, "state_reason")),
        user=known(string(job, "user_name")),
        account=known(string(job, "account")),
        partition=known(string(job, "partition")),
        qos=known(string(job, "qos")),
        priority=count_of(job, "priority"),
        nodes=count_of(job, "node_count"),
        nodes_min=count_of(job, "node_count"),
        tasks=count_of(job, "tasks"),
        array_tasks=array_size(array) if array else None,
        submit_us=moment_us(job, "submit_time"),
        eligible_us=moment_us(job, "eligible_time"),
        start_us=None if waits or known(string(job, "nodes")) is None else moment_us(job, "start_time"),
        end_us=moment_us(job, "end_time"),
        preempt_us=moment_us(job, "preempt_time"),
        restarts=count_of(job, "restart_cnt"),
        dependency=known(string(job, "dependency")),
        reservation=known(string(job, "resv_name")),
        time_limit_s=limit_min * 60 if limit_min is not None else None,
        message=known(string(job, "state_description")),
    )
    return workload_rows(facts, rows, _requested(job), cluster, None)


def node_from_json(node: Object, source: Source, tz: ZoneInfo) -> Row:
    """The `node` row of a node of `sinfo --json` (22.05) or of slurmrestd's /nodes. Raises ValueError."""
    name = string(node, "name")
    if name is None or not name.strip():
        raise Malformed("name is missing")
    state = states_of(node.get("state")) + states_of(node.get("state_flags"))
    since = moment_us(node, "reason_changed_at")
    fields = {
        "NodeName": name,
        "State": "+".join(state),
        "Reason": (string(node, "reason") or "") + (f" [@{since // SECOND_US}]" if since else ""),
        "Partitions": ",".join(texts(node, "partitions")),
        "ActiveFeatures": ",".join(texts(node, "active_features")),
        "AvailableFeatures": ",".join(texts(node, "features")),
    }
    fields |= node_numbers(node)
    if booted := moment_us(node, "boot_time"):
        fields["BootTime"] = str(booted // SECOND_US)
    if node.get("gres") is not None:
        fields["Gres"] = string(node, "gres") or ""
    return node_row(fields, source, tz)


def _requeued(job: Object, state: list[str], now_us: int | None) -> bool:
    """Whether a job was requeued while its processes are still ending; its times then estimate the next run.

    Slurm 22.05 reports an end in the future, up to 136 years from now; other versions report none.
    """
    if "COMPLETING" not in state:
        return False
    start_us, end_us = moment_us(job, "start_time") or 0, moment_us(job, "end_time")
    return end_us is None or end_us - start_us >= LONGEST_US or (now_us is not None and end_us > now_us + SKEW_US)


def _shown_state(states: list[str]) -> str:
    """The state that `scontrol` would print."""
    return next((flag for flag in SHOWN_FIRST if flag in states), states[0])


def _run(job: Object, cluster: str, state: str, start_us: int, end_us: int | None) -> dict[str, Any]:
    """Columns shared by all allocations of a run."""
    changed_us = moment_us(job, "suspend_time")
    suspended_us: int | None = 0
    if changed_us is not None:
        ran_us = count_of(job, "pre_sus_time")
        suspended_us = None if ran_us is None else max(0, changed_us - start_us - ran_us * SECOND_US)
    # What the job held before it released some of its nodes is in accounting.
    start_us = max(start_us, moment_us(job, "resize_time") or start_us)
    seen = [moment_us(job, key) for key in ("suspend_time", "resize_time", "preempt_time", "last_sched_evaluation")]
    return {
        "cluster": cluster,
        "scheduler": "slurm",
        "kind": "sacct",
        "job_id": _job_ids(job)[0],
        "run_key": f"{job_number(job)}@{start_us}",
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
        **rule_column(string(job, "features")),
        **room_columns(string(job, "tres_alloc_str"), count_of(job, "node_count") or 1),
    }


def _pending(job: Object, cluster: str) -> list[Row]:
    """Rows of a pending request. Its start is an estimate; the last evaluation is the last time it was considered."""
    seen = [moment_us(job, key) for key in ("submit_time", "accrue_time", "last_sched_evaluation")]
    request = {
        "cluster": cluster,
        "scheduler": "slurm",
        "submit_us": moment_us(job, "submit_time"),
        "evidence_us": max((us for us in seen if us is not None), default=None),
        "node_count": count_of(job, "node_count"),
        "user_name": known(string(job, "user_name")),
        "account": known(string(job, "account")),
        "queue": known(string(job, "partition")),
        "reason": known(string(job, "state_reason")),
        "node_rule": constraint_rule(string(job, "features")),
        **room_columns(string(job, "tres_req_str")),
    }
    shares = requested_shares(string(job, "tres_req_str") or "") or requested_shares(
        string(job, "tres_per_node") or "", count_of(job, "node_count") or 1
    )
    return pending_rows(request, _job_ids(job), _requested(job) or shares)


def _requested(job: Object) -> tuple[Gpus, ...]:
    return tres_gpus(string(job, "tres_req_str") or "") or _requested_by_options(job)


def _requested_by_options(job: Object) -> tuple[Gpus, ...]:
    """GPUs requested by a job's options; options per socket only count where the number of sockets is known."""
    nodes = count_of(job, "node_count")
    factors = {
        "tres_per_job": 1,
        "tres_per_node": nodes,
        "tres_per_socket": (nodes or 0) * (count_of(job, "sockets_per_node") or 0),
        "tres_per_task": count_of(job, "tasks"),
    }
    for key, factor in factors.items():
        if factor and (each := gres_gpus(string(job, key) or "")):
            _check_count(max(group.number for group in each) * factor)
            return tuple(group._replace(number=group.number * factor) for group in each)
    return ()


def _requested_shares(job: Object) -> tuple[Gpus, ...]:
    """The shares of GPUs that a job asked for on each node."""
    nodes = count_of(job, "node_count") or 1
    found = [group for group in gres_held(string(job, "tres_per_node") or "") if group.shares is not None]
    _check_count(max((group.shares or 0 for group in found), default=0) * nodes)
    return tuple(group._replace(shares=(group.shares or 0) * nodes) for group in found)


def _located(job: Object, nodes: str) -> list[tuple[str, Gpus]]:
    """Devices by node: `gres_detail` has one text per allocated node. Empty when their numbers differ."""
    details = texts(job, "gres_detail", empty=True)
    if not any(details):
        return []
    names = _allocated_names(mapping(job, "job_resources"))
    if len(names) != len(details):
        names = list(expand_hostlist(nodes))
    if len(names) != len(details):
        return []
    return [(name, group) for name, text in zip(names, details, strict=True) for group in gres_held(text)]


def _detail_total(job: Object) -> tuple[Gpus, ...]:
    """All devices of `gres_detail` by type, for when they cannot be assigned to nodes."""
    total: dict[tuple[str | None, str | None, bool], int] = {}
    for text in texts(job, "gres_detail"):
        for group in gres_held(text):
            key = group.gpu_type, group.profile, group.shares is not None
            total[key] = total.get(key, 0) + (group.number if group.shares is None else group.shares)
    _check_count(max(total.values(), default=0))
    return tuple(
        Gpus(kind, profile, 1, None, number) if shared else Gpus(kind, profile, number)
        for (kind, profile, shared), number in total.items()
    )


def _check_count(gpus: int) -> None:
    if gpus > MAX_DEVICES:
        raise ValueError(f"GPU count is not a number up to {MAX_DEVICES}")


def _allocated_names(resources: Object) -> list[str]:
    """Names of the allocated nodes in Slurm's order: a list of objects whose location differs between versions."""
    nested = resources.get("nodes")
    nodes = nested.get("allocation") if isinstance(nested, dict) else resources.get("allocated_nodes")
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        return []
    names = [string(node, "name") or string(node, "nodename") for node in nodes]
    return [name for name in names if name]


def _job_ids(job: Object) -> list[str]:
    """Job ids as sacct prints them: plain, `array_task` (several for a pending range), or `het+offset`."""
    array, task = count_of(job, "array_job_id"), count_of(job, "array_task_id")
    if array and task is not None:
        return [f"{array}_{task}"]
    if array and (tasks := string(job, "array_task_string")):
        return task_ids(str(array), tasks)
    leader, offset = count_of(job, "het_job_id"), count_of(job, "het_job_offset")
    return [f"{leader}+{offset}" if leader and offset is not None else str(job_number(job))]
