"""Work that is taken off again and again, and work that waits behind what it may displace."""

from __future__ import annotations

from gpuwatch.simulate.models import A100
from gpuwatch.simulate.queues import workload
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.scenes.starvation import UNUSED, Kueue
from gpuwatch.simulate.staging import Stage

DETECTOR = "preemption-thrash"
PREEMPTED = "PreemptionByScheduler"


@scene(DETECTOR, "four-times-a-day", rank=1, gpus=4, hours=12)
def four_times_a_day(s: Stage) -> None:
    """Kueue takes one Job off four times in eleven hours; another is taken off once."""
    node = s.node(A100, "kubernetes", gpus=4)
    kueue = Kueue(s, f"{s.tag}-cohort", node.pool)
    low = f"{s.tag}-low"
    victim = None
    for attempt in range(5):
        start = s.ago(11.6 - 2.3 * attempt)
        last = attempt == 4
        victim = s.pod(
            node.devices[:2],
            start,
            None if last else start + 5400,
            "train-lean",
            "victim",
            namespace=low,
            queue=low,
            team="vision",
            state="" if last else "PREEMPTED",
            taken="" if last else PREEMPTED,
            exit_code=None if last else 143,
        )
    assert victim is not None
    first = s.ago(11.7)
    s.objects.append(workload(victim.name, low, low, low, kueue.flavor, 2, s.epoch, first, s.ago(2.4), preempted=4))
    once_end = s.ago(7)
    once = s.pod(node.devices[2:3], s.ago(11), once_end, "train-lean", "once", namespace=low, queue=low, team="vision",
                 state="PREEMPTED", taken=PREEMPTED, exit_code=143)  # fmt: skip
    s.pod(node.devices[2:3], s.ago(6.5), None, "train-lean", "once", namespace=low, queue=low, team="vision")
    s.objects.append(workload(once.name, low, low, low, kueue.flavor, 1, s.epoch, s.ago(11.1), s.ago(6.5), preempted=1))
    kueue.queue(low, 4, 3, 0)
    s.plant("four-times-a-day", "taken off four times in ten hours", victim, since_s=s.ago(11.6))
    s.decoy("once", "taken off once", once)


@scene(DETECTOR, "slurm-requeues", rank=2, gpus=4, hours=12)
def slurm_requeues(s: Stage) -> None:
    """Slurm preempts and requeues one job five times; on the other half a node is drained as planned."""
    node = s.node(A100, gpus=4, leaf=s.tag)
    first = None
    for attempt in range(6):
        start = s.ago(11.5 - 1.9 * attempt)
        last = attempt == 5
        run = s.job(
            node.devices[:2],
            start,
            s.ago(0.4) if last else start + 4900,
            "train-lean",
            "lowprio",
            owner=first.owner if first else None,
            state="COMPLETED" if last else "PREEMPTED",
            number=first.number if first else 0,
            submit_s=start - 60,
        )
        first = first or run
    assert first is not None
    s.plant("slurm-requeues", "preempted five times in ten hours", first, since_s=s.ago(11.5), until_s=s.ago(0.4))
    cancelled = s.job(node.devices[2:], s.ago(11), s.ago(6), "train-lean", "moved", state="CANCELLED")
    s.decoy("cancelled-once", "its owner cancelled it", cancelled)


@scene(DETECTOR, "inversion", rank=2, gpus=4, hours=7)
def inversion(s: Stage) -> None:
    """A workload of priority 1000 waits for hours; the one that runs in its flavor has priority 10."""
    node = s.node(A100, "kubernetes", gpus=4)
    kueue = Kueue(s, f"{s.tag}-cohort", node.pool)
    queue = f"{s.tag}-mixed"
    kueue.runs(queue, "cheap", node.devices, 6.5, priority=10)
    kueue.waits(queue, "urgent", 4, 3.1, UNUSED, priority=1000)
    kueue.queue(queue, 4, 4, 1)
    s.plant("inversion", "priority 1000 waits for three hours behind priority 10", ("queue", queue), since_s=s.ago(3.1))


@scene(DETECTOR, "drained-as-planned", rank=3, gpus=4, hours=9)
def drained_as_planned(s: Stage) -> None:
    """Three nodes' worth of evictions for an upgrade: each pod moved on, nobody was preempted."""
    node = s.node(A100, "kubernetes", gpus=4)
    last = None
    for attempt in range(3):
        start = s.ago(8.5 - 2.5 * attempt)
        last = s.pod(node.devices[:2], start, start + 8000, "train-lean", "rolled", state="FAILED",
                     taken="EvictionByEvictionAPI", exit_code=143)  # fmt: skip
    assert last is not None
    s.decoy("planned-drain", "evicted through the eviction API for an upgrade", last)
