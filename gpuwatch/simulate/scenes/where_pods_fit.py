"""Waiting pods that name the nodes they may use: several pools, a model of GPU, a taint that they tolerate."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.simulate.fleet import Node
from gpuwatch.simulate.kubernetes import no_room
from gpuwatch.simulate.models import A100, H100, H200, Model
from gpuwatch.simulate.runs import Run
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Json, Stage

DETECTOR = "fragmentation"
HALF = 2
"""GPUs of a node of four that a pod holds, so that a pod of four fits on no node."""
ELSEWHERE = 40
"""Nodes of the cluster that the scheduler's message counts as not selected."""
PRODUCT = "nvidia.com/gpu.product"


@scene(DETECTOR, "either-pool", rank=3, gpus=12, hours=8)
def either_pool(s: Stage) -> None:
    """A pod may use two pools. One has pieces, the other is full. The events of its long wait are gone."""
    pieces, full = f"{s.tag}-pieces", f"{s.tag}-full"
    nodes = _halves(s, A100, 2, pieces)
    busy = s.node(H100, "kubernetes", gpus=4, pool=full)
    s.pod(busy.devices, s.ago(7.6), None, "train-lean", "all-four")
    _waits(s, "either", 4.5, _message(3), _affinity(pieces, full))
    since = s.ago(4.5)
    s.plant("either-pool", "four GPUs free in two pieces; of the two pools it may use, one is full", ("pool", pieces),
            devices=[device for node in nodes for device in node.devices[HALF:]], since_s=since)  # fmt: skip
    s.decoy("full-pool", "it may use this pool too, and nothing is free there", ("pool", full), since_s=since)
    _held_by_half(s, nodes)


@scene(DETECTOR, "by-model", rank=3, gpus=24, hours=8)
def by_model(s: Stage) -> None:
    """Pools with two models of GPU, and pods that select one of them: the one in pieces, and the one that is full."""
    mixed, other = f"{s.tag}-mixed", f"{s.tag}-other"
    nodes = _halves(s, A100, 2, mixed)
    whole = s.node(H200, "kubernetes", gpus=4, pool=mixed)
    s.pod(whole.devices, s.ago(7.6), None, "train-lean", "whole")
    _waits(s, "a100", 3.2, _message(2), _selects(A100, mixed))
    s.plant("selected-model", "four GPUs of the model it selects are free in two pieces", ("pool", mixed),
            devices=[device for node in nodes for device in node.devices[HALF:]], since_s=s.ago(3.2))  # fmt: skip
    away = _halves(s, A100, 2, other)
    busy = s.node(H200, "kubernetes", gpus=4, pool=other)
    s.pod(busy.devices, s.ago(7.6), None, "train-lean", "busy")
    _waits(s, "h200", 3.2, _message(1), _selects(H200, other))
    s.decoy("another-model", "what lies in pieces is not the model that it selects", ("pool", other))
    _held_by_half(s, nodes + away)


@scene(DETECTOR, "tolerated", rank=3, gpus=8, hours=8)
def tolerated(s: Stage) -> None:
    """A pool with a taint that the waiting pod tolerates."""
    pool = f"{s.tag}-team"
    nodes = _halves(s, H200, 2, pool, taints=(("dedicated", "training", "NoSchedule"),))
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "training", "effect": "NoSchedule"}]
    _waits(s, "tolerant", 3.4, _message(2), {"tolerations": tolerations} | _selects(H200, pool))
    s.plant("tolerated-taint", "four GPUs free in two pieces behind a taint that it tolerates", ("pool", pool),
            devices=[device for node in nodes for device in node.devices[HALF:]], since_s=s.ago(3.4))  # fmt: skip
    _held_by_half(s, nodes)


def _halves(s: Stage, model: Model, count: int, pool: str, **more: object) -> list[Node]:
    """Nodes of four GPUs that a pod had in whole, and of which pods of two have half since."""
    nodes = [s.node(model, "kubernetes", gpus=2 * HALF, pool=pool, **more) for _ in range(count)]  # type: ignore[arg-type]
    for at, node in enumerate(nodes):
        s.pod(node.devices, s.ago(7.7), s.ago(6.4), "train", f"{pool}-before-{at}")
        s.pod(node.devices[:HALF], s.ago(6.2), None, "train-lean", f"{pool}-half-{at}")
    return nodes


def _waits(s: Stage, name: str, hours: float, message: str, placement: Json) -> Run:
    """A pod of four GPUs whose wait only its PodScheduled condition shows."""
    return s.pod((), None, workload=name, gpus=2 * HALF, submit_s=s.ago(hours), reason=message, placement=placement,
                 events_kept=False)  # fmt: skip


def _affinity(*pools: str) -> Json:
    """Required node affinity for nodes of these pools."""
    expression = {"key": "nodepool", "operator": "In", "values": list(pools)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _selects(model: Model, pool: str) -> Json:
    """A nodeSelector for nodes of a pool with this model."""
    return {"nodeSelector": {PRODUCT: model.product, "nodepool": pool}}


def _message(short: int) -> str:
    """The scheduler's reason: so many nodes fit but for their GPUs, all others are not what the pod selects."""
    return no_room("nvidia.com/gpu", short, ELSEWHERE)


def _held_by_half(s: Stage, nodes: Sequence[Node]) -> None:
    for node in nodes:
        s.decoy("half-an-island", "who holds half of the island needs its links", ("node", node.name),
                detector="partial-island")  # fmt: skip
