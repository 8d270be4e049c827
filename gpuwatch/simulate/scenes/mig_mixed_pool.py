"""Pools with partitioned and whole GPUs side by side."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "mig-mixed-pool"
NO_GPU = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. preemption: no preemption victims found."


@scene(DETECTOR, "mixed", rank=1, gpus=4, hours=9)
def mixed(s: Stage) -> None:
    """One node with slices, one with whole GPUs, no taints; a pod waits for a whole GPU while a partitioned one idles."""
    pool = f"{s.tag}-mixed"
    whole = s.node(A100, "kubernetes", gpus=2, pool=pool, mig_strategy="single")
    cut = s.node(A100, "kubernetes", gpus=2, pool=pool, mig_strategy="single", layouts=[("3g.40gb", "3g.40gb")])
    s.pod(whole.devices, s.ago(8.5), None, "train-lean", "whole")
    s.pod(cut.devices[:1], s.ago(8.5), None, "slice-serve", "slice", "ReplicaSet", "chat-prod")
    s.pod((), None, workload="waits", gpus=1, submit_s=s.ago(2), reason=NO_GPU, pool=pool)
    s.plant("mixed", "slices and whole GPUs in one pool, and a pod waits", ("pool", pool))


@scene(DETECTOR, "tainted", rank=2, gpus=4, hours=8)
def tainted(s: Stage) -> None:
    """Strategy mixed, and the partitioned node is tainted: who comes there knows it."""
    pool = f"{s.tag}-tainted"
    taints = (("mig", "true", "NoSchedule"),)
    whole = s.node(A100, "kubernetes", gpus=2, pool=pool)
    cut = s.node(A100, "kubernetes", gpus=2, pool=pool, layouts=[("3g.40gb", "3g.40gb")], taints=taints,
                 labels=(("gpuwatch.io/taint", "mig"),))  # fmt: skip
    s.pod(whole.devices, s.ago(7.5), None, "train-lean", "whole")
    for at, device in enumerate(cut.devices):
        s.pod((device,), s.ago(7.5), None, "slice-serve", f"slice-{at}", "ReplicaSet", "chat-prod")
    s.decoy("mixed-and-tainted", "strategy mixed, and taints keep them apart", ("pool", pool))


@scene(DETECTOR, "nobody-waits-yet", rank=2, gpus=3, hours=8)
def nobody_waits_yet(s: Stage) -> None:
    """A30: strategy single, so that a request for one GPU may get a slice."""
    pool = f"{s.tag}-single"
    whole = s.node(A30, "kubernetes", gpus=2, pool=pool, mig_strategy="single", links="pcie")
    cut = s.node(A30, "kubernetes", gpus=1, pool=pool, mig_strategy="single", links="pcie", layouts=[("2g.12gb",) * 2])
    s.pod(whole.devices, s.ago(7.5), None, "train-pcie", "whole")
    s.pod(cut.devices[:1], s.ago(7.5), None, "slice-serve", "slice", "ReplicaSet", "chat-prod")
    s.plant("single-strategy", "slices and whole GPUs answer to the same name", ("pool", pool))
