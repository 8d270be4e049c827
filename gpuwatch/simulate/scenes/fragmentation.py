"""Free GPUs in pieces too small for what waits, and full pools, quotas and taints that only look so."""

from __future__ import annotations

from gpuwatch.simulate.fleet import Node
from gpuwatch.simulate.models import A100, H100, H200, Model
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "fragmentation"
ISLAND = 4


@scene(DETECTOR, "starved-shape", rank=1, gpus=16, hours=10)
def starved_shape(s: Stage) -> None:
    """Slurm: half of each node is free, and jobs of a whole node wait for hours."""
    nodes = _pieces(s, H100, 4)
    for hours in (4.1, 3.4):
        s.job((), None, gpus=ISLAND, submit_s=s.ago(hours), reason="Resources", pool=nodes[0].pool)
    s.plant(
        "starved-shape",
        "eight GPUs free, none of the nodes whole, two jobs of four GPUs wait",
        ("pool", nodes[0].pool),
        devices=[device for node in nodes for device in node.devices[2:]],
        since_s=s.ago(4.1),
    )
    for node in nodes:
        s.plant(
            "one-gpu-jobs-on-an-island",
            "two jobs of one GPU keep an island of four from what waits",
            ("node", node.name),
            devices=node.devices[2:],
            since_s=s.ago(4.1),
            detector="partial-island",
        )


@scene(DETECTOR, "starved-pods", rank=2, gpus=12, hours=10)
def starved_pods(s: Stage) -> None:
    """Kubernetes: each node has some GPUs left, none all four that a pod needs."""
    nodes = [s.node(H200, "kubernetes", gpus=ISLAND) for _ in range(3)]
    for at, node in enumerate(nodes):
        whole = s.pod(node.devices, s.ago(9.8), s.ago(7.1), "train", f"whole-{at}")
        assert whole.end_s is not None
        for index in range(2 - at % 2):
            s.pod(node.devices[index : index + 1], s.ago(6.9), None, "batch", f"small-{at}-{index}")
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: no preemption victims found."
    s.pod(
        (),
        None,
        workload="big",
        gpus=ISLAND,
        submit_s=s.ago(3),
        reason=message,
        pool=nodes[0].pool,
        queue=nodes[0].pool,
    )
    s.plant(
        "starved-pods", "seven GPUs free, a pod of four GPUs fits on no node", ("pool", nodes[0].pool), since_s=s.ago(3)
    )
    for at, node in enumerate(nodes):
        used = 2 - at % 2
        s.plant(
            "small-pods-on-an-island",
            "pods of one GPU keep an island of four from what waits",
            ("node", node.name),
            devices=node.devices[used:],
            since_s=s.ago(3),
            detector="partial-island",
        )


@scene(DETECTOR, "held-back-by-quota", rank=3, gpus=12, hours=10)
def held_back_by_quota(s: Stage) -> None:
    """The same pieces, but what waits is held back by a limit of its owner, not by the room."""
    nodes = _pieces(s, A100, 3)
    for hours in (4.0, 3.0):
        s.job((), None, gpus=ISLAND, submit_s=s.ago(hours), reason="QOSMaxGRESPerUser", pool=nodes[0].pool)
    s.decoy("held-back-by-quota", "QOSMaxGRESPerUser: a limit, not a lack of room", ("pool", nodes[0].pool))
    for node in nodes:
        s.decoy(
            "quota", "nothing that could start waits for the island", ("node", node.name), detector="partial-island"
        )


@scene(DETECTOR, "small-demand", rank=3, gpus=8, hours=10)
def small_demand(s: Stage) -> None:
    """Half of each node is free and everybody wants one GPU."""
    nodes = [s.node(A100, gpus=ISLAND, leaf=s.tag) for _ in range(2)]
    for node in nodes:
        for index in range(2):
            s.job(node.devices[index : index + 1], s.ago(9.8), s.ago(5), "batch")
            s.job(node.devices[index : index + 1], s.ago(4.9), None, "batch")
    s.decoy("small-demand", "only jobs of one GPU come to this pool, and they fit", ("pool", nodes[0].pool))
    for node in nodes:
        s.decoy("nobody-waits", "no demand for the whole island", ("node", node.name), detector="partial-island")


@scene(DETECTOR, "tainted", rank=4, gpus=8, hours=8)
def tainted(s: Stage) -> None:
    """A pod waits because it does not tolerate the pool's taint."""
    taint = (("dedicated", "inference", "NoSchedule"),)
    nodes = [s.node(A100, "kubernetes", gpus=ISLAND, taints=taint) for _ in range(2)]
    for at, node in enumerate(nodes):
        s.pod(node.devices[:1], s.ago(7.8), None, "serve", f"infer-{at}", "ReplicaSet", "chat-prod")
    message = "0/2 nodes are available: 2 node(s) had untolerated taint {dedicated: inference}. no preemption victims."
    s.pod((), None, workload="stranger", gpus=ISLAND, submit_s=s.ago(3), reason=message, pool=nodes[0].pool)
    s.decoy("tainted", "the pod does not tolerate the taint: room would not help", ("pool", nodes[0].pool))
    for node in nodes:
        s.decoy("tainted", "the pod does not tolerate the taint", ("node", node.name), detector="partial-island")


def _pieces(s: Stage, model: Model, count: int) -> list[Node]:
    """Nodes of one island that jobs of their size had before; since then two jobs of one GPU have half of each."""
    nodes = [s.node(model, gpus=ISLAND, leaf=s.tag) for _ in range(count)]
    for node in nodes:
        s.job(node.devices, s.ago(9.8), s.ago(7.2), "train")
        for index in range(2):
            s.job(node.devices[index : index + 1], s.ago(7.0 - 0.1 * index), None, "batch", "score-batch")
    return nodes
