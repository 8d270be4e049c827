"""The state of a Ray head as claim, pending, workload and node rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from gpuwatch.collectors.ray.gpu_holders import ENDED, HELD, WAITING, Unit, units
from gpuwatch.collectors.ray.state import Job, Node, Responses, jobs, nodes
from gpuwatch.collectors.shared.records import Row
from gpuwatch.core.model import Rejects

USER_KEYS = ("gpuwatch.io/user", "user", "username", "owner")
QUEUE_KEYS = ("gpuwatch.io/queue", "queue")
STATES = {
    "PENDING": "pending",
    "RUNNING": "running",
    "SUCCEEDED": "finished",
    "FAILED": "finished",
    "STOPPED": "finished",
}
SESSION = "@"
"""Separates job and session in a run key: job ids are reused after a restart of the head."""


@dataclass(frozen=True)
class HeadState:
    """A head at one moment."""

    jobs: dict[str, Job]
    by_driver: dict[str, Job]
    nodes: dict[str, Node]
    units: list[Unit]
    session: str
    at_us: int | None

    def job_of(self, unit: Unit) -> tuple[str | None, Job | None]:
        """The key of a unit's job, and the job if it is listed."""
        if unit.submission:
            return unit.submission, self.jobs.get(unit.submission)
        job = self.by_driver.get(unit.driver or "")
        return (job.key if job else unit.driver), job


def head_state(responses: Responses, path: str, rejects: Rejects) -> HeadState:
    """Combines all responses. Without a time of the responses, the latest time in them is used."""
    all_jobs, all_nodes = jobs(responses), nodes(responses)
    found = list(units(responses, path, rejects))
    head = next((str(item["node_id"]) for item in responses.of("node") if item.get("is_head_node") is True), "")
    return HeadState(
        {job.key: job for job in all_jobs},
        {job.driver: job for job in all_jobs if job.driver},
        all_nodes,
        found,
        responses.session or head[:16],
        responses.at_us or _latest_us(found, all_jobs, all_nodes.values()),
    )


def _latest_us(found: Iterable[Unit], all_jobs: Iterable[Job], all_nodes: Iterable[Node]) -> int | None:
    times = [at for unit in found for at in (unit.requested_us, unit.start_us, unit.end_us)]
    times += [at for job in all_jobs for at in (job.start_us, job.end_us)]
    times += [at for node in all_nodes for at in (node.start_us, node.end_us)]
    return max((at for at in times if at is not None), default=None)


def rows(head: HeadState, path: str, rejects: Rejects) -> Iterator[Row]:
    """All rows of a head, without their cluster; a unit without the required times or node is rejected by name."""
    waiting: dict[str, list[Unit]] = {}
    held: dict[str, float] = {}
    for unit in head.units:
        key, job = head.job_of(unit)
        if key is None:
            rejects.add(f"{unit.kind} without a job", path, 0, unit.uid)
            continue
        if unit.state == WAITING:
            waiting.setdefault(key, []).append(unit)
        elif row := _allocation(head, unit, key, job, path, rejects):
            yield "claim", row
        if unit.state == HELD:
            held[key] = held.get(key, 0) + unit.gpus
    for key, queued in waiting.items():
        job = head.jobs.get(key)
        yield "pending", _pending(head, key, job, queued)
        for uid, group in _gangs(queued):
            yield "workload", _gang(head, key, job, uid, group)
    for job in head.jobs.values():
        count = ceil(held.get(job.key, 0)) + _demand(waiting.get(job.key, ()))
        yield "workload", _job(head, job, count)
    yield from (("node", row) for row in _nodes(head))


def _job_columns(key: str, job: Job | None) -> dict[str, Any]:
    metadata = job.metadata if job else {}
    return {
        "scheduler": "ray",
        "job_id": key,
        "submit_us": job.start_us if job else None,
        "user_name": _first(metadata, USER_KEYS),
        "queue": _first(metadata, QUEUE_KEYS),
    }


def _labels(job: Job | None) -> str | None:
    return json.dumps(job.metadata, separators=(",", ":")) if job and job.metadata else None


