"""Background: the healthy jobs that fill the rest of the fleet, queued first come, first served."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from gpuwatch.simulate.calendar import Calendar
from gpuwatch.simulate.drafts import Draft
from gpuwatch.simulate.fleet import Device, Fleet, Node
from gpuwatch.simulate.loads import HOUR
from gpuwatch.simulate.owners import pick_owner

TARGET_BUSY = 0.72
"""Fraction of a pool's free device time that arriving jobs ask for."""
JOBS_MAX = 400_000
PENDING_MAX = 4
NODES_TRIED = 2
ARRAY_TASKS = 3
WAIT_S_MAX = 1500
"""The longest wait in a healthy queue. Longer waits are created by scenes, with a reason."""


@dataclass(frozen=True)
class Kind:
    """A kind of job: its frequency, duration (median, spread) and number of GPUs."""

    kind: str
    load: str
    weight: float
    hours: float
    spread: float
    gpus: tuple[int, ...]


KINDS: dict[str, tuple[Kind, ...]] = {
    "training": (
        Kind("training", "train", 0.28, 6.0, 0.8, (1, 2, 2, 4, 4, 8)),
        Kind("training", "train-lean", 0.17, 4.0, 0.8, (1, 2, 4)),
        Kind("simulation", "simulation", 0.12, 5.0, 0.6, (1, 1, 2)),
        Kind("batch", "batch", 0.20, 1.5, 0.7, (1,)),
        Kind("evaluation", "evaluation", 0.23, 0.5, 0.5, (1, 1, 2)),
    ),
    "standard": (
        Kind("training", "train", 0.25, 6.0, 0.8, (2, 4, 4)),
        Kind("serving", "serve", 0.20, 20.0, 0.5, (1, 1, 2)),
        Kind("evaluation", "evaluation", 0.25, 0.5, 0.5, (1,)),
        Kind("notebook", "notebook", 0.18, 4.0, 0.5, (1,)),
        Kind("batch", "batch", 0.12, 1.5, 0.7, (1, 2)),
    ),
    "mig": (
        Kind("serving", "serve", 0.30, 18.0, 0.6, (1,)),
        Kind("notebook", "notebook", 0.35, 4.0, 0.6, (1,)),
        Kind("evaluation", "evaluation", 0.25, 0.6, 0.5, (1,)),
        Kind("batch", "slice-busy", 0.10, 2.0, 0.5, (1,)),
    ),
}
KINDS["default"] = KINDS["health"] = KINDS["training"]


