"""Leaves whose traffic became slow for everybody, and gangs that changed by themselves."""

from __future__ import annotations

from gpuwatch.simulate.courses import Load
from gpuwatch.simulate.models import A100, H100, Model
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.slurm import leaf_name
from gpuwatch.simulate.staging import Stage

DETECTOR = "fabric-congestion"
HOUR = 3600
GOOD, SLOW = 14 * HOUR, 7 * HOUR


@scene(DETECTOR, "congested-leaf", rank=1, gpus=8, hours=23)
def congested_leaf(s: Stage) -> None:
    """Two gangs under one leaf: after fourteen hours both move forty percent less, and wait."""
    first, second = _gangs(s, H100, ((("gang-good", GOOD), ("gang-slow", SLOW * 9)),) * 2)
    s.plant(
        "congested-leaf",
        "two gangs under one leaf move forty percent less since seven hours",
        ("pool", leaf_name(s.tag)),
        devices=first.devices + second.devices,
        since_s=(first.start_s or 0) + GOOD,
    )


@scene(DETECTOR, "one-gang-changed", rank=2, gpus=8, hours=23)
def one_gang_changed(s: Stage) -> None:
    """The same drop in one of two gangs only: it changed its batch."""
    _gangs(s, A100, ((("gang-good", GOOD), ("gang-slow", SLOW * 9)), "gang-good"))
    s.decoy("one-gang-changed", "one gang of two moves less: its work changed", ("pool", leaf_name(s.tag)))


def _gangs(s: Stage, model: Model, loads: tuple[Load, Load]) -> tuple[Run, Run]:
    """Two gangs of two nodes each, four nodes of two GPUs under a leaf of their own."""
    nodes = [s.node(model, gpus=2, leaf=s.tag, every=2) for _ in range(4)]
    first, second = (
        s.job(a.devices + b.devices, s.ago(22.0 - 0.1 * at), s.ago(0.4), load, "pretrain")
        for at, (a, b, load) in enumerate(((nodes[0], nodes[1], loads[0]), (nodes[2], nodes[3], loads[1])))
    )
    return first, second
