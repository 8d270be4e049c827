"""Drafts: which runs are where and when, before they get job numbers and names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuwatch.simulate.calendar import Calendar
from gpuwatch.simulate.fleet import Device, Fleet, Node
from gpuwatch.simulate.loads import HOUR
from gpuwatch.simulate.owners import pick_owner
from gpuwatch.simulate.runs import Owner
from gpuwatch.simulate.scenarios import BLIND_SPOT, SCENARIOS, Scenario

GPU_DAYS_A_ROUND = 150.0
ROUNDS_MAX = 60
TRIES_MAX = 6
NODES_TRIED_MAX = 6
PLANTED_SECONDS_MIN = 8_000
END_MARGIN_S = 900


@dataclass(frozen=True)
class Draft:
    """A run without its number. `group`: drafts of one array or gang share it. `idle`: how many devices idle."""

    scheduler: str
    owner: Owner
    kind: str
    load: str
    gpus: int
    pool: str
    profile: str
    submit_s: int
    start_s: int | None
    end_s: int | None
    devices: tuple[Device, ...]
    scenario: str = ""
    idle: int = 0
    group: int = 0


def blind_drafts(fleet: Fleet, calendar: Calendar, rng: np.random.Generator) -> list[Draft]:
    """Runs on devices that no exporter shows; their scheduler records span the window.

    The Kubernetes one belongs to a namespace that no rule knows: a team that only it names always has some time.
    """
    window = calendar.window_s
    drafts = []
    for node in fleet.nodes:
        if node.counters == "none":
            cut = int(window * 0.41) + 13
            for start, end in ((0, cut), (cut + 37, None)):
                drafts.append(_blind(node, node.devices, start, end, "node-without-exporter", rng))
        elif not node.devices[0].exported:
            count = 1 if node.scheduler == "kubernetes" else max(1, min(4, node.gpu_count // 2))
            drafts.append(_blind(node, node.devices[:count], 0, None, f"hidden-gpu-{node.scheduler}", rng))
    for draft in drafts:
        calendar.book(draft.devices, draft.start_s or 0, window if draft.end_s is None else draft.end_s)
    return drafts


def wide_draft(fleet: Fleet, calendar: Calendar, rng: np.random.Generator) -> list[Draft]:
    """A Slurm job over two nodes, if two nodes of a model together have more free GPUs than one node has in total."""
    window = calendar.window_s
    start, end = int(window * 0.33) + 11, int(window * 0.52) + 29
    nodes = [node for node in fleet.nodes if node.counters == "training" and node.gpu_count >= 8]
    for first in nodes:
        for second in nodes:
            if first.name < second.name and first.model is second.model:
                both = first.devices + second.devices
                free = tuple(d for d in both if d.exported and calendar.is_free(d, start, end))
                if len(free) > first.gpu_count:
                    calendar.book(free, start, end)
                    owner = pick_owner("slurm", "training", rng)
                    return [_draft(first, owner, "training", "train", free, start - 700, start, end)]
    return []


def scenario_drafts(fleet: Fleet, calendar: Calendar, rng: np.random.Generator) -> list[Draft]:
    """Every planted case and decoy that fits, again for each further GPU_DAYS_A_ROUND of the fleet."""
    gpu_days = sum(node.gpu_count for node in fleet.nodes) * calendar.window_s / 86_400
    drafts = []
    for _ in range(max(1, min(ROUNDS_MAX, round(gpu_days / GPU_DAYS_A_ROUND)))):
        for scenario in SCENARIOS:
            draft = _place(scenario, fleet, calendar, rng)
            if draft is not None:
                drafts.append(draft)
    return drafts


def _place(scenario: Scenario, fleet: Fleet, calendar: Calendar, rng: np.random.Generator) -> Draft | None:
    window = calendar.window_s
    scale = min(1.0, max(0.2, window / (48 * HOUR)))
    nodes = [node for node in fleet.nodes if _suits(node, scenario)]
    order = [nodes[i] for i in rng.permutation(len(nodes))[:NODES_TRIED_MAX]]
    length = scenario.seconds or max(PLANTED_SECONDS_MIN, int(scenario.hours * HOUR * scale)) + int(rng.integers(1, 60))
    for attempt in range(TRIES_MAX):
        latest = max(1, window - length - END_MARGIN_S)
        earliest = 0 if attempt == TRIES_MAX - 1 else int(rng.integers(0, latest))
        if scenario.at_end:
            earliest, length = window - length, length if attempt == 0 else max(PLANTED_SECONDS_MIN, int(length * 0.85))
        margin = 0 if scenario.at_end else END_MARGIN_S
        for node in order:
            found = calendar.fit(node, scenario.gpus, length, max(0, earliest), int(rng.integers(3, 50)))
            if found is not None and found[0] + length <= window - margin:
                return _placed(scenario, node, calendar, *found, length, rng)
    return None


def _placed(
    scenario: Scenario,
    node: Node,
    calendar: Calendar,
    start: int,
    devices: tuple[Device, ...],
    length: int,
    rng: np.random.Generator,
) -> Draft:
    """Reserves the devices, and draws the owner and the time of submission."""
    end = None if scenario.at_end else start + length
    calendar.book(devices, start, calendar.window_s if end is None else end)
    owner = pick_owner(node.scheduler, scenario.kind, rng)
    if scenario.labels:
        owner = Owner(namespace=owner.namespace, queue=owner.queue, labels=owner.labels + scenario.labels)
    submit = max(0, start - int(rng.integers(2, 900)))
    kind, load, name, idle = scenario.kind, scenario.load, scenario.name, scenario.idle_members
    return _draft(node, owner, kind, load, devices, submit, start, end, name, idle)


def _suits(node: Node, scenario: Scenario) -> bool:
    kinds = {"slurm": "training", "lite": "default", "kubernetes": "standard", "mig": "mig"}
    return node.counters == kinds[scenario.where]


def _blind(
    node: Node, devices: tuple[Device, ...], start: int, end: int | None, shape: str, rng: np.random.Generator
) -> Draft:
    owner = pick_owner(node.scheduler, "training", rng) if node.scheduler == "slurm" else Owner(namespace="sandbox")
    submit = max(0, start - 333)
    return _draft(node, owner, "training", "train", devices, submit, start, end, f"{BLIND_SPOT}:{shape}")


def _draft(
    node: Node,
    owner: Owner,
    kind: str,
    load: str,
    devices: tuple[Device, ...],
    submit: int,
    start: int,
    end: int | None,
    scenario: str = "",
    idle: int = 0,
) -> Draft:
    return Draft(
        node.scheduler,
        owner,
        kind,
        load,
        len(devices),
        node.pool,
        devices[0].profile,
        submit,
        start,
        end,
        devices,
        scenario,
        idle,
    )
