"""Gangs placed without regard to links: over two nodes or sockets while a nearer place was free."""

from __future__ import annotations

from gpuwatch.simulate.models import A100, H200, L40S
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "topology-blind-placement"


@scene(DETECTOR, "split-over-nodes", rank=1, gpus=12, hours=8)
def split_over_nodes(s: Stage) -> None:
    """Slurm gave two halves of two nodes though a third node was empty; later a job takes the third as it should."""
    first, second, third = (s.node(gpus=4, leaf=s.tag) for _ in range(3))
    s.job(first.devices[:2], s.ago(7.8), s.ago(0.2), "train-lean")
    s.job(second.devices[:2], s.ago(7.8), s.ago(0.2), "train-lean")
    split = s.job(first.devices[2:] + second.devices[2:], s.ago(6.6), s.ago(0.6), "train-split", "llm-sft")
    s.plant("split-over-nodes", "four GPUs on two nodes while a node of four was empty", split)
    whole = s.job(third.devices, s.ago(4.9), s.ago(0.4), "train")
    s.decoy("whole-node", "four GPUs of one node, all on NVSwitch", whole)


@scene(DETECTOR, "split-pods", rank=2, gpus=12, hours=8)
def split_pods(s: Stage) -> None:
    """The two pods of a Kubernetes Job on two nodes, and nobody on the third."""
    first, second, third = (s.node(H200, "kubernetes", gpus=4) for _ in range(3))
    s.pod(first.devices[:2], s.ago(7.7), None, "train-lean", "base-a")
    s.pod(second.devices[:2], s.ago(7.7), None, "train-lean", "base-b")
    pods = [
        s.pod(part, s.ago(6.4), s.ago(0.5), "train-split", "sharded", submit_s=s.ago(6.5))
        for part in (first.devices[2:], second.devices[2:])
    ]
    s.plant(
        "split-pods",
        "two pods of one gang on two nodes while a node of four was empty",
        pods[0],
        devices=[device for pod in pods for device in pod.devices],
    )
    together = [
        s.pod(part, s.ago(5), s.ago(0.5), "train", "together", submit_s=s.ago(5.1))
        for part in (third.devices[:2], third.devices[2:])
    ]
    s.decoy("pods-on-one-node", "two pods of one gang on one node", together[0])


@scene(DETECTOR, "tainted-node", rank=3, gpus=12, hours=8)
def tainted_node(s: Stage) -> None:
    """The two pods of a Kubernetes Job on two nodes; the third is empty, and its taint keeps them away."""
    first, second = (s.node(H200, "kubernetes", gpus=4) for _ in range(2))
    s.node(H200, "kubernetes", gpus=4, taints=(("gpuwatch.io/team", "other", "NoSchedule"),))
    s.pod(first.devices[:2], s.ago(7.7), None, "train-lean", "base-a")
    s.pod(second.devices[:2], s.ago(7.7), None, "train-lean", "base-b")
    pods = [
        s.pod(part, s.ago(6.4), s.ago(0.5), "train-split", "sharded", submit_s=s.ago(6.5))
        for part in (first.devices[2:], second.devices[2:])
    ]
    s.decoy("tainted-node", "the only node with four free GPUs has a taint", pods[0])


@scene(DETECTOR, "across-sockets", rank=2, gpus=8, hours=8)
def across_sockets(s: Stage) -> None:
    """A node without NVLink: a pair on two sockets while pairs behind one PCIe switch were free."""
    node = s.node(L40S, links="pcie", leaf=s.tag)
    gpus = node.devices
    far = s.job((gpus[1], gpus[6]), s.ago(7), s.ago(0.5), "train-socket", "resnet-ddp")
    s.plant("across-sockets", "a pair on two sockets while four pairs behind one switch were free", far)
    near = s.job(gpus[2:4], s.ago(6.2), s.ago(0.5), "train-pcie", "resnet-ddp")
    s.decoy("one-switch", "a pair behind one PCIe switch: the best there is without NVLink", near)
    trials = s.job((gpus[0], gpus[7]), s.ago(6), s.ago(0.6), "trial", "sweep")
    s.decoy("independent-trials", "two sockets, but nothing crosses: all links are quiet", trials)


@scene(DETECTOR, "could-not-be-better", rank=3, gpus=12, hours=9)
def could_not_be_better(s: Stage) -> None:
    """Spanning where nothing nearer was free, where one node is too small, and where the job says that it bears it."""
    first, second, third = (s.node(A100, gpus=4, leaf=s.tag) for _ in range(3))
    for node in (first, second, third):
        s.job(node.devices[:2], s.ago(8.8), s.ago(4.4), "train-lean")
    forced = s.job(first.devices[2:] + second.devices[2:], s.ago(8), s.ago(4.5), "train-split")
    s.decoy("no-node-was-free", "every node had two jobs when it started", forced)
    wide = s.job(first.devices + second.devices[:2], s.ago(4.2), s.ago(2.4), "train-wide")
    s.decoy("larger-than-a-node", "six GPUs do not fit on a node of four", wide)
    piped = s.job(
        second.devices[2:] + third.devices[:2],
        s.ago(2.2),
        s.ago(0.2),
        "train-split",
        owner=s.labelled(("gpuwatch.io/parallelism", "pipeline")),
    )
    s.decoy("pipeline-parallel", "split between stages, as its label says", piped)
