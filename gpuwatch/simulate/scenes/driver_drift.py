"""Drivers that differ within a pool, for good or while they are rolled out."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "driver-drift"
OLD, NEW = "535.183.01", "550.90.07"


@scene(DETECTOR, "one-left-behind", rank=1, gpus=6, hours=30)
def one_left_behind(s: Stage) -> None:
    """Slurm: one of three nodes has the driver of last year."""
    nodes = [s.node(A100, gpus=2, every=4, driver=driver, leaf=s.tag) for driver in (NEW, NEW, OLD)]
    for node in nodes:
        s.job(node.devices, s.ago(29), s.ago(0.5), "train-lean")
    s.plant("one-left-behind", "535 beside 550 for thirty hours", ("pool", nodes[0].pool))


@scene(DETECTOR, "two-branches", rank=2, gpus=4, hours=30)
def two_branches(s: Stage) -> None:
    """Kubernetes: two branches in one node pool."""
    nodes = [s.node(A30, "kubernetes", gpus=2, every=4, driver=d, links="pcie") for d in (NEW, "560.35.03")]
    for at, node in enumerate(nodes):
        s.pod(node.devices, s.ago(29), None, "train-pcie", f"both-{at}")
    s.plant("two-branches", "550 beside 560 for thirty hours", ("pool", nodes[0].pool))


@scene(DETECTOR, "rolled-out", rank=3, gpus=6, hours=30)
def rolled_out(s: Stage) -> None:
    """The new driver came node by node within eight hours; another pool has one driver of its own."""
    nodes = [
        s.node(A100, gpus=2, every=4, driver=NEW, drivers_before=((s.ago(20 - 4 * at), OLD),), leaf=s.tag)
        for at in range(3)
    ]
    for node in nodes:
        s.job(node.devices, s.ago(29), s.ago(21), "train-lean")
        s.job(node.devices, s.ago(11.5), s.ago(0.5), "train-lean")
    s.decoy("rolled-out", "the versions differed for eight hours of an upgrade", ("pool", nodes[0].pool))
