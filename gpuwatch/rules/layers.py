"""The four layers of authority that answer for findings, and how much work a remedy is. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A layer in which a person, a tool or a default decides: its id, its name on screen, and what is decided there."""

    id: str
    name: str
    decides: str


LAYERS = (
    Layer("placement", "Placement", "which node, which NVLink domain, which NUMA zone"),
    Layer("partitioning", "Partitioning", "which GPUs are cut into MIG slices, into which, for whom"),
    Layer("scheduling", "Scheduling", "who goes first, who starts whole, who gives way, who writes to which pool"),
    Layer("fabric", "Fabric", "which paths jobs talk over, and who watches them"),
)
"""In the order in which reports list them."""

OTHER = "other"
"""The layer of a site's own detectors: their findings are counted, but get no grade."""

HOURS, DAYS, WEEKS = "hours", "days", "weeks"
"""Effort of an action: a setting or a message to an owner; a change that is rolled out; a project."""

EFFORTS = (HOURS, DAYS, WEEKS)