def background_drafts(fleet: Fleet, calendar: Calendar, step_s: int, rng: np.random.Generator) -> list[Draft]:
    """Jobs of every pool in order of arrival; a few per scheduler that find no slot in the window stay pending."""
    pools: dict[tuple[str, str, str], list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        if node.counters != "none":
            pools[(node.scheduler, node.pool, node.counters)].append(node)
    drafts: list[Draft] = []
    pending: dict[str, int] = defaultdict(int)
    for nodes in pools.values():
        for draft in _pool_drafts(nodes, calendar, step_s, rng):
            if draft.start_s is None:
                pending[draft.scheduler] += 1
                if pending[draft.scheduler] > PENDING_MAX:
                    continue
            drafts.append(draft)
    return drafts


def _pool_drafts(nodes: list[Node], calendar: Calendar, step_s: int, rng: np.random.Generator) -> list[Draft]:
    kinds = KINDS[nodes[0].counters]
    weights = np.array([kind.weight for kind in kinds])
    budget = TARGET_BUSY * sum(calendar.free_seconds(node) for node in nodes)
    asked: list[tuple[int, Kind, int, int]] = []
    while budget > 0 and len(asked) < JOBS_MAX:
        kind = kinds[int(rng.choice(len(kinds), p=weights / weights.sum()))]
        hours = min(kind.hours * float(rng.lognormal(0.0, kind.spread)), 40.0, calendar.window_s / HOUR * 0.6)
        length = max(6 * step_s, 400, int(hours * HOUR)) + int(rng.integers(0, 60))
        gpus = min(int(rng.choice(kind.gpus)), max(node.gpu_count for node in nodes))
        asked.append((int(rng.integers(0, calendar.window_s)), kind, length, gpus))
        budget -= length * gpus
    drafts = []
    for group, (submit, kind, length, gpus) in enumerate(sorted(asked, key=lambda job: (job[0], job[2])), start=1):
        drafts += _queue(nodes, calendar, kind, submit, length, gpus, group, step_s, rng)
    return drafts


def _queue(
    nodes: list[Node],
    calendar: Calendar,
    kind: Kind,
    submit: int,
    length: int,
    gpus: int,
    group: int,
    step_s: int,
    rng: np.random.Generator,
) -> list[Draft]:
    """The drafts of one arrival: a job, the tasks of an array, or the two pods of a gang."""
    first = nodes[0]
    profiles = sorted({device.profile for node in nodes for device in node.devices})
    profile = profiles[int(rng.integers(len(profiles)))]
    owner = pick_owner(first.scheduler, kind.kind, rng)
    tasks = ARRAY_TASKS if first.scheduler == "slurm" and kind.kind == "evaluation" and group % 3 == 0 else 1
    drafts = []
    for _ in range(tasks):
        draft = Draft(first.scheduler, owner, kind.kind, kind.load, gpus, first.pool, profile, submit, None, None, ())
        draft = replace(draft, group=group if tasks > 1 else 0)
        slot = _first_slot(nodes, calendar, draft, length, rng)
        if slot is None:
            drafts += _waiting(draft, calendar.window_s)
        if slot is None or slot[0] > calendar.window_s - 6 * step_s:
            continue
        held = _started(draft, calendar, *slot, length)
        is_gang = first.scheduler == "kubernetes" and kind.kind == "training" and gpus >= 4 and group % 2
        drafts += _two_pods(held, group) if is_gang else [held]
    return drafts


def _waiting(draft: Draft, window_s: int) -> list[Draft]:
    """A single job that arrived late and still waits for a slot at the end of the window."""
    if draft.group or draft.submit_s <= window_s * 0.8:
        return []
    return [replace(draft, submit_s=max(draft.submit_s, window_s - 60 - draft.submit_s % (WAIT_S_MAX - 60)))]


def _started(draft: Draft, calendar: Calendar, start: int, devices: tuple[Device, ...], length: int) -> Draft:
    """A draft in its slot; a single job was submitted at most WAIT_S_MAX before."""
    end = start + length
    calendar.book(devices, start, min(end, calendar.window_s))
    end_s = end if end < calendar.window_s else None
    submitted = draft.submit_s if draft.group else max(draft.submit_s, start - WAIT_S_MAX)
    return replace(draft, submit_s=submitted, start_s=start, end_s=end_s, devices=devices)


def _first_slot(
    nodes: list[Node], calendar: Calendar, draft: Draft, length: int, rng: np.random.Generator
) -> tuple[int, tuple[Device, ...]] | None:
    """The earliest slot for a draft on some of the nodes."""
    tried = [nodes[int(i)] for i in rng.permutation(len(nodes))[:NODES_TRIED]]
    gap = int(rng.integers(1, 41))
    slots = (
        calendar.fit(node, draft.gpus, length, draft.submit_s + gap, gap, lambda d: d.profile == draft.profile)
        for node in tried
    )
    return min((slot for slot in slots if slot is not None), key=lambda slot: slot[0], default=None)


def _two_pods(held: Draft, group: int) -> list[Draft]:
    """A gang of two pods, with half of the devices each."""
    half = held.gpus // 2
    parts = held.devices[:half], held.devices[half:]
    return [replace(held, devices=part, gpus=len(part), group=group) for part in parts]
