"""What a Ray head said, as claim, pending, workload and node rows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from gpuwatch.collectors.ray.gpu_holders import ENDED, HELD, WAITING, Unit, units
from gpuwatch.collectors.ray.state import Job, Node, Told, jobs, nodes
from gpuwatch.core.model import Rejects

Row = tuple[str, dict[str, Any]]
"""A store table and one row of it, without its cluster."""

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
"""Between job and session in a run key: job ids begin anew with each start of a head."""


@dataclass(frozen=True)
class Picture:
    """One head at one instant."""

    jobs: dict[str, Job]
    by_driver: dict[str, Job]
    nodes: dict[str, Node]
    units: list[Unit]
    session: str
    at_us: int | None

    def job_of(self, unit: Unit) -> tuple[str | None, Job | None]:
        """Key of the job that a unit belongs to, and the job where it is listed."""
        if unit.submission:
            return unit.submission, self.jobs.get(unit.submission)
        job = self.by_driver.get(unit.driver or "")
        return (job.key if job else unit.driver), job


def picture(told: Told, path: str, rejects: Rejects) -> Picture:
    """What all the answers say together. Its time is the newest that any of them tells, where none says when it is."""
    known, machines = jobs(told), nodes(told)
    found = list(units(told, path, rejects))
    head = next((str(item["node_id"]) for item in told.of("node") if item.get("is_head_node") is True), "")
    times = [at for unit in found for at in (unit.asked_us, unit.start_us, unit.end_us)]
    times += [at for job in known for at in (job.start_us, job.end_us)]
    times += [at for node in machines.values() for at in (node.start_us, node.end_us)]
    return Picture(
        {job.key: job for job in known},
        {job.driver: job for job in known if job.driver},
        machines,
        found,
        told.session or head[:16],
        told.at_us or max((at for at in times if at is not None), default=None),
    )


def rows(seen: Picture, path: str, rejects: Rejects) -> Iterator[Row]:
    """Every row of a picture; a holder without the times or the node it needs is refused by name."""
    waiting: dict[str, list[Unit]] = {}
    asked: dict[str, float] = {}
    for unit in seen.units:
        key, job = seen.job_of(unit)
        if key is None:
            rejects.add(f"{unit.kind} without a job", path, 0, unit.uid)
            continue
        if unit.state == WAITING:
            waiting.setdefault(key, []).append(unit)
        elif row := _claim(seen, unit, key, job, path, rejects):
            yield "claim", row
        if unit.state == HELD:
            asked[key] = asked.get(key, 0) + unit.gpus
    for key, queued in waiting.items():
        job = seen.jobs.get(key)
        yield "pending", _pending(seen, key, job, queued)
        for uid, group in _gangs(queued):
            yield "workload", _gang(seen, key, job, uid, group)
    for job in seen.jobs.values():
        count = ceil(asked.get(job.key, 0)) + _demand(waiting.get(job.key, ()))
        yield "workload", _job(seen, job, count)
    yield from (("node", row) for row in _nodes(seen))


def _words(key: str, job: Job | None) -> dict[str, Any]:
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


def _claim(seen: Picture, unit: Unit, key: str, job: Job | None, path: str, rejects: Rejects) -> dict[str, Any] | None:
    node = seen.nodes.get(unit.node_id or "")
    if node is None:
        if unit.start_us is not None:
            rejects.add(f"{unit.kind} on a node that is not listed", path, 0, f"{key} {unit.uid} {unit.node_id}")
        return None
    start, end = unit.start_us, unit.end_us
    if start is None and unit.state == HELD:
        start = job.start_us if job and job.start_us else seen.at_us
    died = None if node.alive else node.end_us
    if unit.state == ENDED and end is None:
        end = died if unit.detached or job is None else job.end_us or died
    elif unit.state == HELD:
        end = died
    if start is None or (unit.state == ENDED and end is None):
        rejects.add(f"{unit.kind} has ended, but no time says {'when' if start else 'since when'}", path, 0, unit.uid)
        return None
    if end is not None and end <= start:
        return None
    whole = unit.gpus == ceil(unit.gpus)
    uuids = [node.uuids[slot] for slot in unit.slots if slot < len(node.uuids)]
    named = bool(uuids) and len(uuids) == len(unit.slots) and all(uuid.startswith("GPU-") for uuid in uuids)
    return _words(key, job) | {
        "kind": "ray",
        "run_key": f"{key}{SESSION}{seen.session}",
        "pod_uid": unit.uid,
        "node": node.host,
        "gpu_type": node.model,
        "device_count": ceil(unit.gpus),
        "fraction": None if whole else unit.gpus,
        "device_indexes": None if named or not unit.slots else ",".join(map(str, unit.slots)),
        "gpus": ",".join(uuids) if named else None,
        "start_us": start,
        "end_us": end,
        "evidence_us": end if end is not None else max(seen.at_us or start, start),
        "state": (job.status if job else None) or unit.word,
        "name": _first(job.metadata if job else {}, ("job_name", "name")) or key,
        "labels": _labels(job),
    }


def _demand(queued: Iterable[Unit]) -> int:
    """GPUs that a job waits for: all of its bundles and actors, and of its tasks, which take turns, the largest."""
    one_by_one = [ceil(unit.gpus) for unit in queued if unit.kind == "task"]
    return sum(ceil(unit.gpus) for unit in queued if unit.kind != "task") + max(one_by_one, default=0)


def _pending(seen: Picture, key: str, job: Job | None, queued: list[Unit]) -> dict[str, Any]:
    since = [unit.asked_us for unit in queued if unit.asked_us is not None]
    words = _words(key, job)
    return words | {
        "submit_us": min(since, default=words["submit_us"]),
        "evidence_us": seen.at_us,
        "device_count": _demand(queued),
        "reason": next((unit.word for unit in queued if unit.word), None),
    }


def _gangs(queued: list[Unit]) -> Iterator[tuple[str, list[Unit]]]:
    """Placement groups with their waiting bundles, and actors one by one."""
    found: dict[str, list[Unit]] = {}
    for unit in queued:
        if unit.kind != "task":
            found.setdefault(unit.uid.partition("/")[0], []).append(unit)
    yield from found.items()


def _gang(seen: Picture, key: str, job: Job | None, uid: str, members: list[Unit]) -> dict[str, Any]:
    first = members[0]
    return _words(key, job) | {
        "kind": "PlacementGroup" if first.kind == "group" else "Actor",
        "uid": f"{seen.session}/{uid}",
        "name": first.name or uid,
        "pod_count": len(members),
        "min_count": len(members),
        "device_count": sum(ceil(unit.gpus) for unit in members),
        "submit_us": first.asked_us or (job.start_us if job else None),
        "state": "pending",
        "reason": first.word,
        "labels": _labels(job),
        "observed_us": seen.at_us,
    }


def _job(seen: Picture, job: Job, count: int) -> dict[str, Any]:
    state = STATES.get(job.status or "", None)
    return _words(job.key, job) | {
        "kind": "Job",
        "uid": f"{seen.session}/{job.key}",
        "name": _first(job.metadata, ("job_name", "name")) or job.key,
        "device_count": count if count and state != "finished" else None,
        "start_us": job.start_us if job.status != "PENDING" else None,
        "end_us": job.end_us,
        "state": state,
        "reason": job.status,
        "message": job.message if job.status in ("PENDING", "FAILED") else None,
        "labels": _labels(job),
        "observed_us": seen.at_us,
    }


def _nodes(seen: Picture) -> Iterator[dict[str, Any]]:
    """One row a host with GPUs: a head that starts again leaves dead nodes of the same name."""
    hosts: dict[str, list[Node]] = {}
    for node in seen.nodes.values():
        if node.gpus:
            hosts.setdefault(node.host, []).append(node)
    for host, known in sorted(hosts.items()):
        alive = [node for node in known if node.alive]
        last = max(alive or known, key=lambda node: (node.start_us or 0, node.node_id))
        yield {
            "scheduler": "ray",
            "node": host,
            "observed_us": seen.at_us,
            "state": "up" if alive else "down",
            "since_us": last.start_us if alive else last.end_us,
            "reason": None if alive else "dead in Ray",
            "gpu_model": last.model,
            "devices": json.dumps({"": int(sum(node.gpus for node in alive or [last]))}),
            "sharing": "none",
        }
