"""Memory that was not released, memory that only grows, and memory that looks like it."""

from __future__ import annotations

from gpuwatch.simulate.loads import HOUR
from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "memory-leak"
BASELINE_MIB = 420


@scene(DETECTOR, "orphan-and-growth", rank=1, gpus=4, hours=12)
def orphan_and_growth(s: Stage) -> None:
    """A context that outlived its job, and a job whose memory grows evenly while its work does not."""
    node = s.node(A100, gpus=4, leaf=s.tag)
    orphan, grows, saw, base = node.devices
    mib = node.model.fb_mib
    s.job((orphan,), s.ago(11.5), s.ago(5), "train-lean", state="CANCELLED")
    s.patch(orphan, "memory_used", s.ago(5), None, first=21_300, last=21_300)
    s.plant(
        "orphaned-context",
        "21 GiB in use since its job was cancelled, and nobody holds the GPU",
        ("gpu", orphan.gpu),
        devices=(orphan,),
        since_s=s.ago(5),
    )
    leak = s.job((grows,), s.ago(11.3), s.ago(0.4), "train-lean", "resnet-ddp")
    s.patch(grows, "memory_used", s.ago(11.3), s.ago(0.4), first=0.31 * mib, last=0.93 * mib)
    s.plant("even-growth", "memory grows by 5 GiB an hour for eleven hours, work does not", leak)
    steps = s.job((saw,), s.ago(11.3), s.ago(0.4), "train-lean", "eval")
    for hour in range(11):
        start = s.ago(11.3) + hour * HOUR
        s.patch(saw, "memory_used", start, min(start + HOUR, s.ago(0.4)), first=0.35 * mib, last=0.62 * mib)
    s.decoy("sawtooth", "grows for an hour and falls back, again and again: a cache that is emptied", steps)
    s.job((base,), s.ago(11), s.ago(6), "batch")
    s.patch(base, "memory_used", s.ago(6), None, first=BASELINE_MIB, last=BASELINE_MIB)
    s.decoy("driver-baseline", "420 MiB of the driver itself", ("gpu", base.gpu), devices=(base,))


@scene(DETECTOR, "orphan-after-pod", rank=2, gpus=4, hours=8)
def orphan_after_pod(s: Stage) -> None:
    """Kubernetes: a process outlived its pod; another GPU was only filled once at the start."""
    node = s.node(A30, "kubernetes", gpus=4, links="pcie")
    orphan, filled, steps, _ = node.devices
    mib = node.model.fb_mib
    s.pod((orphan,), s.ago(7.6), s.ago(4.5), "batch", "score", state="FAILED")
    s.patch(orphan, "memory_used", s.ago(4.5), None, first=0.62 * mib, last=0.62 * mib)
    s.plant(
        "orphan-after-pod",
        "15 GiB in use for hours after the pod failed",
        ("gpu", orphan.gpu),
        devices=(orphan,),
        since_s=s.ago(4.5),
    )
    cache = s.pod((filled,), s.ago(7.6), None, "batch", "cache")
    s.patch(filled, "memory_used", s.ago(7.6), s.ago(6.9), first=0.2 * mib, last=0.88 * mib)
    s.patch(filled, "memory_used", s.ago(6.9), None, first=0.88 * mib, last=0.88 * mib)
    s.decoy("fills-its-cache", "fills its cache in the first hour and stays there", cache)
    stairs = s.pod((steps,), s.ago(7.6), None, "batch", "stairs")
    for number, share in enumerate((0.3, 0.55, 0.56)):
        start = s.ago(7.6) + number * 5 * HOUR // 2
        s.patch(steps, "memory_used", start, start + 5 * HOUR // 2, first=share * mib, last=share * mib)
    s.decoy("one-step", "one larger batch size, then even", stairs)
