"""Jobs for which a slice or a smaller GPU would do, and jobs that only have a small memory."""

from __future__ import annotations

from gpuwatch.simulate.models import A100, H100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "right-sizing"


@scene(DETECTOR, "a-slice-would-do", rank=1, gpus=4, hours=40)
def a_slice_would_do(s: Stage) -> None:
    """A service of 7 GiB that uses a third of an H100 for a day and a half."""
    node = s.node(H100, "kubernetes", gpus=4, every=2)
    light, full, small, brief = node.devices
    serves = s.pod((light,), s.ago(39), None, "light-serve", "embed", "ReplicaSet", "chat-prod")
    s.plant("a-slice-would-do", "7 GiB and a third of the SMs for 39 hours", serves)
    large = s.pod((full,), s.ago(39), None, "decode", "llm", "ReplicaSet", "chat-prod")
    s.decoy("fills-its-memory", "73 GiB of weights and cache", large)
    busy = s.pod((small,), s.ago(39), s.ago(0.5), "full-but-small", "gnn", "Job")
    s.decoy("all-sms", "8 GiB, and all SMs and tensor cores at work", busy)
    short = s.pod((brief,), s.ago(9), s.ago(1), "light-serve", "trial", "Job")
    s.decoy("eight-hours", "as small, for eight hours only", short)


@scene(DETECTOR, "small-under-slurm", rank=2, gpus=2, hours=40)
def small_under_slurm(s: Stage) -> None:
    """Slurm: a job that uses a third of an A100, and one that fills it."""
    node = s.node(A100, gpus=2, every=2, leaf=s.tag)
    light = s.job(node.devices[:1], s.ago(38.5), s.ago(0.5), "light-serve", "embed")
    s.plant("small-under-slurm", "7 GiB and a third of the SMs for 38 hours", light)
    full = s.job(node.devices[1:], s.ago(38.5), s.ago(0.5), "train", "pretrain")
    s.decoy("fills-its-gpu", "trains with all SMs", full)
