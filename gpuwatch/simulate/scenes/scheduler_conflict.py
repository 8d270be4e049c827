"""Pools that several schedulers write to, and pools where one decides and another only binds."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.scenes.starvation import Kueue
from gpuwatch.simulate.staging import Stage

DETECTOR = "scheduler-conflict"


@scene(DETECTOR, "two-schedulers", rank=1, gpus=4, hours=9)
def two_schedulers(s: Stage) -> None:
    """Half of the pods of a pool are bound by Volcano, half by the default scheduler."""
    node = s.node(A100, "kubernetes", gpus=4)
    for at, device in enumerate(node.devices):
        authority = "volcano" if at % 2 else "default-scheduler"
        s.pod((device,), s.ago(8.6), None, "train-lean", f"by-{at}", authority=authority)
    s.plant("two-schedulers", "half by volcano, half by default-scheduler", ("pool", node.pool), devices=node.devices)


@scene(DETECTOR, "slurm-and-kubernetes", rank=2, gpus=4, hours=9)
def slurm_and_kubernetes(s: Stage) -> None:
    """Slurm and the kubelet run on the same host, and both give out its GPUs."""
    node = s.node(A100, "slurm", gpus=4, also_kubernetes=True, leaf=s.tag)
    s.job(node.devices[:2], s.ago(8.5), s.ago(0.3), "train-lean")
    for at, device in enumerate(node.devices[2:]):
        s.pod((device,), s.ago(8.4), None, "train-lean", f"pod-{at}", "Job")
    s.plant("slurm-and-kubernetes", "one host, two owners of its GPUs", ("pool", node.pool), devices=node.devices)


@scene(DETECTOR, "one-gates-one-binds", rank=3, gpus=4, hours=8)
def one_gates_one_binds(s: Stage) -> None:
    """Kueue lets in, kube-scheduler binds: one authority."""
    node = s.node(A30, "kubernetes", gpus=4, links="pcie")
    kueue = Kueue(s, f"{s.tag}-cohort", node.pool)
    names = (f"{s.tag}-a", f"{s.tag}-b")
    for name, part in zip(names, (node.devices[:2], node.devices[2:]), strict=True):
        kueue.runs(name, "gated", part, 7.6)
        kueue.queue(name, 2, 2, 0)
    s.decoy("one-gates-one-binds", "every pod came through Kueue", ("pool", node.pool))
