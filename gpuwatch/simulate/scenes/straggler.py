"""Gangs that wait for one slow GPU, and gangs that are uneven by design."""

from __future__ import annotations

from gpuwatch.simulate.models import A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "straggler"


@scene(DETECTOR, "throttled-gpu", rank=1, gpus=8, hours=7)
def throttled_gpu(s: Stage) -> None:
    """One of eight boards is hot and clocks down by a third: the others wait at each barrier."""
    node = s.node(counters="health", leaf=s.tag)
    loads = ["waits-for-slow"] * 8
    loads[5] = "slow-one"
    job = s.job(node.devices, s.ago(6.5), s.ago(0.4), name="pretrain", loads=loads)
    s.patch(node.devices[5], "temperature", s.ago(6.4), s.ago(0.4), scale=1, first=22, last=24)
    s.plant("throttled-gpu", "GPU 5 at two thirds of its clock and 22 C hotter, seven wait for it", job)


@scene(DETECTOR, "narrow-link", rank=2, gpus=4, hours=7)
def narrow_link(s: Stage) -> None:
    """One board sits on four PCIe lanes instead of sixteen, and its replays rise."""
    node = s.node(A100, gpus=4, counters="health", leaf=s.tag)
    loads = ["waits-for-slow", "waits-for-slow", "slow-link", "waits-for-slow"]
    job = s.job(node.devices, s.ago(6.4), s.ago(0.5), name="llm-sft", loads=loads)
    slow = node.devices[2]
    s.patch(slow, "pcie_lanes", s.ago(7), None, first=4, last=4)
    s.patch(slow, "pcie_replays", s.ago(6.4), s.ago(0.5), scale=1, first=0, last=9000)
    s.plant("narrow-link", "GPU 2 on four of sixteen lanes, three wait for it", job)
    s.allow("degraded-gpu", ("gpu", slow.gpu), "its PCIe link is narrower than the board's")


@scene(DETECTOR, "uneven-by-design", rank=3, gpus=16, hours=7)
def uneven_by_design(s: Stage) -> None:
    """Stages of a pipeline, rank 0 that logs, a rack that is warm as a whole, one GPU that idles."""
    nodes = [s.node(A100, gpus=4, counters="health", leaf=s.tag) for _ in range(4)]
    stages = ["stage-first", "stage-middle", "stage-middle", "stage-last"]
    owner = s.labelled(("gpuwatch.io/parallelism", "pipeline"))
    piped = s.job(nodes[0].devices, s.ago(6.5), s.ago(0.5), loads=stages, owner=owner)
    s.decoy("pipeline-stages", "the first stage has more to do, and the label says so", piped)
    logs = s.job(nodes[1].devices, s.ago(6.5), s.ago(0.5), loads=["rank-zero", "train", "train", "train"])
    s.decoy("rank-zero", "rank 0 writes logs; no board is slow", logs)
    warm = s.job(nodes[2].devices, s.ago(6.5), s.ago(0.5), "all-hot")
    s.decoy("all-alike", "all four boards clock down alike: nobody waits for one", warm)
    plain = s.job(nodes[3].devices, s.ago(6.5), s.ago(0.5), "train")
    s.patch(nodes[3].devices[1], "temperature", s.ago(6.4), s.ago(0.5), scale=1, first=13, last=13)
    s.decoy("warm-but-even", "one board is warmer, and as fast as the others", plain)
