"""Queues that wait below their quota while others borrow, and queues that wait for what is not theirs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.simulate.fleet import Device
from gpuwatch.simulate.models import A30, A100
from gpuwatch.simulate.queues import cluster_queue, flavor, local_queue, volcano_queue, workload
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.scenes.gang_partial import pod_group
from gpuwatch.simulate.staging import Stage

DETECTOR = "starvation"
UNUSED, OVER = "insufficient unused quota", "insufficient quota"
"""What lacks where others hold the quota, and where the queue has no more."""


@scene(DETECTOR, "borrowed-away", rank=1, gpus=8, hours=7)
def borrowed_away(s: Stage) -> None:
    """Kueue: one queue has one of its four GPUs and waits for hours; the other has seven, three of them borrowed."""
    nodes = [s.node(A100, "kubernetes", gpus=4) for _ in range(2)]
    gpus = [device for node in nodes for device in node.devices]
    poor, rich = f"{s.tag}-poor", f"{s.tag}-rich"
    kueue = Kueue(s, f"{s.tag}-cohort", nodes[0].pool)
    kueue.runs(poor, "small", gpus[:1], 6.5)
    for at, part in enumerate((gpus[1:4], gpus[4:])):
        kueue.runs(rich, f"large-{at}", part, 6.4)
    kueue.waits(poor, "wanted", 3, 2.6, UNUSED)
    kueue.queue(poor, 4, 1, 1)
    kueue.queue(rich, 4, 7, 0)
    s.plant(
        "borrowed-away", "uses 1 of its 4 and waits for 3; the other borrows 3", ("queue", poor), since_s=s.ago(2.6)
    )


@scene(DETECTOR, "volcano-overuse", rank=2, gpus=4, hours=7)
def volcano_overuse(s: Stage) -> None:
    """Volcano: a queue that deserves two GPUs has none and waits, the other has all four."""
    node = s.node(A30, "kubernetes", gpus=4, links="pcie")
    poor, rich = f"{s.tag}-none", f"{s.tag}-all"
    for at, device in enumerate(node.devices):
        s.pod((device,), s.ago(6.5), None, "batch", f"over-{at}", namespace="queues", team="vision", authority="volcano",
              labels=(("scheduling.volcano.sh/queue-name", rich),))  # fmt: skip
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    s.pod((), None, workload="starved", namespace="queues", team="physics", authority="volcano", gpus=2,
          controller="VolcanoJob", labels=(("scheduling.volcano.sh/queue-name", poor),), submit_s=s.ago(2.4),
          reason=message, pool=node.pool)  # fmt: skip
    s.objects.append(pod_group(s, f"{s.tag}-starved", "queues", 1, 1, 0, s.ago(2.4), queue=poor, gpus=2))
    s.objects.append(volcano_queue(poor, 2, 0, 1, s.epoch))
    s.objects.append(volcano_queue(rich, 2, 4, 0, s.epoch))
    s.plant("volcano-overuse", "deserves 2, has none; the other uses 4 of its 2", ("queue", poor), since_s=s.ago(2.4))


@scene(DETECTOR, "not-theirs", rank=3, gpus=8, hours=7)
def not_theirs(s: Stage) -> None:
    """A queue that has all its quota and wants more, and one that has waited for ten minutes."""
    nodes = [s.node(A100, "kubernetes", gpus=4) for _ in range(2)]
    full, lender = f"{s.tag}-full", f"{s.tag}-lender"
    kueue = Kueue(s, f"{s.tag}-cohort", nodes[0].pool)
    kueue.runs(full, "all", nodes[0].devices, 6.5)
    kueue.runs(lender, "some", nodes[1].devices, 6.4)
    kueue.waits(full, "more", 2, 3, OVER)
    kueue.waits(lender, "soon", 2, 0.15, OVER)
    kueue.queue(full, 4, 4, 1)
    kueue.queue(lender, 4, 4, 1)
    s.decoy("over-its-quota", "uses all of its quota and wants more than it has", ("queue", full))
    s.decoy("ten-minutes", "waits since nine minutes, and nobody borrows", ("queue", lender))


class Kueue:
    """A cohort of one flavor: a namespace, a LocalQueue and a ClusterQueue of the same name for each queue."""

    def __init__(self, s: Stage, cohort: str, pool: str) -> None:
        self.s, self.cohort, self.pool = s, cohort, pool
        self.flavor = f"{s.tag}-flavor"
        s.objects.append(flavor(self.flavor, pool, s.epoch))

    def runs(self, queue: str, name: str, devices: Sequence[Device], hours: float, priority: int = 0) -> Run:
        """A Job that was let in `hours` before the end and runs on."""
        s, at = self.s, self.s.ago(hours)
        run = s.pod(devices, at, None, "train-lean", name, namespace=queue, queue=queue, team="nlp", submit_s=at - 60)
        s.objects.append(
            workload(run.name, queue, queue, queue, self.flavor, len(devices), s.epoch, at - 60, at, priority=priority)
        )
        return run

    def waits(self, queue: str, name: str, gpus: int, hours: float, lacks: str, priority: int = 0) -> str:
        """A Job that waits since `hours` for their quota: Kueue makes no pods for it. Returns its job id."""
        s, job = self.s, f"{self.s.tag}-{name}"
        message = f"{lacks} for nvidia.com/gpu in flavor {self.flavor}, {gpus} more needed"
        why = ("Pending", f"couldn't assign flavors to pod set main: {message}")
        s.objects.append(
            workload(job, queue, queue, queue, self.flavor, gpus, s.epoch, s.ago(hours), priority=priority, waits=why)
        )
        return f"{queue}/{job}"

    def queue(self, name: str, nominal: int, used: int, pending: int) -> None:
        """The objects of a queue as they are at the end."""
        s = self.s
        s.objects.append(cluster_queue(name, self.cohort, self.flavor, nominal, used, pending, s.epoch))
        s.objects.append(local_queue(name, name, name, pending, s.epoch))
