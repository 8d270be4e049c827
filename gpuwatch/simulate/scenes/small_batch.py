"""Batches too small to fill a GPU, and small ones with a reason."""

from __future__ import annotations

from gpuwatch.simulate.models import H200, L40S
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "small-batch"


@scene(DETECTOR, "half-empty", rank=1, gpus=4, hours=8)
def half_empty(s: Stage) -> None:
    """Slurm: engine .70, SM .31, a third of the memory, for seven hours."""
    node = s.node(gpus=4, leaf=s.tag)
    small = s.job(node.devices[:1], s.ago(7.5), s.ago(0.4), "small-batch", "score-batch")
    s.plant("half-empty", "engine .70, SM .31, a third of its memory", small)
    full = s.job(node.devices[1:2], s.ago(7.5), s.ago(0.4), "batch-full-memory", "score-batch")
    s.decoy("memory-is-full", "the same, but its memory leaves no room for a larger batch", full)
    right = s.job(node.devices[2:3], s.ago(7.5), s.ago(0.4), "batch-right", "score-batch")
    s.decoy("filled", "SM .72", right)
    brief = s.job(node.devices[3:], s.ago(6), s.ago(4.9), "small-batch", "score-batch")
    s.decoy("an-hour", "small batches for an hour only", brief)


@scene(DETECTOR, "service", rank=2, gpus=4, hours=8)
def service(s: Stage) -> None:
    """Kubernetes: services with small batches; one of them promises latency."""
    node = s.node(L40S, "kubernetes", gpus=4, links="pcie")
    small = s.pod(node.devices[:1], s.ago(7.5), None, "small-batch-tuned", "score", "ReplicaSet", "chat-prod")
    s.plant("service", "SM .34 at .66 busy, less than half of its memory", small)
    promised = s.pod(
        node.devices[1:2], s.ago(7.5), None, "small-batch", "live", "ReplicaSet", "chat-prod",
        labels=(("gpuwatch.io/workload-class", "latency-critical"),),
    )  # fmt: skip
    s.decoy("latency-critical", "answers at once, and says so", promised)
    busy = s.pod(node.devices[2:3], s.ago(7.4), None, "batch-right", "bulk", "Job")
    s.decoy("large-batches", "SM .72", busy)


@scene(DETECTOR, "training", rank=3, gpus=2, hours=7)
def training(s: Stage) -> None:
    """A training run with a batch of one on a large GPU."""
    node = s.node(H200, "kubernetes", gpus=2)
    small = s.pod(node.devices, s.ago(6.5), s.ago(0.3), "small-batch-tuned", "bert", "Job")
    s.plant("training", "both GPUs: SM .34 at .66 busy, memory .42", small)
