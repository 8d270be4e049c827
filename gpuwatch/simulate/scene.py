"""The registry of scenes, and the choice of scenes for a fleet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwatch.core.errors import UsageError
from gpuwatch.core.registry import discover
from gpuwatch.simulate.loads import HOUR

if TYPE_CHECKING:
    from gpuwatch.simulate.staging import Stage

CORE_GPUS_MIN = 8
"""GPUs that scenes leave to the rest of the fleet."""
DEFAULT_FROM_GPUS = 64
"""Smaller fleets only have scenes on request."""

ORDER = (
    "false-utilization", "idle-hoarding", "topology-blind-placement", "fragmentation", "gang-partial", "straggler",
    "degraded-gpu", "memory-leak", "checkpoint-stall", "mig-mismatch", "mig-training", "small-batch", "partial-island",
    "starvation", "preemption-thrash", "scheduler-conflict", "mig-mixed-pool", "driver-drift", "mig-speculative",
    "noisy-neighbour", "fabric-congestion", "right-sizing", "spot-suitability", "own-vs-cloud", "blind-spot",
    "failed-work", "node-out-of-service",
)  # fmt: skip
"""Detectors in order of importance: a fleet too small for all scenes gets the first ones; others follow by name."""


@dataclass(frozen=True)
class Scene:
    """A group of nodes with jobs of its own, built by `build`; it needs the last `hours` of the window.

    `rank` 1 is the plainest case of its detector: all of rank 1 come before any of rank 2.
    """

    detector: str
    name: str
    rank: int
    gpus: int
    hours: float
    build: Callable[[Stage], None]


_scenes: dict[tuple[str, str], Scene] = {}


def scene(detector: str, name: str, rank: int, gpus: int, hours: float) -> Callable[[Callable[[Stage], None]], Scene]:
    """Registers a function as a scene of a detector. Raises ValueError for a duplicate name."""

    def register(build: Callable[[Stage], None]) -> Scene:
        if (detector, name) in _scenes:
            raise ValueError(f"scene {name!r} of {detector!r} is registered twice")
        made = Scene(detector, name, rank, gpus, hours, build)
        _scenes[(detector, name)] = made
        return made

    return register


def scenes() -> list[Scene]:
    """All scenes in order of importance."""
    discover("gpuwatch.simulate.scenes")
    return sorted(_scenes.values(), key=lambda s: (s.rank, _importance(s.detector), s.detector, s.name))


def _importance(detector: str) -> int:
    return ORDER.index(detector) if detector in ORDER else len(ORDER)


def _of_detectors(wanted: str, numbered: list[tuple[int, Scene]]) -> list[tuple[int, Scene]]:
    """The scenes of the detectors whose ids are given, separated by commas."""
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    known = {made.detector for _, made in numbered}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"simulate: no scenes of {', '.join(unknown)}; give none, default, all, or detector ids")
    return [(number, made) for number, made in numbered if made.detector in names]


def choose(wanted: str, gpus: int, window_s: int) -> list[tuple[int, Scene]]:
    """(number, scene) of those to stage: `none`; `default`: what half of a large fleet has room for; `all` that fit; or
    detectors by id, separated by commas. Scenes longer than the window are left out. Raises UsageError."""
    numbered = list(enumerate(scenes(), start=1))
    budget = max(0, gpus - CORE_GPUS_MIN)
    if wanted == "none" or (wanted == "default" and gpus < DEFAULT_FROM_GPUS):
        return []
    if wanted == "default":
        budget = gpus // 2
    elif wanted != "all":
        numbered = _of_detectors(wanted, numbered)
    chosen = []
    for number, made in numbered:
        if made.gpus <= budget and made.hours * HOUR <= window_s:
            chosen.append((number, made))
            budget -= made.gpus
    return chosen
