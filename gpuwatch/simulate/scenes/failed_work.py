"""Runs whose work is lost, and runs that end early for good reason."""

from __future__ import annotations

from gpuwatch.simulate.models import A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "failed-work"
SAVES = ("gpuwatch.io/checkpoint-minutes", "30")


@scene(DETECTOR, "fails-after-a-day", rank=1, gpus=8, hours=30)
def fails_after_a_day(s: Stage) -> None:
    """Jobs that fail after many hours, retries of a failed node, and ends that lose nothing."""
    one, two = s.node(A100, gpus=4, leaf=s.tag, every=2), s.node(A100, gpus=4, leaf=s.tag, every=2)
    lost = s.job(one.devices[:2], s.ago(29), s.ago(3), "train-lean", "pretrain", state="FAILED")
    s.plant("fails-after-a-day", "two GPUs for 26 hours, then an error", lost, devices=lost.devices)
    stopped = s.job(one.devices[2:3], s.ago(28), s.ago(2), "train-lean", "sweep", state="CANCELLED")
    s.decoy("cancelled", "its user stopped it", stopped)
    short = s.job(one.devices[3:], s.ago(26), s.ago(21), "train-lean", "trial", state="FAILED")
    s.decoy("short", "five GPU-hours", short)
    number = int(short.number) + 50
    tried = [
        s.job(two.devices[:2], s.ago(start), s.ago(end), "train-lean", "finetune", state=state, number=number)
        for start, end, state in ((28, 22, "NODE_FAIL"), (21.8, 14, "NODE_FAIL"), (13.8, 2, "COMPLETED"))
    ]
    s.plant("retried", "two failures of its node before it completed", tried[0], until_s=s.ago(14))
    owner = s.labelled(SAVES)
    saved = s.job(two.devices[2:], s.ago(28), s.ago(6), "train-lean", "distil", owner=owner, state="TIMEOUT")
    s.job(two.devices[2:], s.ago(5.9), s.ago(1), "train-lean", "distil", owner=owner)
    s.decoy("saved", "its time limit, after which the next job goes on from the checkpoint", saved)


@scene(DETECTOR, "out-of-memory-pod", rank=2, gpus=6, hours=20)
def out_of_memory_pod(s: Stage) -> None:
    """Kubernetes: a Job without memory after many hours, one that was preempted, and a server."""
    node = s.node(A100, "kubernetes", gpus=6, every=2)
    killed = s.pod(node.devices[:2], s.ago(19), s.ago(2), "train-lean", "grow", state="FAILED", exit_code=137)
    s.plant("out-of-memory-pod", "34 GPU-hours, then killed for its memory", killed)
    taken = s.pod(node.devices[2:4], s.ago(18), s.ago(3), "train-lean", "cheap", state="PREEMPTED",
                  taken="PreemptionByScheduler")  # fmt: skip
    s.decoy("preempted", "a pod of higher priority took its place", taken)
    server = s.pod(node.devices[4:], s.ago(19), s.ago(1), "train-lean", "answers", state="FAILED",
                   labels=(("gpuwatch.io/workload-class", "serving"),))  # fmt: skip
    s.decoy("server", "its requests were answered", server)