def _first(metadata: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((metadata[name] for name in names if metadata.get(name)), None)


def _allocation(
    head: HeadState, unit: Unit, key: str, job: Job | None, path: str, rejects: Rejects
) -> dict[str, Any] | None:
    """The `claim` row of a unit that holds or held GPUs, None if it is rejected or did not last."""
    node = head.nodes.get(unit.node_id or "")
    if node is None:
        if unit.start_us is not None:
            rejects.add(f"{unit.kind} on a node that is not listed", path, 0, f"{key} {unit.uid} {unit.node_id}")
        return None
    start, end = _start_us(head, unit, job, node), _end_us(unit, job, node)
    if start is None or (unit.state == ENDED and end is None):
        rejects.add(f"{unit.kind} has ended, but its {'end' if start else 'start'} is unknown", path, 0, unit.uid)
        return None
    if end is not None and end <= start:
        return None
    return _job_columns(key, job) | {
        "kind": "ray",
        "run_key": f"{key}{SESSION}{head.session}",
        "pod_uid": unit.uid,
        "node": node.host,
        "gpu_type": node.model,
        **_device_columns(unit, node),
        "start_us": start,
        "end_us": end,
        "evidence_us": end if end is not None else max(head.at_us or start, start),
        **_run_columns(unit, key, job),
    }


def _run_columns(unit: Unit, key: str, job: Job | None) -> dict[str, Any]:
    """State, name and labels of a job; for a unit without a known job, its own state and key."""
    if job is None:
        return {"state": unit.ray_state, "name": key, "labels": None}
    name = _first(job.metadata, ("job_name", "name")) or key
    return {"state": job.status or unit.ray_state, "name": name, "labels": _labels(job)}


def _start_us(head: HeadState, unit: Unit, job: Job | None, node: Node) -> int | None:
    """The start of a unit. A bundle that was moved has the start of its group, which may be before its node's."""
    start_us = unit.start_us
    if start_us is None and unit.state == HELD:
        start_us = job.start_us if job and job.start_us else head.at_us
    return start_us if start_us is None or node.start_us is None else max(start_us, node.start_us)


def _end_us(unit: Unit, job: Job | None, node: Node) -> int | None:
    """The end of a unit, or of its job where it has none of its own; that of its node if this was lost before."""
    ends = [] if node.alive else [node.end_us]
    if unit.state == ENDED:
        ends.append(unit.end_us or (None if unit.detached or job is None else job.end_us))
    return min((end for end in ends if end is not None), default=None)


def _device_columns(unit: Unit, node: Node) -> dict[str, Any]:
    uuids = [node.uuids[slot] for slot in unit.slots if slot < len(node.uuids)]
    has_uuids = bool(uuids) and len(uuids) == len(unit.slots) and all(uuid.startswith("GPU-") for uuid in uuids)
    return {
        "device_count": ceil(unit.gpus),
        "fraction": None if unit.gpus == ceil(unit.gpus) else unit.gpus,
        "device_indexes": None if has_uuids or not unit.slots else ",".join(map(str, unit.slots)),
        "gpus": ",".join(uuids) if has_uuids else None,
    }


def _demand(queued: Iterable[Unit]) -> int:
    """GPUs that a job waits for: all its bundles and actors plus the largest of its tasks, which run one by one."""
    tasks = [ceil(unit.gpus) for unit in queued if unit.kind == "task"]
    return sum(ceil(unit.gpus) for unit in queued if unit.kind != "task") + max(tasks, default=0)


def _pending(head: HeadState, key: str, job: Job | None, queued: list[Unit]) -> dict[str, Any]:
    since = [unit.requested_us for unit in queued if unit.requested_us is not None]
    columns = _job_columns(key, job)
    return columns | {
        "submit_us": min(since, default=columns["submit_us"]),
        "evidence_us": head.at_us,
        "device_count": _demand(queued),
        "reason": next((unit.ray_state for unit in queued if unit.ray_state), None),
    }


def _gangs(queued: list[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    """Placement groups with their waiting bundles, and single actors."""
    found: dict[str, list[Unit]] = {}
    for unit in queued:
        if unit.kind != "task":
            found.setdefault(unit.uid.partition("/")[0], []).append(unit)
    yield from found.items()


def _gang(head: HeadState, key: str, job: Job | None, uid: str, members: list[Unit]) -> dict[str, Any]:
    first = members[0]
    return _job_columns(key, job) | {
        "kind": "PlacementGroup" if first.kind == "group" else "Actor",
        "uid": f"{head.session}/{uid}",
        "name": first.name or uid,
        "pod_count": len(members),
        "min_count": len(members),
        "device_count": sum(ceil(unit.gpus) for unit in members),
        "submit_us": first.requested_us or (job.start_us if job else None),
        "state": "pending",
        "reason": first.ray_state,
        "labels": _labels(job),
        "observed_us": head.at_us,
    }


def _job(head: HeadState, job: Job, count: int) -> dict[str, Any]:
    state = STATES.get(job.status or "", None)
    return _job_columns(job.key, job) | {
        "kind": "Job",
        "uid": f"{head.session}/{job.key}",
        "name": _first(job.metadata, ("job_name", "name")) or job.key,
        "device_count": count if count and state != "finished" else None,
        "start_us": job.start_us if job.status != "PENDING" else None,
        "end_us": job.end_us,
        "state": state,
        "reason": job.status,
        "message": job.message if job.status in ("PENDING", "FAILED") else None,
        "labels": _labels(job),
        "observed_us": head.at_us,
    }


def _nodes(head: HeadState) -> Iterator[dict[str, Any]]:
    """One row per host with GPUs: a restarted head leaves dead nodes with the same host name."""
    hosts: dict[str, list[Node]] = {}
    for node in head.nodes.values():
        if node.gpus:
            hosts.setdefault(node.host, []).append(node)
    for host, known in sorted(hosts.items()):
        alive = [node for node in known if node.alive]
        last = max(alive or known, key=lambda node: (node.start_us or 0, node.node_id))
        yield {
            "scheduler": "ray",
            "node": host,
            "observed_us": head.at_us,
            "state": "up" if alive else "down",
            "since_us": last.start_us if alive else last.end_us,
            "reason": None if alive else "dead in Ray",
            "gpu_model": last.model,
            "devices": json.dumps({"": int(sum(node.gpus for node in alive or [last]))}),
            "sharing": "none",
        }
