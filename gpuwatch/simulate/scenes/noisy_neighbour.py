"""Shared GPUs: a pod that takes the time of its neighbours, and pods that get along."""

from __future__ import annotations

from gpuwatch.simulate.courses import Cycle
from gpuwatch.simulate.models import A30, A100, L40S
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "noisy-neighbour"
MINUTE = 60
BURSTS: Cycle = (("share-noisy", 22 * MINUTE), ("share-low", 26 * MINUTE))


@scene(DETECTOR, "bursts-beside-a-service", rank=1, gpus=3, hours=9)
def bursts_beside_a_service(s: Stage) -> None:
    """Time-slicing: a service loses a third of its time whenever the batch job beside it works."""
    node = s.node(L40S, "kubernetes", gpus=3, links="pcie", replicas=3)
    shared, calm, own = node.devices
    victim = s.pod((shared,), s.ago(8.6), None, "share-victim", "api", "ReplicaSet", "chat-prod")
    noisy = s.pod((shared,), s.ago(8.5), None, BURSTS, "backfill", "Job")
    s.plant("bursts-beside-a-service", "loses a third of its time while the other bursts", victim)
    s.allow(DETECTOR, noisy, "the neighbour itself, which is slowed as well")
    for name in ("left", "right"):
        quiet = s.pod((calm,), s.ago(8.5), None, "share-low", name, "ReplicaSet", "chat-prod")
    s.decoy("room-for-both", "two services that together need half of the GPU", quiet)
    cycle: Cycle = (("share-serve", 30 * MINUTE), ("share-low", 30 * MINUTE))
    falls = s.pod((own,), s.ago(8.4), None, cycle, "tides", "ReplicaSet", "chat-prod")
    s.pod((own,), s.ago(8.4), None, "share-low", "steady", "ReplicaSet", "chat-prod")
    s.decoy("less-to-do", "its load falls by itself; its neighbour is even", falls)


@scene(DETECTOR, "slices", rank=2, gpus=1, hours=8)
def slices(s: Stage) -> None:
    """The same burst on a slice of its own: MIG keeps them apart."""
    node = s.node(A100, "kubernetes", gpus=1, layouts=[("3g.40gb", "3g.40gb")])
    steady = s.pod(node.devices[:1], s.ago(7.6), None, "slice-serve", "api", "ReplicaSet", "chat-prod")
    s.pod(node.devices[1:], s.ago(7.5), None, (("slice-busy", 20 * MINUTE), ("slice-serve", 20 * MINUTE)), "burst")
    s.decoy("isolated-by-mig", "a burst on the other slice", steady)


@scene(DETECTOR, "training-beside-a-service", rank=2, gpus=2, hours=10)
def training_beside_a_service(s: Stage) -> None:
    """A30: training in bursts of forty minutes beside a service; on the other GPU both are even."""
    node = s.node(A30, "kubernetes", gpus=2, links="pcie", replicas=2)
    shared, even = node.devices
    victim = s.pod((shared,), s.ago(9.6), None, "share-victim", "search", "ReplicaSet", "chat-prod")
    noisy = s.pod((shared,), s.ago(9.5), None, (("share-noisy", 40 * MINUTE), ("share-low", 35 * MINUTE)), "sft", "Job")
    s.plant("training-beside-a-service", "loses a third of its time for forty minutes of each 75", victim)
    s.allow(DETECTOR, noisy, "the neighbour itself, which is slowed as well")
    for name in ("first", "second"):
        pod = s.pod((even,), s.ago(9.5), None, "share-serve", name, "ReplicaSet", "chat-prod")
    s.decoy("both-even", "two even services that fill nine tenths of the GPU", pod)
