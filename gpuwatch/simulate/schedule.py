"""Schedule: all runs of the window, numbered and named."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence

import numpy as np

from gpuwatch.simulate.background import background_drafts
from gpuwatch.simulate.calendar import Calendar
from gpuwatch.simulate.drafts import Draft, blind_drafts, scenario_drafts, wide_draft
from gpuwatch.simulate.fleet import Fleet, Node
from gpuwatch.simulate.loads import Course, course
from gpuwatch.simulate.runs import Run

FIRST_JOB = 4101
SPREAD = "bcdfghjklmnpqrstvwxz2456789"
CONTROLLERS = {"serving": "ReplicaSet", "notebook": "StatefulSet"}
NAMES = {
    "training": ("pretrain", "finetune", "llm-sft", "resnet-ddp"),
    "simulation": ("md-run", "lattice"),
    "batch": ("embed-batch", "preprocess", "score-batch"),
    "evaluation": ("eval", "bench-suite"),
    "serving": ("chat", "rerank", "vision-api"),
    "notebook": ("nb", "lab"),
}


def schedule(
    fleet: Fleet,
    window_s: int,
    step_s: int,
    seed: int,
    also: Sequence[Node] = (),
    calendar: Calendar | None = None,
) -> list[Run]:
    """All runs in order of submission: unmeasured ones, the scenarios, then the background that fits around them.

    Nodes of `also` get background around what the calendar has booked.
    """
    rng = np.random.default_rng([seed, 1])
    calendar = Calendar(window_s) if calendar is None else calendar
    drafts = blind_drafts(fleet, calendar, rng)
    drafts += wide_draft(fleet, calendar, rng)
    drafts += scenario_drafts(fleet, calendar, rng)
    drafts += background_drafts(fleet, calendar, step_s, rng)
    if also:
        drafts += background_drafts(Fleet(tuple(also)), calendar, step_s, rng)
    drafts.sort(key=lambda draft: (draft.submit_s, draft.pool, draft.group))
    return _number(drafts, window_s, np.random.default_rng([seed, 2]), seed)


def _number(drafts: list[Draft], window_s: int, rng: np.random.Generator, seed: int) -> list[Run]:
    """Job numbers as Slurm gives them: an array has the number of its last task."""
    runs = []
    groups: dict[tuple[str, str, int], tuple[int, int]] = {}
    sizes: dict[tuple[str, str, int], int] = {}
    for draft in drafts:
        if draft.group:
            key = (draft.scheduler, draft.pool, draft.group)
            sizes[key] = sizes.get(key, 0) + 1
    number = FIRST_JOB
    for draft in drafts:
        key = (draft.scheduler, draft.pool, draft.group)
        if not draft.group or sizes[key] < 2:
            runs.append(_run(draft, number, None, window_s, rng, seed))
            number += 1
            continue
        if key not in groups:
            groups[key] = (number, 0)
            number += sizes[key]
        first, member = groups[key]
        groups[key] = (first, member + 1)
        last = member == sizes[key] - 1
        raw = first + member if draft.scheduler != "slurm" else first if last else first + member + 1
        runs.append(_run(draft, raw, (first, member), window_s, rng, seed))
    return runs


def _run(
    draft: Draft, number: int, group: tuple[int, int] | None, window_s: int, rng: np.random.Generator, seed: int
) -> Run:
    names = NAMES[draft.kind]
    base = group[0] if group else number
    name = names[base % len(names)]
    length = 0 if draft.start_s is None else (window_s if draft.end_s is None else draft.end_s) - draft.start_s
    courses = _courses(draft, length, rng)
    state = _state(draft, rng)
    common = Run(
        number,
        str(number),
        name,
        draft.scheduler,
        draft.owner,
        draft.kind,
        draft.gpus,
        draft.submit_s,
        draft.start_s,
        draft.end_s,
        state,
        draft.devices,
        courses,
        draft.scenario,
        draft.profile,
        draft.pool,
    )
    fields = {**common.__dict__}
    if draft.scheduler == "slurm":
        if group:
            fields.update(array=group, job_id=f"{group[0]}_{group[1]}")
        return Run(**fields)
    fields.update(_pod_names(draft, name, base, group, seed, number))
    if draft.kind == "serving" and not draft.scenario and number % 5 == 0 and draft.start_s is not None:
        fields["restarted_s"] = draft.start_s + int(length * 0.4)
    return Run(**fields)


def _pod_names(
    draft: Draft, name: str, base: int, group: tuple[int, int] | None, seed: int, number: int
) -> dict[str, object]:
    """Pod, its UID, its controller, and the subject id: namespace and name of the controlling workload."""
    digest = hashlib.blake2b(f"{seed}/pod/{number}".encode(), digest_size=16).digest()
    suffix = "".join(SPREAD[byte % len(SPREAD)] for byte in digest[:5])
    hashed = "".join(SPREAD[byte % len(SPREAD)] for byte in digest[5:14])
    controller = CONTROLLERS.get(draft.kind, "Job")
    workload = f"{name}-{base}"
    pod = f"{workload}-{suffix}"
    if controller == "ReplicaSet":
        pod = f"{workload}-{hashed}-{suffix}"
    elif controller == "StatefulSet":
        pod = f"{workload}-0"
    elif group:
        pod = f"{workload}-{group[1]}-{suffix}"
    elif draft.kind == "evaluation" and number % 4 == 0:
        controller, pod = "", workload
    return {
        "name": workload,
        "controller": controller,
        "pod": pod,
        "pod_uid": str(uuid.UUID(bytes=digest)),
        "job_id": f"{draft.owner.namespace}/{workload}",
    }


def _courses(draft: Draft, length: int, rng: np.random.Generator) -> tuple[Course, ...]:
    """One course for the members that work, one for those that idle: the last `idle` devices."""
    if draft.start_s is None:
        return ()
    working = course(draft.load, length, rng)
    if not draft.idle:
        return (working,) * len(draft.devices)
    idle = course("idle", length, rng)
    return (working,) * (len(draft.devices) - draft.idle) + (idle,) * draft.idle


def _state(draft: Draft, rng: np.random.Generator) -> str:
    """COMPLETED, FAILED, CANCELLED, TIMEOUT, RUNNING or PENDING."""
    luck = float(rng.random())
    if draft.start_s is None:
        return "PENDING"
    if draft.end_s is None:
        return "RUNNING"
    if draft.load in ("idle", "tickled"):
        return "CANCELLED" if luck < 0.5 else "TIMEOUT"
    return "COMPLETED" if luck < 0.8 else "FAILED" if luck < 0.9 else "CANCELLED" if luck < 0.96 else "TIMEOUT"
