"""Held GPUs without measurements, and short gaps."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, L40S
from gpuwatch.simulate.patches import GONE
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "blind-spot"


@scene(DETECTOR, "one-gpu-silent", rank=1, gpus=2, hours=8)
def one_gpu_silent(s: Stage) -> None:
    """Slurm: the exporter leaves one GPU out while a job has it; of the other it misses forty minutes."""
    node = s.node(L40S, gpus=2, links="pcie", leaf=s.tag)
    silent, gap = node.devices
    hidden = s.job((silent,), s.ago(6), s.ago(1), "batch")
    s.patch(silent, GONE, s.ago(6.1), s.ago(0.9))
    s.plant("one-gpu-silent", "held for five hours, not one sample", hidden)
    brief = s.job((gap,), s.ago(7), s.ago(0.5), "batch")
    s.patch(gap, GONE, s.ago(4), s.ago(3.34))
    s.decoy("exporter-restarts", "forty minutes without samples", brief)


@scene(DETECTOR, "no-job-no-samples", rank=2, gpus=2, hours=8)
def no_job_no_samples(s: Stage) -> None:
    """Kubernetes: a pod whose GPU is not measured for four hours; another GPU is not measured while it is free."""
    node = s.node(A30, "kubernetes", gpus=2, links="pcie")
    silent, free = node.devices
    hidden = s.pod((silent,), s.ago(5.5), s.ago(1.5), "batch", "unseen")
    s.patch(silent, GONE, s.ago(5.6), s.ago(1.4))
    s.plant("pod-not-told", "held for four hours, not one sample", hidden)
    seen = s.pod((free,), s.ago(7.5), s.ago(5), "batch", "seen")
    s.patch(free, GONE, s.ago(4.5), s.ago(2.5))
    s.decoy("silent-while-free", "its samples are missing after it ended", seen)
