"""Builds the scenes of a fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuwatch.simulate.fleet import Node
from gpuwatch.simulate.moments import Epoch
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import choose
from gpuwatch.simulate.staging import Json, Stage
from gpuwatch.simulate.truth import Allowed, Case, Labels


@dataclass(frozen=True)
class Staged:
    """What the chosen scenes add to a fleet."""

    nodes: tuple[Node, ...] = ()
    runs: tuple[Run, ...] = ()
    objects: tuple[Json, ...] = ()
    labels: Labels = field(default_factory=Labels)

    @property
    def gpus(self) -> int:
        """Physical GPUs of their nodes."""
        return sum(node.gpu_count for node in self.nodes)


def stage(wanted: str, gpus: int, epoch: Epoch, step_s: int, seed: int) -> Staged:
    """Builds the chosen scenes deterministically. Raises UsageError."""
    nodes: list[Node] = []
    runs: list[Run] = []
    objects: list[Json] = []
    planted: list[Case] = []
    decoys: list[Case] = []
    allowed: list[Allowed] = []
    for number, made in choose(wanted, gpus, epoch.window_s):
        built = Stage(made, number, epoch, step_s, seed)
        made.build(built)
        nodes += built.finished()
        if sum(node.gpu_count for node in built.finished()) != made.gpus:
            raise ValueError(f"scene {made.name!r} has other GPUs than the {made.gpus} it says")
        runs += built.runs
        objects += built.objects
        planted += built.planted
        decoys += built.decoys
        allowed += built.allowed
    return Staged(tuple(nodes), tuple(runs), tuple(objects), Labels(tuple(planted), tuple(decoys), tuple(allowed)))
