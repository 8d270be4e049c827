"""Runs whose work is lost, and runs that end early for good reason."""

from __future__ import annotations

from gpuwatch.simulate.models import A100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "failed-work"
MINUTE = 60
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


@scene(DETECTOR, "tries-again", rank=3, gpus=8, hours=24)
def tries_again(s: Stage) -> None:
    """A time limit that loses a day, a job that runs out of memory again and again, and what looks like them."""
    one, two = s.node(A100, gpus=4, leaf=s.tag, every=2), s.node(A100, gpus=4, leaf=s.tag, every=2)
    limit = s.job(one.devices[:1], s.ago(23.5), s.ago(2.5), "train-lean", "simulate", state="TIMEOUT")
    s.plant("time-limit", "21 hours, then its time limit, and nothing goes on from it", limit)
    number = int(limit.number) + 50
    tried = [
        s.job(one.devices[1:3], s.ago(start), s.ago(end), "train-lean", "embed", state=state, number=number)
        for start, end, state in (
            (22, 19.5, "OUT_OF_MEMORY"),
            (19.3, 16.8, "OUT_OF_MEMORY"),
            (16.6, 13.9, "OUT_OF_MEMORY"),
            (13.7, 4, "COMPLETED"),
        )
    ]
    s.plant("out-of-memory-again", "three tries of five GPU-hours without memory", tried[0], until_s=s.ago(13.9))
    once = s.job(one.devices[3:], s.ago(20), s.ago(14), "train-lean", "trial", state="OUT_OF_MEMORY")
    s.decoy("once-without-memory", "six GPU-hours, once", once)
    saves = s.labelled(SAVES)
    broken = s.job(two.devices[:2], s.ago(23), s.ago(12), "train-lean", "tune", owner=saves, state="NODE_FAIL")
    s.job(two.devices[:2], s.ago(11.8), s.ago(1.5), "train-lean", "tune", owner=saves)
    s.decoy("node-failed-after-a-checkpoint", "half an hour lost at most, the rest was saved", broken)
    often = (("train-lean", 40 * MINUTE), ("saving", 5 * MINUTE))
    paused = s.job(two.devices[2:3], s.ago(22), s.ago(3), often, "label", state="FAILED")
    s.decoy("saves-in-its-pauses", "saves every 45 minutes, as its pauses show", paused, needs=("SM_ACTIVE",))
    s.allow("checkpoint-stall", paused, "five minutes of every 45 are for saving")
    shell = s.job(two.devices[3:], s.ago(21), s.ago(5), "notebook", "jupyter", state="TIMEOUT")
    s.decoy("session", "a session at its time limit", shell)


@scene(DETECTOR, "never-runs", rank=4, gpus=10, hours=20)
def never_runs(s: Stage) -> None:
    """Kubernetes: a crash loop that loads its model each time, images that are not pulled, and a pod that recovered."""
    node, unseen = (
        s.node(A100, "kubernetes", gpus=6, every=2),
        s.node(A100, "kubernetes", gpus=4, every=2, counters="none"),
    )
    loop = s.pod(node.devices[:2], s.ago(15), None, "train-lean", "loops", blocked="CrashLoopBackOff", restarts=140)
    s.plant("crash-loop", "two GPUs for 15 hours, started again every six minutes", loop)
    brief = s.pod(node.devices[2:3], s.ago(3), None, "train-lean", "new", blocked="CrashLoopBackOff", restarts=25)
    s.decoy("crash-loop-of-hours", "three GPU-hours", brief)
    rare = s.pod(node.devices[3:5], s.ago(18), None, "train-lean", "rare", blocked="CrashLoopBackOff", restarts=6)
    s.decoy("fails-now-and-then", "six restarts in eighteen hours: it works in between", rare)
    well = s.pod(node.devices[5:], s.ago(16), None, "train-lean", "well", restarted_s=s.ago(15))
    s.decoy("restarted-once", "one restart, then it worked", well)
    image = s.pod(unseen.devices[:2], s.ago(14), None, "train-lean", "typo", blocked="ImagePullBackOff")
    s.plant("image-not-pulled", "two GPUs for 14 hours without an image", image)
    late = s.pod(unseen.devices[2:], s.ago(2), None, "train-lean", "slow", blocked="ImagePullBackOff")
    s.decoy("image-of-two-hours", "four GPU-hours", late)
    s.allow("blind-spot", ("node", unseen.name), "its GPUs are not measured")


@scene("idle-hoarding", "image-not-pulled", rank=4, gpus=2, hours=14)
def image_not_pulled(s: Stage) -> None:
    """Kubernetes: the GPUs of a pod without an image are measured, and idle."""
    node = s.node(A100, "kubernetes", gpus=2, every=2)
    image = s.pod(node.devices, s.ago(12), None, "idle", "no-image", blocked="ImagePullBackOff")
    s.plant("image-not-pulled", "two measured GPUs idle for twelve hours while an image is not pulled", image)
    s.allow(DETECTOR, image, "the work that never began is lost as well")
