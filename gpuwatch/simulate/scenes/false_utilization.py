"""Other models that are busy by GPU_UTIL only, and some that are not."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, H200, L40S
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "false-utilization"


@scene(DETECTOR, "without-nvlink", rank=1, gpus=4, hours=8)
def without_nvlink(s: Stage) -> None:
    """L40S: unbatched inference and a spinning kernel; beside them a decoder at its memory roof and a full batch."""
    node = s.node(L40S, gpus=4, links="pcie", leaf=s.tag)
    unbatched, spins, decodes, full = (
        s.job((device,), s.ago(7.4 - 0.1 * at), s.ago(0.5), load, "score-batch")
        for at, (device, load) in enumerate(
            zip(node.devices, ("unbatched", "spinning", "decode", "batch-right"), strict=True)
        )
    )
    s.plant("unbatched-l40s", "GPU_UTIL 96, SM .22 on an L40S", unbatched)
    s.plant("spinning-l40s", "one SM spins on an L40S", spins)
    s.decoy("decode-l40s", "at the memory roof", decodes)
    s.decoy("full-batch-l40s", "SM .72", full)


@scene(DETECTOR, "waiting-loop", rank=2, gpus=3, hours=8)
def waiting_loop(s: Stage) -> None:
    """A kernel that waits in a loop on all SMs, integer work, and a light model."""
    node = s.node(H200, gpus=3, leaf=s.tag)
    waits, counts, light = (
        s.job((device,), s.ago(7.4 - 0.1 * at), s.ago(0.5), load, "search")
        for at, (device, load) in enumerate(
            zip(node.devices, ("waiting-loop", "integer-work", "light-model"), strict=True)
        )
    )
    s.plant("waiting-loop", "all SMs active, no tensor or memory activity, power near idle", waits)
    s.decoy("integer-work", "no tensor or memory activity, half of the power", counts)
    s.decoy("light-model", "little power, but tensor cores and memory work", light)


@scene(DETECTOR, "partitioned-a30", rank=2, gpus=2, hours=8)
def partitioned_a30(s: Stage) -> None:
    """A30 in four slices: two that only look busy, two that work."""
    node = s.node(A30, "kubernetes", gpus=2, links="pcie", layouts=[("1g.6gb",) * 4, ("2g.12gb", "2g.12gb")])
    fake = s.pod(node.devices[:1], s.ago(7.2), s.ago(0.4), "slice-masked", "fake", "Job")
    s.plant("slice-of-an-a30", "engine .95, SM .18 of a quarter of an A30", fake)
    large = s.pod(node.devices[4:5], s.ago(7.1), s.ago(0.4), "slice-masked", "fake-large", "Job")
    s.plant("half-of-an-a30", "engine .95, SM .18 of half an A30", large)
    for at, device in enumerate((node.devices[1], node.devices[5])):
        works = s.pod((device,), s.ago(7), s.ago(0.4), "slice-busy", f"works-{at}", "Job")
        s.decoy("busy-slice-of-an-a30", "all SMs of the slice busy", works)


@scene(DETECTOR, "gang-of-small-kernels", rank=2, gpus=4, hours=8)
def gang_of_small_kernels(s: Stage) -> None:
    """H200 under Kubernetes: four GPUs of one gang launch kernels that are too small; another is latency-critical."""
    node = s.node(H200, "kubernetes", gpus=4)
    gang = s.pod(node.devices[:3], s.ago(7.3), s.ago(0.3), "small-kernels", "tiny-steps", "Job")
    s.plant("gang-of-small-kernels", "SM .17 at engine .94 on three GPUs", gang)
    kept = s.pod(
        node.devices[3:], s.ago(7.3), None, "latency", "kept-warm", "ReplicaSet", "chat-prod",
        labels=(("gpuwatch.io/workload-class", "latency-critical"),),
    )  # fmt: skip
    s.decoy("kept-warm", "kept warm for latency, and says so", kept)
