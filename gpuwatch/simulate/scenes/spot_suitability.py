"""Jobs that could run on spot capacity, and jobs that could not."""

from __future__ import annotations

from gpuwatch.simulate.models import L4
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "spot-suitability"


@scene(DETECTOR, "saves-each-quarter-hour", rank=1, gpus=3, hours=40)
def saves_each_quarter_hour(s: Stage) -> None:
    """Training that saves every fifteen minutes, a service, and a run that never saves."""
    node = s.node(L4, gpus=3, links="pcie", every=2, leaf=s.tag)
    owner = s.labelled(("gpuwatch.io/checkpoint-minutes", "15"))
    saves = s.job(node.devices[:1], s.ago(39), s.ago(1), "train-pcie", "finetune", owner=owner)
    s.plant("saves-each-quarter-hour", "38 GPU-hours, a checkpoint every fifteen minutes", saves)
    owner = s.labelled(("gpuwatch.io/workload-class", "serving"))
    serves = s.job(node.devices[1:2], s.ago(39), None, "full-but-small", "api", owner=owner)
    s.decoy("service", "serves requests, and says so", serves)
    owner = s.labelled(("gpuwatch.io/checkpoint-minutes", "1440"))
    never = s.job(node.devices[2:], s.ago(38), s.ago(1), "train-pcie", "one-shot", owner=owner)
    s.decoy("saves-once-a-day", "a lost day costs more than spot saves", never)


@scene(DETECTOR, "pod-that-saves", rank=2, gpus=2, hours=40)
def pod_that_saves(s: Stage) -> None:
    """Kubernetes: a Job that saves every half hour, and an interactive one."""
    node = s.node(L4, "kubernetes", gpus=2, links="pcie", every=2)
    saves = s.pod(node.devices[:1], s.ago(39), s.ago(2), "train-pcie", "distil", "Job",
                  labels=(("gpuwatch.io/checkpoint-minutes", "30"),))  # fmt: skip
    s.plant("pod-that-saves", "37 GPU-hours, a checkpoint every half hour", saves)
    held = s.pod(node.devices[1:], s.ago(39), None, "full-but-small", "desk", "StatefulSet", "notebooks",
                 labels=(("gpuwatch.io/workload-class", "interactive"),))  # fmt: skip
    s.decoy("interactive", "somebody works on it", held)
