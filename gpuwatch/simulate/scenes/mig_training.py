"""Distributed training on MIG slices, and what may well run there."""

from __future__ import annotations

from gpuwatch.simulate.models import A100, H100
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "mig-training"
OPERATOR = "training.kubeflow.org/job-name"


@scene(DETECTOR, "pytorchjob", rank=1, gpus=2, hours=9)
def pytorchjob(s: Stage) -> None:
    """Four workers of a PyTorchJob, each on a slice; beside it a single fine-tune and a service of two pods."""
    node = s.node(H100, "kubernetes", gpus=2, layouts=[("2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb")])
    slices = node.devices
    labels = ((OPERATOR, f"{s.tag}-ddp"), ("training.kubeflow.org/job-role", "worker"))
    workers = (slices[0], slices[1], slices[2], slices[4])
    members = [
        s.pod((device,), s.ago(8.5), s.ago(0.5), "slice-gang", "ddp", "PyTorchJob", labels=labels, submit_s=s.ago(8.6))
        for device in workers
    ]
    s.plant("pytorchjob", "four workers of one gang, each on a slice without NVLink", members[0], devices=workers)
    single = s.pod((slices[5],), s.ago(8.4), s.ago(0.4), "slice-train", "lora", "Job")
    s.decoy("single-fine-tune", "one slice trains alone", single)
    for device in (slices[3], slices[7]):
        service = s.pod((device,), s.ago(8.4), None, "slice-serve", "chat", "ReplicaSet", "chat-prod")
    s.decoy("replicas", "two replicas of a service need not talk to each other", service)


@scene(DETECTOR, "mpijob", rank=2, gpus=1, hours=9)
def mpijob(s: Stage) -> None:
    """Two ranks of an MPIJob on two slices of one GPU."""
    node = s.node(A100, "kubernetes", gpus=1, layouts=[("3g.40gb", "3g.40gb")])
    labels = (("training.kubeflow.org/job-name", f"{s.tag}-mpi"), ("training.kubeflow.org/job-role", "worker"))
    members = [
        s.pod((device,), s.ago(8), s.ago(0.5), "slice-gang", "mpi", "MPIJob", labels=labels, submit_s=s.ago(8.1))
        for device in node.devices
    ]
    s.plant("mpijob", "two ranks on two slices of one GPU", members[0], devices=node.devices)


@scene(DETECTOR, "on-whole-gpus", rank=3, gpus=4, hours=7)
def on_whole_gpus(s: Stage) -> None:
    """The same PyTorchJob where it belongs."""
    node = s.node(A100, "kubernetes", gpus=4)
    labels = ((OPERATOR, f"{s.tag}-ddp"), ("training.kubeflow.org/job-role", "worker"))
    members = [
        s.pod((device,), s.ago(6.5), s.ago(0.5), "train", "ddp", "PyTorchJob", labels=labels, submit_s=s.ago(6.6))
        for device in node.devices
    ]
    s.decoy("whole-gpus", "four workers on four GPUs of one node", members[0])
