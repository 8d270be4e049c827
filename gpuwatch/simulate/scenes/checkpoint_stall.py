"""Training that stops for its checkpoints, and pauses that are something else."""

from __future__ import annotations

from gpuwatch.simulate.courses import Cycle
from gpuwatch.simulate.models import A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "checkpoint-stall"
MINUTE = 60


@scene(DETECTOR, "five-minutes-of-forty", rank=1, gpus=8, hours=11)
def five_minutes_of_forty(s: Stage) -> None:
    """A gang saves for five minutes of every forty; others validate, or save in a minute."""
    gang_node, other = s.node(gpus=4, leaf=s.tag), s.node(gpus=4, leaf=s.tag)
    gang = s.job(gang_node.devices, s.ago(10.6), s.ago(0.3), (("train", 35 * MINUTE), ("saving", 5 * MINUTE)))
    s.plant("five-minutes-of-forty", "all four GPUs stop for five minutes of every forty", gang)
    phases = s.job(other.devices[:2], s.ago(10.6), s.ago(0.3), (("train", 40 * MINUTE), ("validation", 6 * MINUTE)))
    s.decoy("validation-phases", "validates between epochs: the engine computes", phases)
    quick = s.job(other.devices[2:], s.ago(10.5), s.ago(0.3), (("train", 45 * MINUTE), ("saving", MINUTE)))
    s.decoy("quick-checkpoints", "saves for a minute of every 46", quick)


@scene(DETECTOR, "early-or-late", rank=2, gpus=4, hours=13)
def early_or_late(s: Stage) -> None:
    """Five minutes of every 65, each early or late by 4 %; and pauses of five minutes at random times."""
    node = s.node(gpus=4, leaf=s.tag)
    steps: Cycle = [
        part
        for _ in range(12)
        for part in (("train", 65 * MINUTE * (1 + 0.04 * float(s.rng.standard_normal())) - 317), ("saving", 317.0))
    ]
    even = s.job(node.devices[:2], s.ago(12.6), s.ago(0.3), steps, "pretrain")
    s.plant("early-or-late", "stops for 317 seconds of about every 65 minutes", even)
    drawn: Cycle = [
        part for _ in range(20) for part in (("train", float(s.rng.integers(300, 5400))), ("saving", 317.0))
    ]
    uneven = s.job(node.devices[2:], s.ago(12.6), s.ago(0.3), drawn, "tune")
    s.decoy("uneven", "stops for five minutes, after five minutes or after an hour and a half", uneven)


@scene(DETECTOR, "often-and-short", rank=2, gpus=4, hours=10)
def often_and_short(s: Stage) -> None:
    """Two minutes of every fifteen; and a loader that stops at random."""
    node = s.node(A100, "kubernetes", gpus=4)
    often = s.pod(node.devices[:2], s.ago(9.6), None, (("train-lean", 13 * MINUTE), ("saving", 2 * MINUTE)), "often")
    s.plant("often-and-short", "stops for two minutes of every fifteen", often)
    shuffled: Cycle = [
        part
        for _ in range(80)
        for part in (("train-lean", float(s.rng.integers(300, 3600))), ("loading", float(s.rng.integers(15, 110))))
    ]
    random = s.pod(node.devices[2:], s.ago(9.6), None, shuffled, "shuffled")
    s.decoy("irregular-pauses", "pauses of seconds to two minutes at random", random)
