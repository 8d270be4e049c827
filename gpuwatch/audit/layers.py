"""The four layers of authority, and the layer and effort of every detector. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A layer in which somebody, or a default, decides: its id, its name on screen, and what is decided there."""

    id: str
    name: str
    decides: str


LAYERS = (
    Layer("placement", "Placement", "which node, which NVLink domain, which NUMA zone"),
    Layer("partitioning", "Partitioning", "which GPUs are cut into MIG slices, into which, for whom"),
    Layer("scheduling", "Scheduling", "who goes first, who starts whole, who gives way, who writes to which pool"),
    Layer("fabric", "Fabric", "which paths jobs talk over, and who watches them"),
)
"""In the order in which they are told."""

OTHER = "other"
"""Where findings of a site's own detectors are counted: no layer, no grade."""

HOURS, DAYS, WEEKS = "hours", "days", "weeks"
"""How much work an action is: a setting or a word with an owner, a change that is rolled out, a project."""

DETECTORS: dict[str, tuple[str, str]] = {
    "topology-blind-placement": ("placement", DAYS),
    "partial-island": ("placement", DAYS),
    "fragmentation": ("placement", WEEKS),
    "straggler": ("placement", DAYS),
    "degraded-gpu": ("placement", DAYS),
    "noisy-neighbour": ("placement", DAYS),
    "driver-drift": ("placement", DAYS),
    "spot-suitability": ("placement", DAYS),
    "own-vs-cloud": ("placement", WEEKS),
    "mig-mismatch": ("partitioning", DAYS),
    "mig-training": ("partitioning", HOURS),
    "mig-mixed-pool": ("partitioning", DAYS),
    "mig-speculative": ("partitioning", DAYS),
    "right-sizing": ("partitioning", HOURS),
    "small-batch": ("partitioning", DAYS),
    "memory-leak": ("partitioning", HOURS),
    "idle-hoarding": ("scheduling", HOURS),
    "false-utilization": ("scheduling", DAYS),
    "blind-spot": ("scheduling", HOURS),
    "gang-partial": ("scheduling", DAYS),
    "scheduler-conflict": ("scheduling", WEEKS),
    "starvation": ("scheduling", DAYS),
    "preemption-thrash": ("scheduling", DAYS),
    "fabric-congestion": ("fabric", WEEKS),
    "checkpoint-stall": ("fabric", DAYS),
}
"""Detector id to (layer, effort of its remedy). Where a rule touches two layers: the one whose decision would have
prevented it. A straggler is the runtime side of a placement; checkpoints cross the fabric."""


def layer_of(detector: str) -> str:
    """The layer that answers for a detector's findings; OTHER for a site's own."""
    return DETECTORS.get(detector, (OTHER, DAYS))[0]


def effort_of(detector: str) -> str:
    """HOURS, DAYS or WEEKS of work for the remedy of a detector."""
    return DETECTORS.get(detector, (OTHER, DAYS))[1]
