"""Who holds which GPU of a large fleet, and when: jobs of one node and gangs of several."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuwatch.core.clock import SECOND_US

GPUS_A_NODE = 8
START_US = 1_789_948_800_000_000
"""2026-09-21, a Monday."""

BLOCKS = ((8,), (4, 4), (4, 2, 2), (2, 2, 2, 1, 1), (1, 1, 1, 1, 1, 1, 1, 1))
"""How a node's GPUs are given out: the sizes of its jobs."""
GANG_NODES = (2, 4, 8)
GANG_SHARE = 0.2
"""Share of the nodes that run jobs of several nodes."""
GAP_HOURS_MEAN = 0.9
JOB_HOURS_MEDIAN = 1.6


@dataclass(frozen=True)
class Hold:
    """One GPU held by one job for the instants [first, last), busy at the levels of its kind."""

    gpu: int
    job: int
    first: int
    last: int


@dataclass
class Plan:
    """Who holds what: jobs with their nodes and times, and the holds that follow."""

    step_s: int
    """Seconds between two samples of a GPU."""
    holds: list[Hold] = field(default_factory=list)
    jobs: list[tuple[int, int, dict[int, list[int]]]] = field(default_factory=list)
    """Start and end in microseconds, and the GPU numbers held on each node."""


def planned(dice: np.random.Generator, gpus: int, steps: int, step_s: int) -> Plan:
    """Jobs of every node of a fleet for so many samples a GPU."""
    plan = Plan(step_s)
    nodes = -(-gpus // GPUS_A_NODE)
    gang = int(nodes * GANG_SHARE) // GANG_NODES[-1] * GANG_NODES[-1]
    node = 0
    while node < nodes:
        if node < gang:
            width = GANG_NODES[node // GANG_NODES[-1] % len(GANG_NODES)]
            together = {n: list(range(n * GPUS_A_NODE, (n + 1) * GPUS_A_NODE)) for n in range(node, node + width)}
            fill(dice, plan, together, steps, 6.0)
            node += width
            continue
        at = node * GPUS_A_NODE
        rest = gpus - at
        for size in BLOCKS[node % len(BLOCKS)] if rest >= GPUS_A_NODE else (1,) * rest:
            fill(dice, plan, {node: list(range(at, at + size))}, steps, 1.0)
            at += size
        node += 1
    return plan


def fill(dice: np.random.Generator, plan: Plan, held: dict[int, list[int]], steps: int, longer: float) -> None:
    """One job after another on the same GPUs, with free time between."""
    at_s, end_s = 0.0, steps * plan.step_s
    while True:
        start = at_s + dice.exponential(GAP_HOURS_MEAN * 3600)
        end = min(start + 300 + longer * JOB_HOURS_MEDIAN * 3600 * dice.lognormal(0.0, 0.9), end_s)
        if start >= end_s - 300:
            return
        first, last = -(-int(start) // plan.step_s), -(-int(end) // plan.step_s)
        number = len(plan.jobs)
        plan.jobs.append((START_US + int(start) * SECOND_US, START_US + int(end) * SECOND_US, held))
        plan.holds += [Hold(gpu, number, first, last) for members in held.values() for gpu in members]
        at_s = end
