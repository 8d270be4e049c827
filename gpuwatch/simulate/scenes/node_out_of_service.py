"""Nodes that their scheduler keeps out of service, for good reason or for too long."""

from __future__ import annotations

from gpuwatch.simulate.fleet import Outage
from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "node-out-of-service"


@scene(DETECTOR, "drained-and-forgotten", rank=1, gpus=8, hours=34)
def drained_and_forgotten(s: Stage) -> None:
    """Slurm: a drained node, one in maintenance, one that is drained while its job goes on, and one that is down."""
    forgotten = s.node(A100, gpus=2, every=2, leaf=s.tag, outage=Outage(s.ago(30), "NVLink errors"))
    s.job(forgotten.devices, s.ago(33.5), s.ago(30.2), "train-lean")
    s.plant("drained", "drained for thirty hours", ("node", forgotten.name), since_s=s.ago(30))
    short = s.node(A100, gpus=2, every=2, leaf=s.tag, outage=Outage(s.ago(7), "firmware"))
    s.job(short.devices, s.ago(33), s.ago(7.5), "train-lean")
    s.decoy("maintenance", "out for seven hours", ("node", short.name))
    draining = s.node(A100, gpus=2, every=2, leaf=s.tag, outage=Outage(s.ago(31), "replace after this job"))
    s.job(draining.devices, s.ago(33), None, "train-lean", "goes-on")
    s.decoy("draining", "its job holds all its GPUs until the end", ("node", draining.name))
    down = s.node(A100, gpus=2, every=2, leaf=s.tag, outage=Outage(s.ago(28.5), "Not responding", down=True))
    s.plant("down", "down for more than a day", ("node", down.name), since_s=s.ago(28.5))


@scene(DETECTOR, "cordoned", rank=2, gpus=4, hours=32)
def cordoned(s: Stage) -> None:
    """Kubernetes: a node that was cordoned and emptied, and one that is cordoned for the evening."""
    forgotten = s.node(A30, "kubernetes", gpus=2, every=2, links="pcie", outage=Outage(s.ago(29), "cordoned"))
    s.pod(forgotten.devices, s.ago(31.5), s.ago(29.2), "train-pcie", "before")
    s.plant("cordoned", "cordoned for 29 hours", ("node", forgotten.name), since_s=s.ago(29))
    short = s.node(A30, "kubernetes", gpus=2, every=2, links="pcie", outage=Outage(s.ago(6), "cordoned"))
    s.pod(short.devices, s.ago(31), s.ago(6.5), "train-pcie", "evening")
    s.decoy("cordoned-briefly", "out for six hours", ("node", short.name))
