"""Other models that are held and idle, alone and shared, and pauses that are none."""

from __future__ import annotations

from gpuwatch.simulate.models import A30, H200, L40S
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "idle-hoarding"
MINUTE = 60


@scene(DETECTOR, "other-models", rank=1, gpus=4, hours=8)
def other_models(s: Stage) -> None:
    """L40S: held and never used, left after work, compiling for eight minutes, pausing for twelve."""
    node = s.node(L40S, gpus=4, links="pcie", leaf=s.tag)
    never, left, compiles, pauses = node.devices
    run = s.job((never,), s.ago(7.3), s.ago(0.4), "context", "lab", state="TIMEOUT")
    s.plant("never-used-l40s", "held for seven hours, never used", run)
    gone = s.job((left,), s.ago(7.2), None, (("batch", 2 * 3600), ("resident", 24 * 3600)), "lab")
    s.plant("left-after-work-l40s", "two hours of work, then nothing, memory full", gone, since_s=s.ago(5.1))
    starts = s.job((compiles,), s.ago(7.1), s.ago(0.5), "warm-up", "llm-sft")
    s.decoy("compiles", "idle for its first eight minutes", starts)
    waits = s.job((pauses,), s.ago(7), s.ago(0.5), (("batch", 23 * MINUTE), ("resident", 11 * MINUTE)), "preprocess")
    s.decoy("short-pauses", "eleven minutes between two phases", waits)
    s.allow("checkpoint-stall", waits, "it does stop at regular times; whether to save is not to be seen")


@scene(DETECTOR, "part-of-a-gang", rank=2, gpus=4, hours=8)
def part_of_a_gang(s: Stage) -> None:
    """H200: one of four GPUs of a pod is never used; and a quarter of an A30 would be enough for the notebook beside."""
    node = s.node(H200, "kubernetes", gpus=4)
    loads = ("train-lean", "train-lean", "train-lean", "context")
    run = s.pod(node.devices, s.ago(7.2), s.ago(0.5), workload="three-of-four", loads=loads)
    s.plant("one-of-four", "one of four GPUs is never used", run, devices=node.devices[3:])


@scene(DETECTOR, "idle-slices", rank=2, gpus=1, hours=8)
def idle_slices(s: Stage) -> None:
    """A30 slices: one notebook left alone, one in use."""
    node = s.node(A30, "kubernetes", gpus=1, links="pcie", layouts=[("1g.6gb",) * 4])
    left = s.pod(node.devices[:1], s.ago(7.5), None, "resident", "left", "StatefulSet", "notebooks")
    s.plant("idle-slice-of-an-a30", "a notebook on a slice, nobody there", left)
    used = s.pod(node.devices[1:2], s.ago(7.4), None, "notebook", "used", "StatefulSet", "notebooks")
    s.decoy("used-notebook", "cells and pauses of minutes", used)
